"""Services in miniature: the chassis's parts put together as a composition root does it, for tests on the real things.

A `Station` is one service of one test: its database, its view of the bus, and tasks that are cancelled at the end. A
`Journal` is its handler: it writes down what came, in memory after the commit and in a table within the transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from pydantic import SecretStr

from muster.events.v1 import submission_pb2
from muster_chassis.assigned_consumer import AssignedConsumer
from muster_chassis.broker import Broker
from muster_chassis.bus import Bus, DatabaseIdentity
from muster_chassis.codec import MessageDecoder
from muster_chassis.database import Database
from muster_chassis.events import Event
from muster_chassis.group_consumer import GroupConsumer
from muster_chassis.outbox import Relay
from muster_chassis.settings import DatabaseSettings
from muster_chassis.topics import DEAD_LETTERS, SUBMISSIONS, Topic, owned_by
from muster_chassis.unit import Unit

DECODER = MessageDecoder([submission_pb2.SuspendRequested, submission_pb2.DeletionRequested])


def asked(workload: str, by: str = "anna") -> submission_pb2.SuspendRequested:
    """A small event."""
    return submission_pb2.SuspendRequested(workload_id=workload, requested_by=by)


@dataclass
class Station:
    """One service of a test."""

    name: str
    database: Database
    bus: Bus
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)

    def go(self, work: Callable[[], Awaitable[None]]) -> None:
        """Runs `work` until the test ends."""
        self.tasks.append(asyncio.ensure_future(work()))

    def begin(self, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """The same; the test may look at what became of it."""
        self.go(work)
        return self.tasks[-1]

    def relay(self, **options: Any) -> Relay:
        """A running relay."""
        relay = Relay(self.database, self.bus, **options)
        self.go(relay.run)
        return relay

    def consume(
        self,
        handler: Callable[[Unit, Sequence[Event]], Awaitable[None]],
        *topics: Topic,
        assigned: bool = False,
        **options: Any,
    ) -> GroupConsumer | AssignedConsumer:
        """A running consumer of `topics`."""
        shared: dict[str, Any] = {
            "name": self.name,
            "topics": list(topics) or [SUBMISSIONS],
            "handler": handler,
            "decoder": DECODER,
        } | options
        consumer: GroupConsumer | AssignedConsumer
        if assigned:
            consumer = AssignedConsumer(self.database, self.bus, **shared)
        else:
            consumer = GroupConsumer(self.database, self.bus, instance=f"{self.name}-0", **shared)
        self.go(consumer.run)
        return consumer

    async def publish(self, *workloads: str, topic: Topic = SUBMISSIONS, by: str = "anna") -> None:
        """Publishes one event for each, all in one transaction."""
        async with self.database.unit() as unit:
            for workload in workloads:
                unit.publish(topic, workload, asked(workload, by))

    def alive(self) -> bool:
        """Raises what ended one of its tasks; True while all of them run."""
        for task in self.tasks:
            if task.done():
                task.result()
        return True

    async def end(self) -> None:
        """Cancels what runs."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.tasks.clear()


def settings(url: str, schema: str, **options: Any) -> DatabaseSettings:
    """The settings of one service's database."""
    return DatabaseSettings(database_url=SecretStr(url), database_schema=schema, **options)


@asynccontextmanager
async def station(
    name: str, url: str, kafka: str, *, watch: bool = False, kind: type[Bus] = Bus, **options: Any
) -> AsyncIterator[Station]:
    """A service called `name` with the topics that it owns, closed at the end. `watch`: runs the bus's watch."""
    opened = await Database.open(settings(url, name, **options), source=name)
    bus = kind(Broker(kafka), client=name, identity=DatabaseIdentity(opened), owned=[*owned_by(name), DEAD_LETTERS])
    here = Station(name, opened, bus)
    try:
        await bus.open()
        if watch:
            here.go(bus.watch)
        yield here
    finally:
        await here.end()
        await bus.close()
        await opened.close()


@dataclass
class Journal:
    """A handler that writes down what comes. `refuse` names workloads on which it fails, with what."""

    handled: list[tuple[str, int]] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    refuse: dict[str, Exception] = field(default_factory=dict)

    async def __call__(self, unit: Unit, events: Sequence[Event]) -> None:
        """Handles one batch."""
        for event in events:
            if event.aggregate in self.refuse:
                raise self.refuse[event.aggregate]
        await unit.connection.execute("CREATE TABLE IF NOT EXISTS journal (aggregate text, version bigint, by text)")
        await unit.connection.executemany(
            "INSERT INTO journal VALUES ($1, $2, $3)",
            [(event.aggregate, event.version, getattr(event.message, "requested_by", "")) for event in events],
        )
        unit.after_commit(lambda: self._note(events))

    def _note(self, events: Sequence[Event]) -> None:
        self.handled.extend((event.aggregate, event.version) for event in events)
        self.batches.append(len(events))

    def versions(self, aggregate: str) -> list[int]:
        """The versions of one aggregate, as they came."""
        return [version for name, version in self.handled if name == aggregate]


@asynccontextmanager
async def opened(url: str, name: str = "policy", **options: Any) -> AsyncIterator[Database]:
    """A service's database alone."""
    database = await Database.open(settings(url, name, **options), source=name)
    try:
        yield database
    finally:
        await database.close()
