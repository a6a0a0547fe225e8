"""The highest epoch on the assignment topics: what a takeover has to exceed.

Read before every takeover, to the end of every topic, committed records only. A database that was restored from an
older copy would otherwise lead under an epoch that agents have already seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from aiokafka import TopicPartition

from muster.fleet.v1 import fleet_pb2
from muster_chassis import kafka
from muster_chassis.kafka import KAFKA_TROUBLE

_SECONDS: Final = 8.0
_POLL_MS: Final = 200


async def highest_epoch(bootstrap: str, topics: Sequence[str], *, client: str) -> int:
    """The highest epoch on `topics`; 0 where there is none. Raises TimeoutError where Kafka does not answer in time."""
    if not topics:
        return 0
    try:
        async with asyncio.timeout(_SECONDS):
            return await _read(bootstrap, topics, client)
    except KAFKA_TROUBLE as error:
        raise TimeoutError(f"the assignment topics could not be read: {error!r}") from error


async def _read(bootstrap: str, topics: Sequence[str], client: str) -> int:
    consumer = kafka.consumer(bootstrap, client=f"{client}-epochs", committed_only=True)
    await consumer.start()
    try:
        there = await kafka.partitions_of(bootstrap, topics, client=f"{client}-epochs")
        partitions = [TopicPartition(name, number) for name, count in there.items() for number in range(count)]
        if not partitions:
            return 0
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        ends = await consumer.end_offsets(partitions)
        highest = 0
        while any([await consumer.position(tp) < end for tp, end in ends.items()]):
            for records in (await consumer.getmany(timeout_ms=_POLL_MS)).values():
                highest = max(highest, *(_epoch(record) for record in records))
        return highest
    finally:
        await kafka.stop(consumer)


def _epoch(record: object) -> int:
    value, headers = getattr(record, "value", None), getattr(record, "headers", ())
    if value is not None:
        try:
            return fleet_pb2.Assignment.FromString(value).epoch
        except ValueError:
            return 0
    text = next((raw.decode("ascii", "replace") for name, raw in headers if name == "epoch"), "0")
    return int(text) if text.isdecimal() and len(text) < 20 else 0  # noqa: PLR2004 - stays below 2^64
