"""The scheduler's composition root: the only file that knows all parts.

A process is one candidate: it follows until the lease is free, then leads. Everything that belongs to leading (state,
consumer, the producer of assignments, the clock) lives within one term and is discarded with it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Final

from muster_chassis import heap, identity, logs, metrics
from muster_chassis.acls import TRANSACTIONAL_ID
from muster_chassis.assigned_consumer import AssignedConsumer
from muster_chassis.attempts import passes, patiently
from muster_chassis.bus import Bus
from muster_chassis.database import Database, OutcomeUnknown
from muster_chassis.database_watch import watch_postgres
from muster_chassis.dead_letters import dead_letters_service
from muster_chassis.events import Event
from muster_chassis.key_files import KeyFileError, PrivateKey, Purpose, TrustFile, read_private
from muster_chassis.lease import Deposed, Leadership, Term
from muster_chassis.migrations import of_package
from muster_chassis.numbers import LEAP
from muster_chassis.outbox import Fenced, Relay
from muster_chassis.rpc import ServiceName, internal_server
from muster_chassis.runtime import Runtime
from muster_chassis.signatures import RecordSigner, RecordVerifier
from muster_chassis.topics import ADMISSIONS, ADVICE, SUBMISSIONS, TENANCY, Topic, assignments, reports
from muster_chassis.unit import ASSIGNMENTS
from muster_chassis.watchdog import long_section
from muster_scheduler import stream
from muster_scheduler.adapters import retired
from muster_scheduler.adapters.changes import DROP
from muster_scheduler.adapters.following import NOTE
from muster_scheduler.adapters.highest import highest_epoch
from muster_scheduler.adapters.last_words import snapshot
from muster_scheduler.adapters.outgoing import Publisher
from muster_scheduler.adapters.postgres import PostgresStore
from muster_scheduler.domain import events as domain
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.life.fleet import speaks_for, start_clocks
from muster_scheduler.domain.life.republication import owed
from muster_scheduler.domain.warming import warm_up
from muster_scheduler.handlers import Handlers
from muster_scheduler.reading import read_until, unread
from muster_scheduler.rpc import Desk, services
from muster_scheduler.settings import SchedulerSettings
from muster_scheduler.standby import REBUILD, Standby
from muster_scheduler.stream.questions import read_admitted

_log = logs.get(__name__)
NAME: Final = "scheduler"
_TICK: Final = 1.0
_RETIRE_EVERY: Final = 5.0
_SHORT: Final = 0.02
_DRAIN: Final = 3.0
_UPKEEP_EVERY: Final = 10.0
_CHANGES_KEPT: Final = timedelta(minutes=10)
_REPUBLISHED: Final = 250  # records in one transaction: about 25 ms in which nothing else is decided
_READ: Final = (SUBMISSIONS, TENANCY, ADMISSIONS, ADVICE)

REPUBLISHING = metrics.gauge(
    "muster_scheduler_republishing",
    unit="records",
    meaning="Records of workloads that this term has not published under its epoch yet.",
    action="Does not fall: look at muster_condition and at PostgreSQL. What runs goes on meanwhile.",
)


async def compose(runtime: Runtime, settings: SchedulerSettings) -> None:
    """Open all parts and register the eternal tasks."""
    migrations = of_package(NAME, "muster_scheduler")
    database = await Database.open(settings, source=NAME, migrations=migrations, health=runtime.health)
    runtime.close_last(database.close)
    bus = Bus.of_service(NAME, database, settings.broker, client=settings.instance, health=runtime.health)
    runtime.close_last(bus.close)
    await bus.open()
    scheduler = Scheduler(database, bus, settings)
    await scheduler.create_topics(await _registered(database))
    relay = Relay(database, bus)
    server = internal_server(
        settings,
        ServiceName.SCHEDULER,
        [*services(scheduler.desk), dead_letters_service(database, snapshot)],
        runtime.health,
    )
    await server.start()
    runtime.close_last(server.stop)
    runtime.eternal("watch", bus.watch)
    runtime.eternal("postgres", partial(watch_postgres, database, runtime.health))
    runtime.eternal("relay", relay.run)
    runtime.eternal("leadership", scheduler.run)
    runtime.eternal("server", server.run)
    runtime.eternal("retention", retired.RetiredRetention(database).run)
    runtime.drain(lambda: relay.drain(_DRAIN))


def topics_of(cluster: str) -> tuple[Topic, Topic]:
    """Return the two topics of a cluster."""
    return assignments(cluster), reports(cluster)


async def _registered(database: Database) -> list[str]:
    rows = await database.pool.fetch("SELECT id FROM clusters ORDER BY id")
    return [row["id"] for row in rows]


def _signing_key(settings: SchedulerSettings, trust: TrustFile) -> PrivateKey:
    """Return the key for assignments. Raises KeyFileError for a key that no agent would obey."""
    key = PrivateKey(settings.assignments_key_file, read_private)
    if trust.find(NAME, Purpose.ASSIGNMENTS, key.get().kid) is None:
        raise KeyFileError(
            f"{trust.path} does not list the key of {settings.assignments_key_file} for assignments, so agents would "
            "obey none: add its public half, or restore the two files together"
        )
    return key


class Scheduler:
    """One candidate for the leadership."""

    def __init__(self, database: Database, bus: Bus, settings: SchedulerSettings) -> None:
        """Create a candidate that does not lead yet."""
        self._database = database
        self._bus = bus
        self._settings = settings
        self._changed = asyncio.Event()
        self._outrun = asyncio.Event()
        self._seen_epoch = 0  # the highest plausible epoch that an agent has seen
        self._trust = TrustFile(settings.trust_file)
        self._verifier = RecordVerifier(self._trust)
        self._key = _signing_key(settings, self._trust)
        self._signer = RecordSigner(self._key)
        self.desk = Desk(database, self._register, read_admitted, self._trust)
        self._standby = Standby(database, settings)
        self._leadership = Leadership(database, f"{settings.instance}/{identity.event_id()}", floor=self._floor)
        self._consumer: AssignedConsumer | None = None
        self._created: set[str] = set()  # clusters whose topics the bus of this process creates again after a wipe
        bus.on_change(self._on_bus_change)

    async def create_topics(self, clusters: Iterable[str]) -> None:
        """Create the topics of these clusters, except those that this process has created before."""
        new = [cluster for cluster in clusters if cluster not in self._created]
        await self._bus.create([topic for cluster in new for topic in topics_of(cluster)])
        self._created.update(new)

    async def run(self) -> None:
        """Follow and lead, for ever. The decision code is compiled first: a lease would expire meanwhile."""
        with long_section(REBUILD):
            await asyncio.to_thread(warm_up)
        await self._leadership.run(self._lead, self._standby.follow)

    async def _floor(self) -> int:
        """Return the highest epoch that agents may have seen: a restored database must not lead below it."""
        topics = [assignments(cluster).name for cluster in await _registered(self._database)]
        last = await self._database.pool.fetchval("SELECT epoch FROM lease_epoch WHERE name = 'leader'") or 0
        client = self._settings.instance
        broker = self._settings.broker
        highest = await highest_epoch(broker, topics, self._verifier, client=client, last=last)
        return max(highest, self._seen_epoch)

    async def _on_bus_change(self, _: str) -> None:
        self._changed.set()

    async def _lead(self, term: Term) -> None:
        """Run one term: rebuild, republish, read up, decide. It ends by Deposed or cancellation."""
        try:
            await self._serve(term)
        finally:
            heap.release()

    async def _serve(self, term: Term) -> None:
        self._changed.clear()
        self._outrun.clear()
        signed_with = self._key.get().kid
        state = await self._standby.current(term)
        async with self._database.unit(begin=term.fence) as unit:
            await unit.connection.execute(NOTE, term.epoch)
        heap.settle()
        handlers = Handlers(
            state,
            PostgresStore(),
            Publisher(term.epoch),
            partial(self._translate, state.world),
            visits=self._settings.cycle_visits,
            health=self._bus.health,
            oldest_admission=retired.oldest_admission(self._settings.retention),
        )
        clusters = sorted(state.world.clusters)
        consumer = AssignedConsumer(
            self._database,
            self._bus,
            name=NAME,
            topics=[*_READ, *(reports(cluster) for cluster in clusters)],
            handler=handlers.on_events,
            decoder=stream.decoder(),
            unparked=stream.UNPARKED,
            begin=term.fence,
        )
        handlers.read_until = partial(read_until, state.world, consumer)
        relay = Relay(
            self._database, self._bus, lane=ASSIGNMENTS, transactional_id=TRANSACTIONAL_ID, signer=self._signer
        )
        self._consumer = consumer
        self.desk.open(handlers, term)
        try:
            await self._work(handlers, consumer, relay, term, signed_with)
        finally:
            self.desk.close()
            handlers.clear_conditions()
            self._consumer = None
            REPUBLISHING.set(0)

    async def _republish(self, handlers: Handlers, term: Term) -> None:
        """Publish the record of every workload that may still run, under this epoch and in batches.

        Each batch is one transaction: a single transaction for all records took too long and was cancelled. Other tasks
        decide meanwhile. A record that they write for a workload is the newer one, whichever of the two comes first
        (docs/decisions/0012).
        """
        began, left = time.perf_counter(), owed(handlers.state.world)
        REPUBLISHING.set(len(left))
        await patiently(partial(self._republish_layouts, handlers, term))
        for at in range(0, len(left), _REPUBLISHED):
            await patiently(partial(self._republish_some, handlers, term, left[at : at + _REPUBLISHED]))
            REPUBLISHING.set(max(0, len(left) - at - _REPUBLISHED))
        _log.info("every record is published again", records=len(left), seconds=round(time.perf_counter() - began, 1))

    async def _republish_layouts(self, handlers: Handlers, term: Term) -> None:
        async with self._database.unit(begin=term.fence) as unit:
            await handlers.republish_layouts(unit)

    async def _republish_some(self, handlers: Handlers, term: Term, workloads: Sequence[str]) -> None:
        async with self._database.unit(begin=term.fence) as unit:
            await handlers.republish(unit, workloads)

    async def _work(
        self, handlers: Handlers, consumer: AssignedConsumer, relay: Relay, term: Term, signed_with: str
    ) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._consume(handlers.state.world, consumer), name="consumer")
                tasks.create_task(relay.run(), name="assignments")
                tasks.create_task(self._republish(handlers, term), name="republication")
                tasks.create_task(self._clock(handlers, consumer, term), name="clock")
                tasks.create_task(self._upkeep(handlers, term), name="upkeep")
                tasks.create_task(self._step_down_on_change(), name="bus change")
                tasks.create_task(self._step_down_when_outrun(), name="higher epoch")
                tasks.create_task(self._step_down_on_new_key(signed_with), name="new key")
        except* (Deposed, Fenced, OutcomeUnknown) as over:
            # A commit's outcome is unknown, or another leader has taken over: this state is not valid any more.
            raise Deposed(repr(over.exceptions[0])) from over

    async def _consume(self, world: World, consumer: AssignedConsumer) -> None:
        """Create the topics of all registered clusters, then consume.

        This process has not created those of clusters that were registered while another one led. After a loss of Kafka
        no other process creates them again.
        """
        await self.create_topics(sorted(world.clusters))
        await consumer.run()

    async def _upkeep(self, handlers: Handlers, term: Term) -> None:
        """Remove rows that are no longer needed, and revive workloads whose automatic deletion is due."""
        while True:
            await asyncio.sleep(_UPKEEP_EVERY)
            await patiently(partial(self._remove, term))
            await patiently(partial(self._revive_due, handlers, term))

    async def _remove(self, term: Term) -> None:
        """Remove changes that every live standby has followed (the last one stays), and old rows of `retired`."""
        async with self._database.unit(begin=term.fence) as unit:
            await unit.connection.execute(DROP, unit.now - _CHANGES_KEPT)
            await retired.remove(unit, self._settings.retention)

    async def _revive_due(self, handlers: Handlers, term: Term) -> None:
        async with self._database.unit(begin=term.fence) as unit:
            if due := await retired.due(unit):
                await handlers.transact(unit, (), revive=due)

    async def _step_down_on_change(self) -> None:
        await self._changed.wait()
        raise Deposed("Kafka is another cluster: a new term begins on it")

    async def _step_down_on_new_key(self, signed_with: str) -> None:
        """Step down when the key changes: a new term signs all assignments again, without the old key."""
        while self._key.get().kid == signed_with:  # noqa: ASYNC110 - a file changes without an event
            await asyncio.sleep(_TICK)
        raise Deposed("the key for assignments is a new one: a new term signs them again")

    def _translate(self, world: World, event: Event) -> domain.Event | None:
        """Return the event of a record. An agent that has seen a higher epoch obeys nothing of this term."""
        made = stream.translate(event)
        if isinstance(made, domain.AssignmentsHeld):
            self._heed(world, made)
        return made

    def _heed(self, world: World, held: domain.AssignmentsHeld) -> None:
        """End the term if the agent to which the cluster is bound has seen a higher epoch.

        Any other instance obeys nothing, so its report can be ignored without a loss. A record is translated just
        before it is applied, so that an instance counts if the previous record has bound it.
        """
        term = self._leadership.term
        if term is None or held.highest_epoch <= term.epoch:
            return
        told = {"cluster": held.cluster, "instance": held.order.instance, "epoch": held.highest_epoch}
        if not speaks_for(world, held.cluster, held.order):
            _log.warning("an instance that is not bound to the cluster reports a higher epoch", **told)
        elif held.highest_epoch > term.epoch + LEAP:
            _log.warning("an agent reports an epoch that no scheduler has reached", **told, most=term.epoch + LEAP)
        else:
            self._seen_epoch = held.highest_epoch
            self._outrun.set()

    async def _step_down_when_outrun(self) -> None:
        await self._outrun.wait()
        raise Deposed(f"an agent has seen epoch {self._seen_epoch}: a new term begins beyond it")

    async def _clock(self, handlers: Handlers, consumer: AssignedConsumer, term: Term) -> None:
        """Run the cycles that are due by time: backoffs, silent clusters, work that a spent budget left over."""
        await consumer.caught_up.wait()
        world = handlers.state.world
        await handlers.start_deciding(identity.now(), unread(world, consumer))
        retire_at = asyncio.get_running_loop().time() + _RETIRE_EVERY
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(handlers.again.wait(), handlers.pause(identity.now(), _SHORT, _TICK))
            handlers.again.clear()
            read = handlers.unread and handlers.unread - unread(world, consumer)
            if read and await self._cycle(handlers, term, partial(start_clocks, clusters=read)):
                handlers.unread -= read
            due = asyncio.get_running_loop().time() >= retire_at
            if await self._cycle(handlers, term, World.retire if due else None) and due:
                retire_at += _RETIRE_EVERY

    async def _cycle(self, handlers: Handlers, term: Term, before: Callable[[World], None] | None) -> bool:
        """Run one cycle without events; return whether it happened. It survives outages of PostgreSQL."""
        try:
            async with self._database.unit(begin=term.fence) as unit:
                await handlers.transact(unit, (), before=before)
        except Exception as error:
            if not passes(error):
                raise
            _log.warning("a cycle is tried again", error=repr(error))
            await asyncio.sleep(_TICK)
            return False
        return True

    async def _register(self, cluster: str) -> None:
        """Create a cluster's topics and read its reports from now on."""
        await self._bus.create(topics_of(cluster))
        self._created.add(cluster)
        if self._consumer is not None:
            self._consumer.add(reports(cluster))
