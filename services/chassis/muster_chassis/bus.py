"""The bus as one thing that can be lost: its identity, its topics, and everyone who must begin anew (rule 8).

The composition root opens one Bus a process and runs its watch. Relays and consumer loops work under a `Session`,
which ends when the broker's cluster id changes: their producers and consumers are discarded then, because a wiped
broker acknowledges an old producer's records and drops them, and lets an old consumer go on in the middle.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

from muster_chassis import kafka, logs, metrics
from muster_chassis.backoff import Backoff
from muster_chassis.broker import Broker
from muster_chassis.database import PASSING, Database
from muster_chassis.database_watch import POSTGRES
from muster_chassis.health import Health
from muster_chassis.kafka import KAFKA_TROUBLE
from muster_chassis.restored import DatabaseBehind, Verification
from muster_chassis.topic_admin import create_topics
from muster_chassis.topics import Topic, owned_by, published_by

_log = logs.get(__name__)
_INTERVAL: Final = 1.0
_TOPIC_PAUSE: Final = 0.3
_AGAIN: Final = 5.0

CHANGES = metrics.counter(
    "muster_bus_changes_total",
    unit="changes",
    meaning="How often Kafka turned out to be another cluster than before.",
    action="Not planned? Find out who replaced Kafka. Workloads are safe, outside events not yet read are not.",
)


class BusLost(Exception):
    """The broker is another cluster now: what was built on the old one is to be discarded."""


class IdentityStore(Protocol):
    """Where a process keeps the id of the cluster that it last spoke to."""

    async def known(self) -> str | None:
        """The id, or None before the first time."""
        ...

    async def replace(self, cluster_id: str) -> None:
        """Remembers a new bus, and that everything has to be published again, in one step."""
        ...


class DatabaseIdentity:
    """The identity in PostgreSQL. A new bus puts the relays back to the first kept row, in the same transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def known(self) -> str | None:
        """The id, or None before the first time."""
        found: str | None = await self._database.pool.fetchval("SELECT cluster_id FROM bus_identity")
        return found

    async def replace(self, cluster_id: str) -> None:
        """Remembers a new bus. A second instance that sees the same change resets nothing again."""
        async with self._database.unit() as unit:
            changed = await unit.connection.fetchval(
                "INSERT INTO bus_identity (cluster_id, since) VALUES ($1, $2) ON CONFLICT (single) DO UPDATE SET "
                "cluster_id = excluded.cluster_id, since = excluded.since "
                "WHERE bus_identity.cluster_id <> excluded.cluster_id RETURNING true",
                cluster_id,
                unit.now,
            )
            if changed:
                await unit.connection.execute("DELETE FROM relay_positions WHERE bus <> $1", cluster_id)
                await unit.connection.execute("DELETE FROM relay_lanes WHERE bus <> $1", cluster_id)
                await unit.connection.execute("DELETE FROM consumer_offsets WHERE bus <> $1", cluster_id)


@dataclass(slots=True)
class MemoryIdentity:
    """The identity in memory: for a process that begins anew at every start anyway, and for tests."""

    cluster_id: str | None = None

    async def known(self) -> str | None:
        """The id, or None before the first time."""
        return self.cluster_id

    async def replace(self, cluster_id: str) -> None:
        """Remembers a new bus."""
        self.cluster_id = cluster_id


@dataclass(slots=True)
class Session:
    """Work on one identity of the bus."""

    cluster_id: str
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class Bus:
    """One process's view of Kafka.

    owned: topics that it creates, now and after every change of identity. verify: awaited with the cluster id before
    the first session on it; no session begins while it raises DatabaseBehind. needed: whether the process cannot serve
    while Kafka is away; submission can.
    """

    def __init__(
        self,
        broker: Broker,
        *,
        client: str,
        identity: IdentityStore,
        owned: Iterable[Topic] = (),
        health: Health | None = None,
        verify: Callable[[str], Awaitable[None]] | None = None,
        needed: bool = True,
    ) -> None:
        self.broker = broker
        self.client = client
        self.health = health or Health()
        self._tell = self.health.bad if needed else self.health.degraded
        self._identity = identity
        self._verify = verify
        self._owned = {topic.name: topic for topic in owned}
        self._probe = kafka.Probe(broker, f"{client}-watch")
        self._session: Session | None = None
        self._mark = broker.mark()
        self._opened = asyncio.Event()
        self._on_change: list[Callable[[str], Awaitable[None]]] = []

    @classmethod
    def of_service(
        cls, name: str, database: Database, broker: Broker, *, client: str, health: Health, needed: bool = True
    ) -> Bus:
        """The bus of a service with a database, which is compared with what is on Kafka (restored.py)."""
        verify = Verification(database, broker, published_by(name), client=client)
        known = DatabaseIdentity(database)
        owned = owned_by(name)
        return cls(broker, client=client, identity=known, owned=owned, health=health, verify=verify, needed=needed)

    @property
    def cluster_id(self) -> str:
        """The id of the cluster that this process now works on. Raises BusLost before the first contact."""
        if self._session is None:
            raise BusLost("there was no contact to Kafka yet")
        return self._session.cluster_id

    def on_change(self, action: Callable[[str], Awaitable[None]]) -> None:
        """Awaits `action(new cluster id)` after a change, before anyone works on the new bus."""
        self._on_change.append(action)

    async def open(self) -> str:
        """Waits for the broker, compares its identity, creates the owned topics. Returns the cluster id."""
        backoff = Backoff()
        while not await self.check():
            await backoff.pause()
        return self.cluster_id

    async def watch(self) -> None:
        """Compares the identity every second and at every reconnect, for ever. An eternal task."""
        backoff = Backoff(first=0.1, last=_INTERVAL)
        while True:
            if await self.check():
                backoff.reset()
                await asyncio.sleep(_INTERVAL)
            else:
                await backoff.pause()

    async def check(self) -> bool:
        """One comparison; whether it could be made. After a change everyone's session has ended.

        A new password ends it too: clients of aiokafka log in with the one that they were made with.
        """
        try:
            seen = await self._probe.cluster_id()
            mark = await asyncio.to_thread(self.broker.mark)
            session = self._session
            if session is None or session.ended.is_set() or session.cluster_id != seen or self._mark != mark:
                await self._begin(seen)
                self._mark = mark
        except KAFKA_TROUBLE as error:
            self._tell("kafka", f"{self.broker.bootstrap} does not answer: {error!r}")
            return False
        except PASSING as error:
            self.health.bad(POSTGRES, f"PostgreSQL does not answer: {error!r}")
            return False
        except DatabaseBehind as error:
            self.health.bad("restored", str(error), at_once=True)
            return False
        self.health.good("kafka")
        return True

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """Work that ends with BusLost, raised in its body, once the bus is another. Waits for the first contact."""
        await self._opened.wait()
        session = self._session
        if session is None:
            raise BusLost("the bus is just being changed")
        body, cancelled = asyncio.current_task(), 0
        if body is None:
            raise RuntimeError("a session needs a task that can be cancelled")

        async def end() -> None:
            nonlocal cancelled
            await session.ended.wait()
            while True:
                # More than once: libraries swallow a cancellation that meets a result that has just come.
                cancelled += bool(body.cancel("the bus is another"))
                await asyncio.sleep(_AGAIN)

        guard = asyncio.ensure_future(end())
        try:
            yield session
            if session.ended.is_set():
                raise BusLost(f"the bus is no longer {session.cluster_id}")
        except asyncio.CancelledError:
            if not cancelled or [body.uncancel() for _ in range(cancelled)][-1] > 0:
                raise
            raise BusLost(f"the bus is no longer {session.cluster_id}") from None
        finally:
            guard.cancel()

    async def create(self, topics: Iterable[Topic]) -> None:
        """Creates `topics` and keeps them among the owned ones. Retries without limit."""
        wanted = list(topics)
        self._owned.update((topic.name, topic) for topic in wanted)
        backoff = Backoff()
        while True:
            try:
                await create_topics(self.broker, wanted, client=self.client)
                return
            except KAFKA_TROUBLE as error:
                self._tell("kafka", f"topics cannot be created: {error!r}")
                await backoff.pause()

    async def wait_for(self, names: Sequence[str]) -> dict[str, int]:
        """Waits until all topics of `names` exist; health says which are awaited. Returns their partition counts."""
        backoff = Backoff(first=_TOPIC_PAUSE, last=1.0)
        while True:
            try:
                found = await kafka.partitions_of(self.broker, names, client=self.client)
            except KAFKA_TROUBLE as error:
                self._tell("topics", f"{self.broker.bootstrap} does not answer: {error!r}")
            else:
                missing = [name for name in names if name not in found]
                if not missing:
                    self.health.good("topics")
                    return dict(found)
                self._tell("topics", f"awaiting {', '.join(missing)}")
            await backoff.pause()

    async def close(self) -> None:
        """Drops the watch's connection, and waits for the end of what was discarded."""
        await self._probe.close()
        await kafka.settled()

    async def _begin(self, seen: str) -> None:
        old = self._session
        known = await self._identity.known() if old is None else old.cluster_id
        changed = known is not None and known != seen
        self._opened.clear()
        if old is not None:  # also where no new one follows yet: nothing is published on what was not compared
            old.ended.set()
        if self._verify is not None and (old is None or changed):
            await self._verify(seen)
            self.health.good("restored")
        if known != seen:
            await self._identity.replace(seen)
        if changed:
            CHANGES.inc()
            _log.warning("Kafka is another cluster: beginning anew on it", before=known, now=seen)
        elif old is not None:
            _log.info("the sessions on Kafka begin again", user=self.broker.user)
        await create_topics(self.broker, self._owned.values(), client=self.client)
        if changed:
            for action in self._on_change:
                await action(seen)
        self._session = Session(seen)
        self._opened.set()
