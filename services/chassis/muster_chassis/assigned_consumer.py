"""Consuming alone: every partition of its topics, with offsets in PostgreSQL, in the handler's transaction.

The scheduler and its standby read with it: an offset is then durable exactly when what it led to is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from muster_chassis import kafka
from muster_chassis.bus import Bus, Session
from muster_chassis.consumer import Consumer
from muster_chassis.database import Database
from muster_chassis.intake import Place
from muster_chassis.partitions import position
from muster_chassis.topics import Topic

_SEEK_SECONDS: Final = 2.0


class AssignedConsumer(Consumer):
    """Reads every partition of its topics by itself; offsets in PostgreSQL, in the handler's transaction.

    from_beginning: ignores stored offsets at each start, for memory that is rebuilt from a compacted topic.
    """

    def __init__(self, database: Database, bus: Bus, *, from_beginning: bool = False, **options: Any) -> None:
        super().__init__(database, bus, stores_offsets=not from_beginning, **options)
        self._from_beginning = from_beginning
        self._opened: frozenset[str] = frozenset()

    def add(self, topic: Topic) -> None:
        """Reads one more topic from now on (a cluster was registered)."""
        if topic.name not in self.intake.topics:
            self.topics.append(topic)
            self.intake.topics[topic.name] = topic

    async def _changed(self, consumer: AIOKafkaConsumer) -> bool:
        wanted = frozenset(topic.name for topic in self.topics)
        if wanted == self._opened:
            return False
        counts = await self._bus.wait_for(sorted(wanted))
        found = {tp: await position(consumer, tp) for tp in consumer.assignment()}
        positions = {tp: at for tp, at in found.items() if at is not None}
        await self._assign(consumer, counts, positions)
        self.caught_up.clear()
        return False

    async def _open(self, session: Session) -> AIOKafkaConsumer:
        consumer = kafka.consumer(
            self._bus.broker, client=f"{self._bus.client}-{self.name}", committed_only=self._committed_only
        )
        try:
            await consumer.start()
            counts = await self._bus.wait_for([topic.name for topic in self.topics])
            await self._assign(consumer, counts, {})
        except BaseException:
            await kafka.stop(consumer)
            raise
        return consumer

    async def _assign(
        self, consumer: AIOKafkaConsumer, counts: Mapping[str, int], positions: Mapping[TopicPartition, int]
    ) -> None:
        partitions = [TopicPartition(name, number) for name, count in counts.items() for number in range(count)]
        stored = {} if self._from_beginning else await self._stored_offsets()
        consumer.assign(partitions)
        new = []
        for tp in partitions:
            at = positions.get(tp, stored.get((tp.topic, tp.partition)))
            if at is None:
                new.append(tp)
            else:
                consumer.seek(tp, at)
        if new:
            with suppress(TimeoutError):  # a partition without a leader gets its position once it has one
                async with asyncio.timeout(_SEEK_SECONDS):
                    await consumer.seek_to_beginning(*new)
        self._opened = frozenset(counts)

    async def _stored_offsets(self) -> dict[Place, int]:
        rows = await self._database.pool.fetch(
            "SELECT topic, partition, next_offset FROM consumer_offsets WHERE consumer = $1 AND bus = $2",
            self.name,
            self.intake.bus,
        )
        return {(row["topic"], row["partition"]): row["next_offset"] for row in rows}

    async def _durable(
        self, consumer: AIOKafkaConsumer, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        stored = await self._stored_offsets()
        return {tp: stored[tp.topic, tp.partition] for tp in partitions if (tp.topic, tp.partition) in stored}
