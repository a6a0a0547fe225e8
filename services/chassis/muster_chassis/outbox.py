"""The relay: publishes outbox rows in commit order, for ever (rule 2).

Each lane has one task. The task reads `id > last`. This is safe because rows are inserted under a lock that is held
until the commit. The task wakes at once after a commit of any instance (`notifications`), and it polls as well. It
stores `last` from time to time. After a crash it sends some rows twice, under the same event ids; consumers drop the
duplicates.

Order matters only within a topic. A topic that accepts no records (it is missing, has no leader, or refuses this
service) waits alone at its own position (`waiting_topics`), and later catches up in order. The relay publishes the
other topics meanwhile.

The instance that holds a session lock sends the ordinary lane. The leader's transactional producer sends the
assignments lane: a new leader fences the old one at the broker.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import asyncpg
from aiokafka import TopicPartition
from aiokafka.errors import ProducerFenced

from muster_chassis import kafka, logs, metrics, republishing, standby
from muster_chassis.acknowledged import Acknowledged, Partition
from muster_chassis.backoff import Backoff
from muster_chassis.bus import Bus, BusLost, Session
from muster_chassis.connection import Connection, release
from muster_chassis.database import PASSING, TRANSIENT, Database, transient
from muster_chassis.kafka import KAFKA_TROUBLE
from muster_chassis.outbox_order import check_order
from muster_chassis.outbox_rows import PASS_ROWS, OutboxRows
from muster_chassis.partitions import extents
from muster_chassis.sending import Offset, Sender
from muster_chassis.signatures import RecordSigner
from muster_chassis.unit import ASSIGNMENTS, ORDINARY
from muster_chassis.waiting_topics import TopicsFailed, WaitingTopics, is_there

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiokafka import AIOKafkaProducer

_log = logs.get(__name__)
_POLL: Final = 0.25
_PERSIST: Final = 1.0
_LOCK_PAUSE: Final = 0.25
_COMPARE: Final = 60.0
_ASKING: Final = 3.0  # seconds to ask Kafka for end offsets; the lane waits meanwhile
_RETRY: Final = 5.0
_IDLE_SECONDS: Final = 15.0  # longer than _POLL, and longer than a pass waits for Kafka
_REMEMBER: Final = """
INSERT INTO relay_positions (lane, bus, last) VALUES ($1, $2, $3)
ON CONFLICT (lane, bus) DO UPDATE SET last = greatest(relay_positions.last, excluded.last)
"""

PUBLISHED = metrics.counter(
    "muster_outbox_published_total",
    unit="records",
    meaning="Outbox rows that Kafka has acknowledged.",
    action="Flat while the backlog grows: look at Kafka.",
    labels=("lane",),
)
LAG = metrics.histogram(
    "muster_outbox_seconds",
    unit="seconds",
    meaning="From staging the oldest row of a pass to Kafka's acknowledgement of the whole pass.",
    action="Slow: look at Kafka, then at long transactions that hold the outbox lock.",
    labels=("lane",),
)


class Fenced(Exception):
    """A takeover of the assignments by the producer of another leader."""


class Relay:
    """The publisher of one lane of one service's outbox."""

    def __init__(
        self,
        database: Database,
        bus: Bus,
        *,
        lane: int = ORDINARY,
        transactional_id: str | None = None,
        signer: RecordSigner | None = None,
        batch: int = PASS_ROWS,
    ) -> None:
        """Create a relay. signer: signs each published record; None if readers of the topics need no signature."""
        self._sender = Sender(database.source, signer, whole=transactional_id is not None)
        self._database = database
        self._bus = bus
        self._lane = lane
        self._transactional_id = transactional_id
        self._batch = batch
        self._wake = asyncio.Event()
        self._label = "assignments" if lane == ASSIGNMENTS else "ordinary"
        self._session = Session("")
        self._persisted = 0
        self._persist_at = 0.0
        self.waiting = WaitingTopics(lane, self._label, bus.health)
        self._known: set[str] = set()
        self._acknowledged = Acknowledged(lane)
        self._again_at = self._compare_at = 0.0
        self._standby = False
        self.last = 0
        """The id of the last row that Kafka has acknowledged, except for topics that wait."""
        database.on_published(self.wake)

    def wake(self) -> None:
        """Wake the relay: this instance or another one has committed something."""
        self._wake.set()

    async def run(self) -> None:
        """Publish for ever, through outages of Kafka and PostgreSQL. Raises only Fenced and OutOfOrder."""
        backoff = Backoff()
        while True:
            try:
                async with self._bus.session() as self._session:
                    await self._work(backoff)
            except BusLost:
                _log.info("the relay starts again on another bus", lane=self._label)
            except ProducerFenced as error:
                raise Fenced(f"{self._transactional_id} was taken over by another producer") from error
            except TopicsFailed as failed:
                _log.warning("topics wait, the relay goes on with the others", lane=self._label, why=str(failed))
            except (*KAFKA_TROUBLE, *PASSING) as error:
                if isinstance(error, asyncpg.InterfaceError) and not transient(error):
                    raise
                _log.warning("the relay tries again", lane=self._label, error=repr(error))
                await backoff.pause()

    async def drain(self, within: float) -> bool:
        """Wait until all committed rows are published, except for topics that wait; False after `within` seconds."""
        with suppress(TimeoutError, *TRANSIENT):
            async with asyncio.timeout(within):
                wanted = await self._database.pool.fetchval(
                    "SELECT coalesce(max(id), 0) FROM outbox WHERE lane = $1 AND topic <> ALL($2::text[])",
                    self._lane,
                    self.waiting.names,
                )
                while self.last < wanted:
                    self._wake.set()
                    await asyncio.sleep(0.01)
                return True
        return False

    async def _work(self, backoff: Backoff) -> None:
        async with self._connected() as connection, self._producing() as producer:
            self.last = self._persisted = await self._position(connection)
            await self.waiting.load(connection, self._session.cluster_id)
            await self._acknowledged.load(connection, self._session.cluster_id)
            self._known.clear()
            outbox = await OutboxRows.prepare(connection, self._lane, self._batch)
            while True:
                self._wake.clear()
                for topic in self.waiting.ready(producer):
                    last = self.waiting.last(topic)
                    found = await outbox.of_topic(topic, last, self.last)
                    if topic not in await self._pass(connection, producer, found.rows):
                        self.waiting.sent(topic, found.rows[-1]["id"] if found.rows else last, over=not found.more)
                found = await outbox.after(self.last, self.waiting.names)
                rows = found.rows
                if rows and not await self._confirmed(connection):
                    await backoff.pause()
                    continue
                if rows:
                    await self._pass(connection, producer, rows)
                    self.last = rows[-1]["id"]
                    backoff.reset()
                await self._remember(connection, force=not rows)
                again = await self._again(connection, producer)
                if not found.more and not again:
                    with suppress(TimeoutError):
                        # Not asyncio.wait_for: in 3.11 it loses a cancellation that arrives together with the event.
                        async with asyncio.timeout(_POLL):
                            await self._wake.wait()

    async def _again(self, connection: Connection, producer: AIOKafkaProducer) -> bool:
        """Publish one batch of the rows that were requested again; return whether there may be more."""
        now = time.monotonic()
        if now >= self._compare_at:
            self._compare_at = now + _COMPARE
            self._standby = await standby.is_named(connection)  # an operator may have changed it
            await self._lost(connection, self._acknowledged.compare(await self._ends()))
        if now < self._again_at:
            return False
        try:
            more = await republishing.step(
                connection,
                self._lane,
                self.last,
                self.waiting.names,
                lambda rows: self._publish(connection, producer, rows),
            )
        except TopicsFailed as failed:
            # The request stays open. The passes handle new rows of these topics themselves.
            _log.warning("topics are published again later", lane=self._label, why=str(failed))
            self._again_at = now + _RETRY
            return False
        self._again_at = 0.0 if more else now + _PERSIST
        return more

    async def _ends(self) -> dict[Partition, int]:
        """Return the end offsets of the known partitions, without partitions that do not exist.

        Returns nothing if Kafka does not answer in time: a partition without a leader must not delay the others.
        """
        known = [place for place in self._acknowledged.partitions if place[0] not in self.waiting.names]
        if not known:
            return {}
        with suppress(*KAFKA_TROUBLE, TimeoutError):
            async with asyncio.timeout(_ASKING):
                return await self._asked_ends(known)
        return {}

    async def _asked_ends(self, known: Sequence[Partition]) -> dict[Partition, int]:
        consumer = kafka.consumer(self._bus.broker, client=f"{self._bus.client}-{self._label}-ends")
        try:
            await consumer.start()
            there = await kafka.partitions_of(self._bus.broker, {topic for topic, _ in known}, client=self._bus.client)
            asked = [TopicPartition(topic, number) for topic, number in known if number < there.get(topic, 0)]
            found = await extents(consumer, asked, within=_ASKING / 3)  # twice as long where one is offline
            return {(tp.topic, tp.partition): extent.end for tp, extent in found.items()}
        finally:
            await kafka.stop(consumer)

    async def _lost(self, connection: Connection, topics: set[str]) -> None:
        """Request a republication of topics that lack acknowledged records. Raises Fenced for a leader."""
        for topic in sorted(topics):
            _log.error("Kafka has lost records that it had acknowledged; the topic is published again", topic=topic)
            if self._lane == ASSIGNMENTS:  # agents refuse records of terms that are over
                raise Fenced(f"{topic} lacks records that Kafka had acknowledged: a new term publishes them")
            await republishing.ask_once(connection, topic, "Kafka had lost records")

    async def _confirmed(self, connection: Connection) -> bool:
        """Return whether a synchronous standby, if there is one, has the rows that were read.

        A commit shows its rows even if its wait for the standby was cut short. If the relay published such rows and a
        failover then lost them, consumers would have events of something that never happened.
        """
        if not self._standby:
            self._bus.health.show("standby", "")
            return True
        confirmed = await standby.confirm(connection)
        if confirmed:
            self._bus.health.good("standby")
        else:
            self._bus.health.degraded("standby", "no synchronous standby has the last commits; nothing is published")
        return confirmed

    async def _pass(self, connection: Connection, producer: AIOKafkaProducer, rows: Sequence[Any]) -> set[str]:
        """Publish rows, except those of missing topics. Missing topics wait from now on; return their names.

        Raises TopicsFailed if Kafka did not accept the rows of other topics. In both cases the positions of the
        waiting topics are stored first.
        """
        missing = await self._missing(producer, rows)
        if missing:
            for topic in missing:
                self._wait(topic, rows, "the topic is missing, or has no leader")
            await self._remember(connection, force=True)
            rows = [row for row in rows if row["topic"] not in missing]
        if not rows:
            return missing
        check_order(rows)
        try:
            await self._publish(connection, producer, rows)
        except TopicsFailed as failed:
            for topic, (first, error) in failed.first.items():
                self._wait(topic, [row for row in rows if row["id"] >= first], repr(error))
            if self._transactional_id is None:
                self.last = max(self.last, rows[-1]["id"])  # all other topics of the pass are acknowledged
            await self._remember(connection, force=True)
            raise
        PUBLISHED.labels(self._label).inc(len(rows))
        LAG.labels(self._label).observe(max(0.0, time.time() - rows[0]["created"].timestamp()))
        return missing

    def _wait(self, topic: str, rows: Sequence[Any], why: str) -> None:
        """Let a topic wait from its first row in `rows`."""
        self._known.discard(topic)
        self.waiting.add(topic, next(row["id"] for row in rows if row["topic"] == topic) - 1, why)

    async def _missing(self, producer: AIOKafkaProducer, rows: Sequence[Any]) -> set[str]:
        """Return the topics of these rows that accept no records.

        The check comes before the first send: Kafka's client searches for a missing topic for 10 s, and all other
        topics would wait meanwhile.
        """
        new = {row["topic"] for row in rows} - self._known
        if not new:
            return new
        found = await asyncio.gather(*(is_there(producer, topic) for topic in sorted(new)))
        missing = {topic for topic, there in zip(sorted(new), found, strict=True) if not there}
        self._known.update(new - missing)
        return missing

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Connection]:
        """Open a separate session. It holds the lock and reads the rows, so that both are lost together."""
        connection = await self._database.connect()
        try:
            # The session writes positions only. If a crash loses the latest position, some rows are sent a second time.
            await connection.execute("SET synchronous_commit = off")
            # A stopped process or a disconnected machine must not keep the lock from other instances. A pass that takes
            # longer is sent again, under the same event ids.
            await connection.execute(f"SET idle_session_timeout = {int(_IDLE_SECONDS * 1000)}")
            self._standby = await standby.is_named(connection)
            if self._transactional_id is None:
                await self._alone(connection)
            yield connection
        finally:
            self._bus.health.show("standby", "")  # the instance that has the lane tells it from now on
            try:
                if not connection.is_closed():
                    # InternalClientError: the end of the session has cut a statement short.
                    with suppress(*TRANSIENT, TimeoutError, asyncpg.InternalClientError):
                        await self._remember(connection, force=True)
            finally:
                await release(connection)  # it holds the lock of the lane

    async def _alone(self, connection: Connection) -> None:
        """Wait for the session lock of this lane. PostgreSQL sends no event when a lock becomes free."""
        sql = "SELECT pg_try_advisory_lock(hashtextextended(current_schema() || '.relay', $1))"
        while True:
            if await connection.fetchval(sql, self._lane):
                return
            await asyncio.sleep(_LOCK_PAUSE)

    @asynccontextmanager
    async def _producing(self) -> AsyncIterator[AIOKafkaProducer]:
        client = f"{self._bus.client}-{self._label}"
        producer = kafka.producer(self._bus.broker, client=client, transactional_id=self._transactional_id)
        try:
            await producer.start()
            yield producer
        finally:
            kafka.discard(producer)

    async def _position(self, connection: Connection) -> int:
        found: int | None = await connection.fetchval(
            "SELECT last FROM relay_positions WHERE lane = $1 AND bus = $2", self._lane, self._session.cluster_id
        )
        return found or 0

    async def _remember(self, connection: Connection, *, force: bool) -> None:
        now = time.monotonic()
        if self._session.ended.is_set():
            return  # a position on a lost bus is meaningless, and must not exist if that bus comes back
        if not force and now < self._persist_at:
            return
        self._persist_at = now + _PERSIST
        persisted, bus = self.last, self._session.cluster_id
        async with connection.transaction():
            await self.waiting.save(connection, bus)
            await self._acknowledged.save(connection, bus)
            if persisted != self._persisted:
                await connection.execute(_REMEMBER, self._lane, bus, persisted)
        self._persisted = persisted

    async def _publish(self, connection: Connection, producer: AIOKafkaProducer, rows: Sequence[Any]) -> None:
        if self._transactional_id is None:
            offsets = await self._send(producer, rows)
        else:
            async with producer.transaction():
                offsets = await self._send(producer, rows)
        await self._lost(connection, self._acknowledged.note(offsets))

    async def _send(self, producer: AIOKafkaProducer, rows: Sequence[Any]) -> list[Offset]:
        return await self._sender.send(producer, rows)
