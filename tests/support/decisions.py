"""Reads back from Kafka when workloads were submitted, admitted and placed, after a load has ended.

Called by the benchmarks. The times are the brokers' record timestamps, set by the producing service's clock at the
send.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise

from aiokafka import AIOKafkaConsumer, TopicPartition

from muster_chassis.topics import assignments, named

SENT, STARTED = "sent", "started"
STEPS = {
    "muster.submissions": "WorkloadSubmitted",
    "muster.admissions": "WorkloadAdmitted",
    "muster.decisions": "WorkloadPlaced",
}

Roads = dict[str, dict[str, float]]
"""Wall-clock seconds by workload id and step."""


async def roads(kafka: Mapping[str, str], since: float, cluster: str) -> Roads:
    """When each workload that was submitted after `since` reached each step, its Assignment in `cluster` last.

    kafka: how aiokafka's clients connect.
    """
    seen: Roads = defaultdict(dict)
    for topic, event in {**STEPS, assignments(cluster).name: "Assignment"}.items():
        for workload, at in await _times(kafka, topic, event):
            if at >= since:
                seen[workload].setdefault(event, at)
    return seen


def stages(found: Roads) -> dict[str, float]:
    """p50 milliseconds from each step to the next, over the workloads that have both; steps nobody has are left out."""
    steps = [SENT, *STEPS.values(), "Assignment", STARTED]
    present = [step for step in steps if any(step in road for road in found.values())]
    medians = {}
    for before, after in pairwise(present):
        waits = [road[after] - road[before] for road in found.values() if before in road and after in road]
        if waits:
            medians[f"{before} to {after}"] = round(statistics.median(waits) * 1000, 1)
    return medians


async def _times(kafka: Mapping[str, str], topic: str, event: str) -> list[tuple[str, float]]:
    consumer = AIOKafkaConsumer(**kafka, enable_auto_commit=False, auto_offset_reset="earliest")
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
