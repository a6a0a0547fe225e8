"""The consumer loop: reads, hands over to the intake, commits offsets afterwards, and never ends by itself.

The base of two kinds, which differ in how they get partitions and where offsets are kept: `group_consumer.py` and
`assigned_consumer.py`. A loop that cannot reach Kafka or PostgreSQL waits and tries again; on another bus it begins
anew.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import asyncpg
from aiokafka import AIOKafkaConsumer, TopicPartition
from google.protobuf.message import Message

from muster_chassis import kafka, logs, metrics
from muster_chassis.attempts import patiently
from muster_chassis.backoff import Backoff
from muster_chassis.breakers import Tripped
from muster_chassis.bus import Bus, BusLost, Session
from muster_chassis.codec import Decoder, origin_of
from muster_chassis.database import PASSING, Database, transient
from muster_chassis.intake import Handler, Intake, Place
from muster_chassis.kafka import KAFKA_TROUBLE
from muster_chassis.partitions import Partitions, position
from muster_chassis.topics import Topic
from muster_chassis.unit import Unit

_log = logs.get(__name__)
_POLL_MS: Final = 200
_RECORDS: Final = 500
_SWEEP_SECONDS: Final = 0.5
_STOP_SECONDS: Final = 5.0
_OFFLINE_SECONDS: Final = 10.0  # a broker that starts again takes less
_FRESH_SECONDS: Final = 2.0  # since Kafka last said where a partition ends; it does so several times a second

HOP = metrics.histogram(
    "muster_hop_seconds",
    unit="seconds",
    meaning="From staging an event in its producer to its being handed to the handler here (newest of each poll).",
    action="Slow: compare with muster_outbox_seconds of the producer; the rest is Kafka or this consumer.",
    labels=("topic",),
)
MISSED = metrics.counter(
    "muster_records_missed_total",
    unit="records",
    meaning="Records that Kafka removed before this consumer read them, because it was away for longer than they live.",
    action="Have the topic published again: muster dead-letters republish --topic T.",
    labels=("topic",),
)


class Consumer(ABC):
    """What both kinds share.

    caught_up: set once every partition was read to the end that it had at the start. A topic that has stopped is not
    waited for, and a partition that is offline for 10 s is not either: `unread` names them.
    """

    def __init__(  # noqa: PLR0913 - all by name; most have a default
        self,
        database: Database,
        bus: Bus,
        *,
        name: str,
        topics: Sequence[Topic],
        handler: Handler,
        decoder: Decoder,
        decoders: Mapping[str, Decoder] | None = None,
        unparked: Iterable[type[Message]] = (),
        begin: Callable[[Unit], Awaitable[None]] | None = None,
        records: int = _RECORDS,
        stores_offsets: bool = False,
        committed_only: bool = False,
    ) -> None:
        """`name`: the group, or the name under which offsets are stored. The rest as Intake has it."""
        self.name = name
        self.topics = list(topics)
        self.caught_up = asyncio.Event()
        self.intake = Intake(
            database,
            handler,
            topics,
            decoder,
            decoders=decoders,
            unparked=unparked,
            begin=begin,
            consumer=name if stores_offsets else "",
            health=bus.health,
        )
        self._database = database
        self._bus = bus
        self._records = records
        self._committed_only = committed_only
        self._stopping = asyncio.Event()
        self._finished = asyncio.Event()
        self._partitions = Partitions(bus.health)
        self._read_to_end: set[TopicPartition] = set()
        self._unread: frozenset[TopicPartition] = frozenset()
        self._done: dict[Place, int] = {}
        self._until: dict[str, dict[int, float]] = {}
        self._noted = self._swept = 0.0

    async def run(self) -> None:
        """Consumes until `stop`. Raises Deposed and OutcomeUnknown for a leader, nothing else."""
        backoff = Backoff()
        self._finished.clear()
        try:
            while not self._stopping.is_set():
                try:
                    async with self._bus.session() as session:
                        await self._consume(session, backoff)
                except BusLost:
                    _log.info("the consumer begins anew on another bus", consumer=self.name)
                except (*KAFKA_TROUBLE, *PASSING) as error:
                    if isinstance(error, asyncpg.InterfaceError) and not transient(error):
                        raise
                    _log.warning("the consumer tries again", consumer=self.name, error=repr(error))
                    await backoff.pause()
        finally:
            self._finished.set()

    def read_until(self, topic: str) -> float | None:
        """Until when everything on a topic is read and handled, in seconds since 1970; None: nothing is known yet.

        The present time where its end is reached. It stands still while the topic is stopped or Kafka does not answer,
        and lags behind while there is more to read than can be handled.
        """
        known = self._until.get(topic, {})
        if any(tp.topic == topic and tp.partition not in known for tp in self._partitions.waiting):
            return None
        return min(known.values(), default=None)

    def unread(self, topic: str) -> bool:
        """Return whether a partition of the topic has not been read to the end that it had at the start."""
        return any(tp.topic == topic for tp in self._unread)

    async def stop(self) -> None:
        """Finishes the batch in hand, commits offsets and returns when that is done."""
        self._stopping.set()
        await self._finished.wait()

    @abstractmethod
    async def _open(self, session: Session) -> AIOKafkaConsumer:
        """A started consumer with its partitions and positions."""

    async def _commit(self, consumer: AIOKafkaConsumer, *, force: bool = False) -> None:  # noqa: B027 - may be nothing
        """Tells Kafka how far it is; nothing to do where offsets are in PostgreSQL."""

    async def _changed(self, consumer: AIOKafkaConsumer) -> bool:
        """Whether the set of topics has changed, so that the consumer must be opened anew."""
        return False

    async def _consume(self, session: Session, backoff: Backoff) -> None:
        self._done.clear()
        self._forget_ends()
        self.intake.bus = session.cluster_id
        await self._bus.wait_for([topic.name for topic in self.topics])
        await self.intake.breakers.look()
        consumer = await self._open(session)
        lost = True
        try:
            while not self._stopping.is_set() and not await self._changed(consumer):
                self._pause_stopped(consumer)
                polled = await self._readable(
                    consumer, await consumer.getmany(timeout_ms=_POLL_MS, max_records=self._records)
                )
                if polled:
                    await self._process(consumer, polled)
                    backoff.reset()
                await self._note_read(consumer)
                await self._note_until(consumer)
                await self._commit(consumer)
                await self._sweep(consumer)
            lost = False
        finally:
            self._partitions.forget()
            if lost:
                kafka.discard(consumer)
            else:
                await self._close(consumer)

    async def _process(self, consumer: AIOKafkaConsumer, polled: Mapping[TopicPartition, Sequence[Any]]) -> None:
        origins = [origin_of(record) for records in polled.values() for record in records]
        for tp, records in polled.items():
            HOP.labels(tp.topic).observe(max(0.0, time.time() - records[-1].timestamp / 1000))
        try:
            await self.intake.process(origins, self._done)
        except Tripped as tripped:
            await self._trip(consumer, polled, str(tripped))
        else:
            now = time.time()
            for tp, records in polled.items():
                # A producer's clock that is ahead says nothing about what was read.
                self._know(tp, min(now, records[-1].timestamp / 1000))

    async def _trip(self, consumer: AIOKafkaConsumer, polled: Iterable[TopicPartition], topic: str) -> None:
        """Stops one topic. What the poll brought and was not handled yet is read again, the others' records too."""
        reason = self.intake.breakers.stopped[topic]
        _log.error("the consumer of a topic has stopped until it is resumed", topic=topic, reason=reason)
        self._bus.health.bad(f"consumer {topic}", reason, at_once=True)
        await patiently(lambda: self.intake.breakers.remember(topic))
        for tp in polled:
            position = self._done.get((tp.topic, tp.partition))
            if position is not None:
                consumer.seek(tp, position)
            else:
                await self._rewind(consumer, tp)

    @abstractmethod
    async def _durable(
        self, consumer: AIOKafkaConsumer, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        """The offsets that are kept for these partitions, without those that have none."""

    async def _rewind(self, consumer: AIOKafkaConsumer, tp: TopicPartition) -> None:
        """Goes back to the last durable offset of a partition of which nothing was handled since the start."""
        at = (await self._durable(consumer, [tp])).get(tp)
        if at is None:
            await consumer.seek_to_beginning(tp)
        else:
            consumer.seek(tp, at)

    def _pause_stopped(self, consumer: AIOKafkaConsumer) -> None:
        assigned, paused = consumer.assignment(), consumer.paused()
        stopped = {tp for tp in assigned if tp.topic in self.intake.breakers.stopped}
        for topic in {tp.topic for tp in paused - stopped}:
            self._bus.health.good(f"consumer {topic}")
        wanted = stopped | (assigned & self._partitions.waiting)
        if wanted - paused:
            consumer.pause(*(wanted - paused))
        if paused - wanted:
            consumer.resume(*(paused - wanted))

    async def _sweep(self, consumer: AIOKafkaConsumer) -> None:
        now = time.monotonic()
        if now - self._swept < _SWEEP_SECONDS:
            return
        self._swept = now
        self._partitions.show(consumer)
        mine = {(tp.topic, tp.partition) for tp in consumer.assignment()}
        await self.intake.sweep(lambda place: place in mine)
        breakers = self.intake.breakers
        await breakers.progress()
        if breakers.stopped or breakers.resumptions:
            await breakers.look()

    async def _readable(
        self, consumer: AIOKafkaConsumer, polled: Mapping[TopicPartition, Sequence[Any]]
    ) -> Mapping[TopicPartition, Sequence[Any]]:
        """Return what was polled, without partitions whose extent is unknown. Those are read once it is known."""
        learnt = await self._partitions.learn(consumer)
        cut = {tp: extent.first for tp, extent in learnt.items() if extent.first > 0}
        self.intake.cut |= {(tp.topic, tp.partition) for tp in cut}
        await self._tell_missed(consumer, cut)
        waiting = self._partitions.waiting
        for tp in polled.keys() & waiting:
            consumer.seek(tp, polled[tp][0].offset)
        return {tp: records for tp, records in polled.items() if tp not in waiting}

    async def _tell_missed(self, consumer: AIOKafkaConsumer, firsts: Mapping[TopicPartition, int]) -> None:
        """Tell of records that are gone and were not read. Kafka's client goes on behind them without a word."""
        asked = [tp for tp in firsts if not self.intake.topics[tp.topic].compacted]
        if not asked:
            return
        for tp, at in (await self._durable(consumer, asked)).items():
            missed = firsts[tp] - at
            if missed <= 0:
                continue
            MISSED.labels(tp.topic).inc(missed)
            _log.error(
                "Kafka has removed records that were not read: publish the topic again (muster dead-letters republish)",
                topic=tp.topic,
                partition=tp.partition,
                records=missed,
            )

    async def _note_read(self, consumer: AIOKafkaConsumer) -> None:
        """Marks what has been read to the end, after it was handled.

        A position counts, not a record: transaction markers and compaction leave offsets without a record.
        """
        assigned = consumer.assignment()
        for tp in assigned - self._read_to_end:
            extent, at = self._partitions.known.get(tp), await position(consumer, tp)
            if extent is not None and at is not None and at >= extent.end:
                self._read_to_end.add(tp)
        self._unread = frozenset(assigned - self._read_to_end)
        if not assigned or self.caught_up.is_set():
            return
        stopped, offline = self.intake.breakers.stopped, self._partitions.offline(_OFFLINE_SECONDS)
        if all(tp.topic in stopped or tp in offline for tp in self._unread):
            self.caught_up.set()

    async def _note_until(self, consumer: AIOKafkaConsumer) -> None:
        """Notes the present time for partitions whose end is reached, as Kafka has just told it."""
        now, assigned = time.time(), consumer.assignment()
        if 0 <= now - self._noted < _SWEEP_SECONDS:
            return
        self._noted = now
        for tp in assigned - consumer.paused():
            told = consumer.last_poll_timestamp(tp)
            if told is None or now - told / 1000 > _FRESH_SECONDS:
                continue
            end = consumer.last_stable_offset(tp) if self._committed_only else consumer.highwater(tp)
            at = await position(consumer, tp)
            if end is not None and at is not None and at >= end:
                self._know(tp, now)
        for topic, numbers in self._until.items():
            for number in [one for one in numbers if TopicPartition(topic, one) not in assigned]:
                del numbers[number]

    def _know(self, tp: TopicPartition, until: float) -> None:
        """Everything on a partition is handled up to that moment."""
        known = self._until.setdefault(tp.topic, {})
        known[tp.partition] = max(known.get(tp.partition, 0.0), until)

    def _forget_ends(self) -> None:
        self.caught_up.clear()
        self._partitions.forget()
        self._read_to_end.clear()
        self.intake.cut = frozenset()

    async def _close(self, consumer: AIOKafkaConsumer) -> None:
        with suppress(*KAFKA_TROUBLE):
            async with asyncio.timeout(_STOP_SECONDS):
                await self._commit(consumer, force=True)
        await kafka.stop(consumer)
