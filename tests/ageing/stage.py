"""A stack with work on it: what the acts of losing.py do with it and ask of it."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence
from typing import Any, Final

import asyncpg
from aiokafka import AIOKafkaConsumer, TopicPartition

from muster_chassis.topics import assignments
from muster_client import Muster
from tests.ageing.gauges import lags
from tests.support.stacks import RunningStack

PATIENCE: Final = 600.0
PROJECT: Final = "losses"
CLUSTERS: Final = ("alpha", "beta")
_BULK: Final = 500
_UNSENT: Final = """
SELECT coalesce((SELECT max(id) FROM {schema}.outbox WHERE lane = 0), 0) > coalesce((
    SELECT max(p.last) FROM {schema}.relay_positions p JOIN {schema}.bus_identity b ON b.cluster_id = p.bus
    WHERE p.lane = 0), 0)
"""
_TEXT: Final = """
apiVersion: run.ai/v2alpha1
kind: TrainingWorkload
metadata: {{name: {name}, namespace: runai-losses}}
spec:
  image: {{value: none}}
  gpu: {{value: '{gpu}'}}
  command: {{value: 'true'}}
"""


class Stage:
    """A running stack, a client of it, and a connection to its PostgreSQL."""

    def __init__(self, stack: RunningStack, muster: Muster, connection: asyncpg.Connection) -> None:
        self.stack = stack
        self.muster = muster
        self.connection = connection
        self._numbers = itertools.count()
        self._behind = ""  # why the stack was not quiet when it was asked last

    async def submit(self, prefix: str, count: int, gpu: str) -> list[str]:
        """Submit so many workloads; return their ids."""
        made = []
        for at in range(0, count, _BULK):
            many = range(at, min(count, at + _BULK))
            texts = [_TEXT.format(name=f"{prefix}-{next(self._numbers)}", gpu=gpu) for _ in many]
            for outcome in await self.muster.submit_many(texts, project=PROJECT):
                if isinstance(outcome, str):
                    made.append(outcome)
                else:
                    raise outcome
        return made

    async def places(self) -> dict[str, int]:
        """Return those that hold devices, and in which attempt."""
        rows = await self.connection.fetch(
            "SELECT DISTINCT w.id::text AS id, w.attempt FROM scheduler.workloads w "
            "JOIN scheduler.replicas r ON r.workload = w.id"
        )
        return {row["id"]: row["attempt"] for row in rows}

    async def count(self, sql: str, wanted: int) -> bool:
        """Return whether a count has reached what is wanted."""
        found: int = await self.connection.fetchval(sql)
        return found >= wanted

    async def quiet(self) -> bool:
        """Return whether every record is handled and every outbox is published."""
        if behind := await lags(self.stack.kafka, self.connection):
            self._behind = f"behind: {behind}"
            return False
        unsent = [
            await self.connection.fetchval(_UNSENT.format(schema=schema))
            for schema in ("submission", "policy", "scheduler")
        ]
        return not any(unsent)

    async def until(self, look: Any, what: str) -> None:
        """Wait until `look` is true; errors on the way are those of servers that come back. Raises TimeoutError."""
        deadline, trouble = time.monotonic() + PATIENCE, ""
        while time.monotonic() < deadline:
            try:
                if await look():
                    return
            except Exception as error:  # noqa: BLE001 - Kafka is just coming back
                trouble = repr(error)
            await asyncio.sleep(1)
        raise TimeoutError(f"not {what} within {PATIENCE:g} s {trouble} {self._behind}")

    async def recorded(self, workloads: Sequence[str]) -> bool:
        """Return whether the topics of the clusters have a record of each workload, and of no other."""
        last: dict[str, bool] = {}
        consumer = AIOKafkaConsumer(**self.stack.kafka, isolation_level="read_committed", enable_auto_commit=False)
        await consumer.start()
        try:
            partitions = [TopicPartition(assignments(name).name, 0) for name in CLUSTERS]
            ends = await consumer.end_offsets(partitions)
            consumer.assign(partitions)
            await consumer.seek_to_beginning(*partitions)
            deadline = time.monotonic() + 20
            while any([await consumer.position(tp) < end for tp, end in ends.items()]) and time.monotonic() < deadline:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    last |= {(record.key or b"").decode(): record.value is not None for record in records}
        finally:
            await consumer.stop()
        return {one for one, there in last.items() if there} == set(workloads)
