"""The other side of an agent's topics, for many cases at once: writes what a scheduler would, keeps what is reported.

One task reads; cases wait for messages and are woken by each new one.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from google.protobuf.message import Message

from muster.fleet.v1 import fleet_pb2
from muster_chassis import kafka, topics
from muster_chassis.broker import Broker
from muster_chassis.topic_admin import create_topics
from muster_kernel.reasons import ChangeReason
from tests.support.agents import REPORTED
from tests.support.identities import signed

SUSPENDED: Final = ChangeReason.SUSPENDED.value
PATIENCE: Final = 60.0  # seconds; a case that waits longer has failed


@dataclass
class Bus:
    """The topics of one cluster. seen: everything that was reported, in order."""

    cluster: str
    producer: AIOKafkaProducer
    consumer: AIOKafkaConsumer
    epoch: int = 1
    seen: list[Message] = field(default_factory=list)
    _of: dict[str, list[Message]] = field(default_factory=lambda: defaultdict(list))
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)
    _trouble: Exception | None = None

    async def assign(self, assignment: fleet_pb2.Assignment) -> None:
        """Writes the desired state of a workload."""
        assignment.epoch = assignment.epoch or self.epoch
        await self.write(assignment.workload_id, assignment.SerializeToString())

    async def release(
        self, workload: str, *, generation: int = 1, attempt: int = 0, grace: float = 1, reason: str = SUSPENDED
    ) -> None:
        """Writes a tombstone."""
        said = {"generation": generation, "attempt": attempt, "epoch": self.epoch, "grace": grace, "reason": reason}
        await self.write(workload, None, [(name, str(value).encode()) for name, value in said.items()])

    async def write(
        self, key: str, value: bytes | None, headers: Sequence[tuple[str, bytes]] = (), *, signed_as: str | None = ""
    ) -> None:
        """Any record on the assignments topic. signed_as: for another key than its own; None: it is not signed."""
        topic = topics.assignments(self.cluster).name
        written = list(({"ce_source": b"scheduler"} | dict(headers)).items())
        whole = written if signed_as is None else signed(topic, signed_as or key, value, written)
        await self.producer.send_and_wait(topic, value, key=key.encode(), headers=whole)

    async def first(self, wanted: Callable[[Any], object], *, workload: str = "", within: float = PATIENCE) -> Any:
        """The first message that is wanted, of one workload or of all. Raises TimeoutError."""
        messages = self._of[workload] if workload else self.seen
        looked_at = 0
        async with asyncio.timeout(within), self._news:
            while True:
                for message in messages[looked_at:]:
                    if wanted(message):
                        return message
                if self._trouble is not None:
                    raise AssertionError("the bus is not read any more") from self._trouble
                looked_at = len(messages)
                await self._news.wait()

    def of(self, workload: str) -> list[Message]:
        """What was reported of a workload so far."""
        return self._of[workload]

    def forget(self) -> None:
        """Only what comes from now on counts."""
        self.seen.clear()
        self._of.clear()

    async def read(self) -> None:
        """Reads for ever. Where that fails, each case that waits hears of it."""
        try:
            await self._read()
        except Exception as error:
            async with self._news:
                self._trouble = error
                self._news.notify_all()
            raise

    async def _read(self) -> None:
        dead_letters = topics.DEAD_LETTERS.name
        ours = topics.assignments(self.cluster).name
        while True:
            batches = await self.consumer.getmany(timeout_ms=1000)
            found = []
            for record in (record for batch in batches.values() for record in batch):
                message = REPORTED[dict(record.headers)["ce_type"].decode()].FromString(record.value or b"")
                if record.topic != dead_letters or getattr(message, "topic", "") == ours:
                    found.append(message)
            if not found:
                continue
            async with self._news:
                for message in found:
                    self.seen.append(message)
                    self._of[getattr(message, "workload_id", "")].append(message)
                self._news.notify_all()


@asynccontextmanager
async def bus(bootstrap: str, cluster: str) -> AsyncIterator[Bus]:
    """The topics of a cluster, made and read until the block ends."""
    wanted = [topics.assignments(cluster), topics.reports(cluster), topics.SAMPLES, topics.DEAD_LETTERS]
    await create_topics(Broker(bootstrap), wanted, client="test")
    producer = kafka.producer(Broker(bootstrap), client="test")
    consumer = kafka.consumer(Broker(bootstrap), client="test")
    await producer.start()
    await consumer.start()
    read = [TopicPartition(topic.name, p) for topic in (wanted[1], wanted[3]) for p in range(topic.partitions)]
    consumer.assign(read)
    await consumer.seek_to_beginning(*read)
    made = Bus(cluster, producer, consumer)
    reading = asyncio.create_task(made.read())
    try:
        yield made
    finally:
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
        await consumer.stop()
        await producer.stop()
