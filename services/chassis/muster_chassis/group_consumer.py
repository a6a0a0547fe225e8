"""Consuming beside other instances of the service: Kafka hands out the partitions and keeps the offsets.

Submission and policy read with it. Offsets are committed after the transaction; a rebalance in between repeats records,
which the inbox drops.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import CommitFailedError, IllegalStateError, UnknownMemberIdError

from muster_chassis import kafka, logs
from muster_chassis.bus import Bus, Session
from muster_chassis.consumer import Consumer
from muster_chassis.database import Database
from muster_chassis.intake import Place
from muster_chassis.kafka import KAFKA_TROUBLE

_log = logs.get(__name__)
_COMMIT_SECONDS: Final = 0.5


class GroupConsumer(Consumer):
    """Shares its topics with the other instances of the service; offsets in Kafka, committed after the transaction.

    The group's name carries the id of the bus: offsets that were committed on another bus can then never apply.
    """

    def __init__(self, database: Database, bus: Bus, *, instance: str, **options: Any) -> None:
        """`instance`: stable name of this process, so that a restart gets its partitions back at once."""
        super().__init__(database, bus, **options)
        self._instance = instance
        self._committed: dict[Place, int] = {}
        self._committed_at = 0.0

    async def _open(self, session: Session) -> AIOKafkaConsumer:
        self._committed.clear()
        consumer = kafka.consumer(
            self._bus.broker,
            client=f"{self._bus.client}-{self.name}",
            group=f"{self.name}@{session.cluster_id}",
            group_instance=self._instance,
            committed_only=self._committed_only,
        )
        consumer.subscribe([topic.name for topic in self.topics], listener=_Handover(self, consumer))
        try:
            await consumer.start()
        except BaseException:
            await kafka.stop(consumer)
            raise
        return consumer

    async def _commit(self, consumer: AIOKafkaConsumer, *, force: bool = False) -> None:
        now = time.monotonic()
        if not force and now - self._committed_at < _COMMIT_SECONDS:
            return
        self._committed_at = now
        mine = {(tp.topic, tp.partition) for tp in consumer.assignment()}
        due = {place: at for place, at in self._done.items() if place in mine and self._committed.get(place) != at}
        if not due:
            return
        # A rebalance in between makes this commit fail: the next owner reads them again, and its inbox drops them.
        with suppress(CommitFailedError, IllegalStateError, UnknownMemberIdError):
            await consumer.commit({TopicPartition(*place): at for place, at in due.items()})
            self._committed.update(due)

    async def handed_over(self, consumer: AIOKafkaConsumer) -> None:
        """Before partitions go to another instance: commits what is done, forgets the rest."""
        with suppress(*KAFKA_TROUBLE):
            await self._commit(consumer, force=True)
        self._committed.clear()
        self._done.clear()
        self._forget_ends()

    async def _durable(
        self, consumer: AIOKafkaConsumer, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        found = {tp: await consumer.committed(tp) for tp in partitions}
        return {tp: at for tp, at in found.items() if at is not None}


class _Handover(ConsumerRebalanceListener):
    def __init__(self, owner: GroupConsumer, consumer: AIOKafkaConsumer) -> None:
        self._owner = owner
        self._consumer = consumer

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        if revoked:
            await self._owner.handed_over(self._consumer)

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        _log.info("partitions assigned", consumer=self._owner.name, partitions=len(assigned))
