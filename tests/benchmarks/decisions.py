"""Reads back from Kafka when workloads were submitted, admitted and placed, after a load has ended.

Called by the benchmarks. The times are the brokers' record timestamps, set by the producing service's clock at the
send.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from itertools import pairwise

from aiokafka import AIOKafkaConsumer, TopicPartition

from muster_chassis.topics import named

_STEPS = {
    "muster.submissions": "WorkloadSubmitted",
    "muster.admissions": "WorkloadAdmitted",
    "muster.decisions": "WorkloadPlaced",
}


async def placements(bootstrap: str, since: float) -> tuple[list[float], dict[str, float]]:
    """Wall-clock seconds of every WorkloadPlaced after `since`, and p50 milliseconds between the steps on the way."""
    seen: dict[str, dict[str, float]] = defaultdict(dict)
    for topic, event in _STEPS.items():
        for workload, at in await _times(bootstrap, topic, event):
            if at >= since:
                seen[event].setdefault(workload, at)
    steps = list(_STEPS.values())
    stages = {}
    for before, after in pairwise(steps):
        both = seen[before].keys() & seen[after].keys()
        waits = [seen[after][workload] - seen[before][workload] for workload in both]
        stages[f"{before} to {after}"] = round(statistics.median(waits) * 1000, 1) if waits else -1.0
    return list(seen["WorkloadPlaced"].values()), stages


async def _times(bootstrap: str, topic: str, event: str) -> list[tuple[str, float]]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, auto_offset_reset="earliest")
    await consumer.start()
    found = []
    try:
        partitions = [TopicPartition(topic, number) for number in range(named(topic).partitions)]
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        await consumer.seek_to_beginning(*partitions)
        while any([await consumer.position(p) < ends[p] for p in partitions]):
            for records in (await consumer.getmany(timeout_ms=500, max_records=5000)).values():
                for record in records:
                    headers = dict(record.headers)
                    if headers.get("ce_type", b"").decode().endswith(f".{event}"):
                        found.append((headers["ce_subject"].decode(), record.timestamp / 1000))
    finally:
        await consumer.stop()
    return found
