"""Ages a control plane in minutes: whole lives, written by the services' own code under a clock of its own.

Called by `tests/benchmarks/ageing.py`. Submission, policy and the scheduler are their handlers over their own
schemas of a real PostgreSQL, each behind its intake; what one publishes is read from its outbox as the relay reads
it and given to the others, so that inboxes, versions and outboxes age as well. An agent is the few reports that a
run of seconds makes. Kafka is not used meanwhile: what is in the outboxes counts as published. Holds: nothing is
written but by the code that writes it in production, except for the epoch of the one leader and the relays'
positions.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import msgspec
from google.protobuf.message import Message
from pydantic import SecretStr

from muster.events.v1 import submission_pb2
from muster.fleet.v1 import fleet_pb2
from muster.options.v1 import options_pb2
from muster.tenancy.v1 import tenancy_pb2
from muster.workload.v1 import workload_pb2
from muster_chassis import identity
from muster_chassis.codec import encode_headers
from muster_chassis.database import Database
from muster_chassis.events import Origin
from muster_chassis.health import Health
from muster_chassis.intake import Intake
from muster_chassis.migrations import of_package
from muster_chassis.retention import Retention
from muster_chassis.settings import DatabaseSettings
from muster_chassis.topics import ADMISSIONS, DECISIONS, SUBMISSIONS, TENANCY, assignments, reports
from muster_kernel.quantities import GPU
from muster_policy.adapters.herald import KafkaHerald
from muster_policy.adapters.policies import PostgresPolicies
from muster_policy.adapters.postgres import PostgresBooks, forget
from muster_policy.domain.standing import Shelf
from muster_policy.handlers.judging import Judging
from muster_policy.handlers.standing import Loading
from muster_policy.stream import DECODER as POLICY_DECODER
from muster_policy.stream import Stream as PolicyStream
from muster_scheduler import stream as scheduler_stream
from muster_scheduler.adapters import retired
from muster_scheduler.adapters.changes import DROP
from muster_scheduler.adapters.following import Follower
from muster_scheduler.adapters.outgoing import Publisher
from muster_scheduler.adapters.postgres import PostgresStore
from muster_scheduler.domain.asked.limits import RETIRE_AFTER, Limits
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.events import ClusterRegistered
from muster_scheduler.handlers import Handlers as SchedulerHandlers
from muster_scheduler.handlers import micros
from muster_submission.adapters.archive import PostgresArchive
from muster_submission.adapters.exporting import Exporter
from muster_submission.adapters.secrets import PostgresSecrets
from muster_submission.adapters.tenancy import PostgresTenancy
from muster_submission.adapters.usage import PostgresUsage
from muster_submission.adapters.vault import Vault
from muster_submission.adapters.workloads import PostgresWorkloads
from muster_submission.domain.names import Given
from muster_submission.handlers.archiving import Archiving, Plan
from muster_submission.handlers.departments import Departments
from muster_submission.handlers.drafts import Checked
from muster_submission.handlers.progress import Follow
from muster_submission.handlers.sealing import Sealing
from muster_submission.handlers.submit import Acknowledged, Submit
from muster_submission.handlers.usage import Accounts
from muster_submission.stream import FOLLOWED, Followed
from muster_submission.stream import decoder as followed_decoder
from tests.ageing.reports import CLUSTER, NODES, AgentReports, Clock

PROJECT: Final = "aged"
EPOCH: Final = 1
_GRANT: Final = timedelta(seconds=2)
_RUN: Final = timedelta(seconds=30)
_KEPT: Final = timedelta(microseconds=2 * RETIRE_AFTER)
_ATTEMPTS: Final = 1000  # a transaction retires at most 2,000 workloads
_ROWS: Final = """
SELECT id, event_id::text, topic, aggregate, version, key, type, headers, value, created
FROM outbox WHERE id > $1 ORDER BY id
"""
_MIGRATIONS: Final[dict[str, Callable[[], Any]]] = {
    "submission": lambda: of_package("submission", "muster_submission"),
    "policy": lambda: of_package("policy", "muster_policy"),
    "scheduler": lambda: of_package("scheduler", "muster_scheduler"),
}


@contextmanager
def under(clock: Clock) -> Iterator[None]:
    """In the block `identity.now` is this clock's."""
    real = identity.now
    identity.now = clock
    try:
        yield
    finally:
        identity.now = real


@dataclass(slots=True)
class _Service:
    """A service without its process: its database, its intake, and up to where its outbox was read."""

    database: Database
    intake: Intake
    last: int = 0


class _Silent:
    """Stands for those who would be woken; the road is walked step by step."""

    def poke(self) -> None:
        """Nothing waits."""

    def check(self) -> None:
        """The disk has room."""

    def judged(self, _: object) -> None:
        """No call waits for a verdict."""


@dataclass
class Road:
    """The three services and an agent. start: how often the agent has been started."""

    clock: Clock
    bus: str = "none"
    start: int = 1
    ids: list[str] = field(default_factory=list)
    """Of everything that was made, in order."""
    _offsets: Iterator[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        """Starts the agent."""
        self.agent = AgentReports(self.clock, self.start)

    @classmethod
    async def open(cls, url: Callable[[str], str], clock: Clock, bus: str = "none", before: Road | None = None) -> Road:
        """Makes schemas, the project and the fleet, or goes on with what is there.

        url: the address for a service's role. bus: the id of the Kafka on which everything counts as published. before:
        the road that was closed, while others have worked on the databases.
        """
        road = cls(clock, bus) if before is None else cls(clock, bus, before.start + 1, ids=before.ids)
        opened = {}
        for name, migrations in _MIGRATIONS.items():
            settings = DatabaseSettings(database_url=SecretStr(url(name)), database_schema=name)
            opened[name] = await Database.open(settings, source=name, migrations=migrations())
        await road._wire(opened)
        await road._found()
        return road

    async def _wire(self, opened: dict[str, Database]) -> None:
        submission, policy, scheduler = opened["submission"], opened["policy"], opened["scheduler"]
        silent: Any = _Silent()
        self.archive = PostgresArchive(submission.pool)
        books = PostgresWorkloads()
        follow = Followed(Follow(books, self.archive, silent, silent.judged), Accounts(PostgresUsage(submission.pool)))
        self.tenancy = PostgresTenancy(submission.pool, lambda: None)
        self._submit = Submit(books, Sealing(Vault(None), PostgresSecrets(submission.pool)), silent, silent)
        self.submission = _Service(submission, Intake(submission, follow, FOLLOWED, followed_decoder()))
        judging = PolicyStream(Judging(Loading(Shelf(), PostgresPolicies()), PostgresBooks(), KafkaHerald()))
        self.policy = _Service(policy, Intake(policy, judging, [SUBMISSIONS, TENANCY], POLICY_DECODER))
        await scheduler.pool.execute("INSERT INTO lease_epoch VALUES ('leader', $1) ON CONFLICT DO NOTHING", EPOCH)
        async with scheduler.acquired() as connection:
            follower = await Follower.read(connection, Limits(), micros(self.clock.now))  # type: ignore[arg-type]
        self.handlers = SchedulerHandlers(
            follower.state, PostgresStore(), Publisher(EPOCH), scheduler_stream.translate, visits=200_000
        )
        await self.handlers.start_deciding(self.clock.now, frozenset())
        topics = [ADMISSIONS, SUBMISSIONS, TENANCY, reports(CLUSTER)]
        intake = Intake(
            scheduler, self.handlers.on_events, topics, scheduler_stream.decoder(), unparked=scheduler_stream.UNPARKED
        )
        self.scheduler = _Service(scheduler, intake)
        self._services = (self.submission, self.policy, self.scheduler)

    async def close(self) -> None:
        """Closes the databases."""
        for service in self._services:
            await service.database.close()

    async def _found(self) -> None:
        """The project, and a cluster with free cards."""
        quota = tenancy_pb2.PoolQuota(node_pool="default", gpu_deserved=NODES * 8 * GPU, over_quota_weight_milli=1000)
        self.project = tenancy_pb2.Project(
            name=PROJECT, department="default", namespace=f"runai-{PROJECT}", quotas=[quota]
        )
        known = await self.tenancy.project(PROJECT)
        if known is not None:
            self.project = known
            for service in self._services:
                service.last = await service.database.pool.fetchval("SELECT coalesce(max(id), 0) FROM outbox")
            await self._report(self.agent.inventory())
            return
        for service in self._services:
            await service.database.pool.execute(
                "INSERT INTO bus_identity (cluster_id, since) VALUES ($1, now())", self.bus
            )
        async with self.submission.database.unit() as unit:
            await Departments(self.tenancy).ensure_default(unit)
            await self.tenancy.add_project(unit, self.project)
            unit.publish(TENANCY, f"project/{PROJECT}", submission_pb2.ProjectChanged(project=self.project))
        await self._deliver()
        async with self.scheduler.database.unit() as unit:
            await self.handlers.transact(unit, (ClusterRegistered(CLUSTER),))
        await self._report(self.agent.inventory())

    async def lives(self, count: int) -> None:
        """So many workloads from their submission to their end; the clock goes on by the time of a run."""
        await self._report(self.agent.heartbeat())
        drafts = [self._draft(f"life-{len(self.ids) + number}") for number in range(count)]
        async with self.submission.database.unit() as unit:
            made = await self._submit.make(unit, drafts, workload_pb2.Owner(subject="driver", issuer="ageing"))
        self.ids += [one.id for one in made if isinstance(one, Acknowledged)]
        self.clock.now += _GRANT
        started = await self._deliver()
        self.clock.now += _RUN
        await self._report(self.agent.heartbeat())
        await self._report(*(each for record in started for each in self.agent.run(record)))
        await self._deliver()

    async def keep_house(self) -> None:
        """What the services' upkeep does, as if it had come round: archive, retention and rows of retired work."""
        health = Health()
        submission = self.submission.database
        exporter = Exporter(submission.pool)
        plan = Plan(submission.settings.retention)
        await self.published()
        await Archiving(submission, self.archive, exporter.month, plan, health).round()
        await self._deliver()
        await self.published()
        await asyncio.gather(
            *(
                Retention(service.database, forget=forget if service is self.policy else None).round()
                for service in self._services
            )
        )
        await self.retire()
        async with self.scheduler.database.unit() as unit:
            await unit.connection.execute(DROP, unit.now - timedelta(minutes=10))
            await retired.remove(unit, self.scheduler.database.settings.retention)
        await submission.pool.execute("DELETE FROM changes WHERE at < $1", self.clock.now - timedelta(days=1))

    async def retire(self) -> None:
        """Let the scheduler retire what has ended, and what was archived, once their minutes in memory are over."""
        self.clock.now += _KEPT
        workloads = self.handlers.state.world.workloads
        for _ in range(_ATTEMPTS):
            if not workloads:
                return
            async with self.scheduler.database.unit() as unit:
                await self.handlers.transact(unit, (), before=World.retire)
        raise RuntimeError(f"{len(workloads)} workloads stay in the scheduler's memory, though all have ended")

    async def _deliver(self) -> list[fleet_pb2.Assignment]:
        """Deliver what every outbox has, until none has more; return the assignments that came out.

        Services work at the same time, as they do in production, each on one stretch after the other.
        """
        started: list[fleet_pb2.Assignment] = []
        while True:
            work: dict[int, list[Sequence[Origin]]] = defaultdict(list)
            for service, rows in zip(self._services, await asyncio.gather(*map(_rows, self._services)), strict=True):
                by_topic: dict[str, list[Origin]] = defaultdict(list)
                for row in rows:
                    by_topic[row["topic"]].append(self._origin(service, row))
                started += [
                    fleet_pb2.Assignment.FromString(one.value)
                    for one in by_topic.pop(assignments(CLUSTER).name, ())
                    if one.value is not None
                ]
                for topic, origins in by_topic.items():
                    for reader in self._readers(topic):
                        work[self._services.index(reader)].append(origins)
                if rows:
                    service.last = rows[-1]["id"]
            if not work:
                return started
            await asyncio.gather(*(self._take(self._services[number], work[number]) for number in work))

    async def _take(self, reader: _Service, topics: Sequence[Sequence[Origin]]) -> None:
        for origins in topics:
            await _in_stretches(reader.intake, origins)

    def _readers(self, topic: str) -> Sequence[_Service]:
        if topic in {SUBMISSIONS.name, TENANCY.name}:
            return self.policy, self.scheduler
        if topic == ADMISSIONS.name:
            return self.submission, self.scheduler
        return (self.submission,) if topic == DECISIONS.name else ()

    def _origin(self, service: _Service, row: Any) -> Origin:
        headers = encode_headers(
            event_id=row["event_id"],
            event_type=row["type"],
            source=service.database.source,
            aggregate=row["aggregate"],
            version=row["version"],
            time=row["created"],
            traceparent=None,
            extra=msgspec.json.decode(row["headers"]) if row["headers"] else (),
        )
        return Origin(row["topic"], 0, next(self._offsets), row["key"], row["value"], tuple(headers))

    async def _report(self, *messages: tuple[str, Message]) -> None:
        """Reports of the agent, given to the scheduler."""
        origins = []
        for aggregate, message in messages:
            headers = encode_headers(
                event_id=identity.event_id(),
                event_type=message.DESCRIPTOR.full_name,
                source=f"agent/{CLUSTER}",
                aggregate=aggregate,
                version=0,
                time=self.clock.now,
                traceparent=None,
            )
            place = reports(CLUSTER).name, 0, next(self._offsets), aggregate.encode()
            origins.append(Origin(*place, message.SerializeToString(), tuple(headers)))
        await _in_stretches(self.scheduler.intake, origins)

    def _draft(self, name: str) -> Checked:
        spec = workload_pb2.WorkloadSpec(
            kind=options_pb2.KIND_TRAINING, name=name, command="python train.py --epochs 3", backoff_limit=0
        )
        spec.gpu_portion_request = 0.25
        return Checked(self.project, spec, Given(name), workload_pb2.ORIGIN_YAML, "")

    async def published(self) -> None:
        """Everything in the outboxes counts as published on the bus that the services know."""
        for service in self._services:
            pool = service.database.pool
            for lane in (0, 1):
                await pool.execute(
                    "INSERT INTO relay_positions (lane, bus, last) SELECT $1, $2, coalesce(max(id), 0) FROM outbox "
                    "ON CONFLICT (lane, bus) DO UPDATE SET last = excluded.last",
                    lane,
                    self.bus,
                )


async def _rows(service: _Service) -> list[Any]:
    """Return the rows of an outbox that were not read yet."""
    return await service.database.pool.fetch(_ROWS, service.last)


async def _in_stretches(intake: Intake, origins: Sequence[Origin], most: int = 500) -> None:
    for at in range(0, len(origins), most):
        await intake.process(origins[at : at + most], {})
