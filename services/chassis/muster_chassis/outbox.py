"""The relay: publishes outbox rows in commit order, for ever (rule 2).

One task a lane. It reads `id > last`, which is safe because rows are inserted under a lock that is held until the
commit; wakes at once after a commit of this process, and polls slowly for those of others. `last` is written down
now and then: after a crash some rows go out twice, under the same event ids, and consumers drop them.

The ordinary lane is sent by whoever holds a session lock. The assignments lane is sent by the leader's transactional
producer: a new leader fences the old one at the broker.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final

import asyncpg
import msgspec
from aiokafka.errors import ProducerFenced

from muster_chassis import kafka, logs, metrics, tracing
from muster_chassis.backoff import Backoff
from muster_chassis.bus import Bus, BusLost, Session
from muster_chassis.codec import encode_headers
from muster_chassis.database import PASSING, TRANSIENT, Connection, Database, transient
from muster_chassis.kafka import KAFKA_TROUBLE
from muster_chassis.signatures import RecordSigner
from muster_chassis.topics import named
from muster_chassis.unit import ASSIGNMENTS, ORDINARY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiokafka import AIOKafkaProducer

_log = logs.get(__name__)
_PASS: Final = 1000
_POLL: Final = 0.25
_PERSIST: Final = 1.0
_LOCK_PAUSE: Final = 0.25
_READ: Final = """
SELECT id, event_id::text, topic, aggregate, version, key, type, headers, value, trace, created
FROM outbox WHERE lane = $1 AND id > $2 ORDER BY id LIMIT $3
"""
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


class OutOfOrder(Exception):
    """The outbox is not in commit order: a version was skipped or repeated. Nothing may be published past it."""


class Fenced(Exception):
    """Another leader's producer has taken over the assignments."""


class Relay:
    """Publishes one lane of one service's outbox."""

    def __init__(
        self,
        database: Database,
        bus: Bus,
        *,
        lane: int = ORDINARY,
        transactional_id: str | None = None,
        signer: RecordSigner | None = None,
        batch: int = _PASS,
    ) -> None:
        """signer: signs each record as it is published; None: the topic's readers ask for no signature."""
        self._signer = signer
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
        self.last = 0
        """The id of the last row that Kafka has acknowledged."""
        database.on_published(self._wake.set)

    async def run(self) -> None:
        """Publishes for ever; Kafka and PostgreSQL may come and go. Raises Fenced and OutOfOrder, nothing else."""
        backoff = Backoff()
        while True:
            try:
                async with self._bus.session() as self._session:
                    await self._work(backoff)
            except BusLost:
                _log.info("the relay begins anew on another bus", lane=self._label)
            except ProducerFenced as error:
                raise Fenced(f"{self._transactional_id} was taken over by another producer") from error
            except (*KAFKA_TROUBLE, *PASSING) as error:
                if isinstance(error, asyncpg.InterfaceError) and not transient(error):
                    raise
                _log.warning("the relay tries again", lane=self._label, error=repr(error))
                await backoff.pause()

    async def drain(self, within: float) -> bool:
        """Waits until everything committed so far is published; False after `within` seconds."""
        with suppress(TimeoutError, *TRANSIENT):
            async with asyncio.timeout(within):
                wanted = await self._database.pool.fetchval(
                    "SELECT coalesce(max(id), 0) FROM outbox WHERE lane = $1", self._lane
                )
                while self.last < wanted:
                    self._wake.set()
                    await asyncio.sleep(0.01)
                return True
        return False

    async def _work(self, backoff: Backoff) -> None:
        async with self._connected() as connection, self._producing() as producer:
            self.last = self._persisted = await self._position(connection)
            read = await connection.prepare(_READ)
            while True:
                self._wake.clear()
                rows = await read.fetch(self._lane, self.last, self._batch)
                if rows:
                    check_order(rows)
                    await self._publish(producer, rows)
                    self.last = rows[-1]["id"]
                    backoff.reset()
                await self._remember(connection, force=not rows)
                if len(rows) < self._batch:
                    with suppress(TimeoutError):
                        # Not asyncio.wait_for: in 3.11 it swallows a cancellation that meets the event.
                        async with asyncio.timeout(_POLL):
                            await self._wake.wait()

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Connection]:
        """A session of its own: it holds the lock, and reads, so that losing one is losing the other."""
        connection = await self._database.connect()
        try:
            if self._transactional_id is None:
                await self._alone(connection)
            yield connection
        finally:
            if not connection.is_closed():
                with suppress(*TRANSIENT, TimeoutError):
                    await self._remember(connection, force=True)
                    await connection.close(timeout=2)
            connection.terminate()

    async def _alone(self, connection: Connection) -> None:
        """Waits for the session lock of this lane; PostgreSQL has no event for one that comes free."""
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
            return  # a position on a lost bus says nothing, and must not be there should that bus come back
        if self.last == self._persisted or (not force and now < self._persist_at):
            return
        self._persist_at = now + _PERSIST
        persisted = self.last
        await connection.execute(_REMEMBER, self._lane, self._session.cluster_id, persisted)
        self._persisted = persisted

    async def _publish(self, producer: AIOKafkaProducer, rows: Sequence[Any]) -> None:
        if self._transactional_id is None:
            await self._send(producer, rows)
        else:
            async with producer.transaction():
                await self._send(producer, rows)
        PUBLISHED.labels(self._label).inc(len(rows))
        LAG.labels(self._label).observe(max(0.0, time.time() - rows[0]["created"].timestamp()))

    async def _send(self, producer: AIOKafkaProducer, rows: Sequence[Any]) -> None:
        source = self._database.source
        acknowledged = []
        for row in rows:
            headers = encode_headers(
                event_id=row["event_id"],
                event_type=row["type"],
                source=source,
                aggregate=row["aggregate"],
                version=row["version"],
                time=row["created"],
                traceparent=row["trace"],
                extra=msgspec.json.decode(row["headers"]) if row["headers"] else (),
            )
            if self._signer is not None:
                headers += self._signer.headers(row["topic"], row["key"], row["value"], headers)
            with tracing.span(f"publish {row['topic']}", row["trace"]) if tracing.recording() else nullcontext():
                answer = await producer.send(row["topic"], row["value"], row["key"], headers=headers)
            answer.add_done_callback(kafka.seen)
            acknowledged.append(answer)
        for answer in acknowledged:
            await answer


def check_order(rows: Sequence[Any]) -> None:
    """Asserts that in one pass the versions of each aggregate grow by one. Raises OutOfOrder.

    On compacted topics they only have to grow: rows that newer ones have replaced are removed from the outbox.
    """
    last: dict[tuple[str, str], int] = {}
    for row in rows:
        version = row["version"]
        if not version:
            continue
        key = (row["topic"], row["aggregate"])
        before = last.get(key)
        if before is not None and version != before + 1 and not (version > before and named(row["topic"]).compacted):
            raise OutOfOrder(
                f"outbox row {row['id']}: {key[0]} of {key[1]} has version {version} after {before}; "
                "was a row inserted without append_outbox?"
            )
        last[key] = version
