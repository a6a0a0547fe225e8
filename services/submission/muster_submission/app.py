"""The composition root: the only file that knows everything. Opens the parts, wires them, names the eternal tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import asyncpg

from muster.api.v1 import (
    agent_gateway_pb2,
    agent_gateway_pb2_grpc,
    dead_letters_pb2,
    dead_letters_pb2_grpc,
    explain_pb2,
    explain_pb2_grpc,
    fleet_pb2,
    fleet_pb2_grpc,
    policies_pb2,
    policies_pb2_grpc,
    templates_pb2,
    templates_pb2_grpc,
    tenancy_pb2,
    tenancy_pb2_grpc,
    triggers_pb2,
    triggers_pb2_grpc,
    usage_pb2,
    usage_pb2_grpc,
    workloads_pb2,
    workloads_pb2_grpc,
)
from muster_chassis import identity, logs, topics
from muster_chassis.bus import Bus, DatabaseIdentity
from muster_chassis.database import TRANSIENT, Database
from muster_chassis.dead_letters import DeadLetters
from muster_chassis.group_consumer import GroupConsumer
from muster_chassis.migrations import of_package
from muster_chassis.outbox import Relay
from muster_chassis.retention import Retention
from muster_chassis.rpc import Server, Service, service
from muster_chassis.runtime import Runtime
from muster_submission.adapters.agents import Agents
from muster_submission.adapters.applied import PostgresApplied
from muster_submission.adapters.expressions import CelProcess
from muster_submission.adapters.feed import Feed
from muster_submission.adapters.firings import PostgresFirings
from muster_submission.adapters.fleet import PostgresFleet
from muster_submission.adapters.objects import KnownObjects
from muster_submission.adapters.owners import Owner
from muster_submission.adapters.places import DirectoryBooks
from muster_submission.adapters.reading import Reading
from muster_submission.adapters.secrets import PostgresSecrets
from muster_submission.adapters.templates import PostgresTemplates
from muster_submission.adapters.tenancy import PostgresTenancy
from muster_submission.adapters.triggers import PostgresTriggers
from muster_submission.adapters.usage import PostgresUsage
from muster_submission.adapters.vault import BadKeys, Vault
from muster_submission.adapters.verdicts import Verdicts
from muster_submission.adapters.workloads import PostgresWorkloads
from muster_submission.app_access import AccessParts
from muster_submission.handlers.apply import Apply
from muster_submission.handlers.departments import Departments
from muster_submission.handlers.drafts import Drafts
from muster_submission.handlers.firing import Firing
from muster_submission.handlers.intents import Intents
from muster_submission.handlers.node_pools import NodePools
from muster_submission.handlers.objects import Objects
from muster_submission.handlers.progress import Follow
from muster_submission.handlers.runs import Runs
from muster_submission.handlers.sealing import Rotation, Sealing
from muster_submission.handlers.submit import Submit
from muster_submission.handlers.templates import Library
from muster_submission.handlers.tenancy import Projects
from muster_submission.handlers.triggers import Rules
from muster_submission.handlers.usage import Accounts
from muster_submission.rest.edge import Edge
from muster_submission.rest.parts import Parts
from muster_submission.rest.routes import operations
from muster_submission.rest.server import RestServer
from muster_submission.rpc.agent_gateway import AgentGateway
from muster_submission.rpc.applying import Applying
from muster_submission.rpc.dead_letters import AllDeadLetters
from muster_submission.rpc.explain import Explain
from muster_submission.rpc.fleet import Fleet
from muster_submission.rpc.logs import LogReading
from muster_submission.rpc.policies import Policies
from muster_submission.rpc.templates import Templates
from muster_submission.rpc.tenancy import Tenancy
from muster_submission.rpc.tokens import PUBLIC
from muster_submission.rpc.triggers import Triggers
from muster_submission.rpc.usage import Usage
from muster_submission.rpc.watch import Watching
from muster_submission.rpc.workloads import Mounted, Workloads
from muster_submission.settings import SubmissionSettings, addresses
from muster_submission.stream import FOLLOWED, Followed, Triggered, cloud_event, decoder

NAME: Final = "submission"
_log = logs.get(__name__)
_LOG_KEPT: Final = timedelta(hours=24)
_HISTORY_KEPT: Final = timedelta(days=90)
_PRUNE_SECONDS: Final = 60.0
_PRUNE_ROWS: Final = 5000
_WAIT_SECONDS: Final = 1.0
_ROTATE_SECONDS: Final = 60.0
_TRIGGER_RECORDS: Final = 100  # each takes locks of its own
_DRAIN_SECONDS: Final = 3.0
_ENDED: Final = """
SELECT id::text FROM workloads WHERE gone AND finished_at < now() - make_interval(days => $1) ORDER BY id LIMIT 5000
"""
_DELETED_KEPT: Final = 7
_FORGOTTEN_AFTER: Final = 14


class Application:
    """The parts of one process, wired."""

    def __init__(self, runtime: Runtime, settings: SubmissionSettings, database: Database, bus: Bus) -> None:
        self.runtime = runtime
        self.settings = settings
        self.database = database
        self.bus = bus
        self.access_parts = AccessParts(settings, database)
        self.access = self.access_parts.access
        self.tenancy = PostgresTenancy(database.pool, self.access_parts.books.stale)
        self.reading = Reading(database.pool, DirectoryBooks(database.pool, self.tenancy))
        self.feed = Feed(self.reading)
        self.verdicts = Verdicts()
        self.agents = Agents()
        self.books = PostgresWorkloads()
        self.fleet = PostgresFleet(database.pool)
        self.templates = PostgresTemplates(database.pool)
        self.triggers = PostgresTriggers(database.pool)
        self.firings = PostgresFirings(database.pool)
        self.expressions = CelProcess()
        self.usage = PostgresUsage(database.pool)
        self.grants = self.access_parts.grants(self.tenancy)
        self.drafts = Drafts(self.tenancy, self.templates)
        self.vault = Vault(settings.secret_keys_file)
        self.secrets = PostgresSecrets(database.pool)
        self.sealing = Sealing(self.vault, self.secrets)
        self.submit = Submit(self.books, self.sealing, self.feed)
        self.runs = Runs(self.expressions, self.drafts, self.access)
        self.firing = Firing(self.triggers, self.firings, self.runs, self.submit)
        self.intents = Intents(self.books, self.sealing, self.feed)
        self.apply = Apply(PostgresApplied(), self.books, self.sealing, self.submit, self.intents)
        self.departments = Departments(self.tenancy)
        self.node_pools = NodePools(self.fleet)
        self.organisation = Tenancy(
            database,
            self.access,
            self.tenancy,
            self.fleet,
            Projects(self.tenancy),
            self.departments,
            self.node_pools,
        )
        self.scheduler = Owner("scheduler", addresses(settings.scheduler_address))
        self.policy = Owner("policy", addresses(settings.policy_address))
        self.telemetry = Owner("telemetry", addresses(settings.telemetry_address))

    def consumers(self) -> tuple[GroupConsumer, GroupConsumer]:
        """The consumer of what is followed, and that of foreign events."""
        follow = Follow(self.books, self.feed, self.verdicts.tell)
        followed = GroupConsumer(
            self.database,
            self.bus,
            instance=self.settings.instance,
            name=NAME,
            topics=FOLLOWED,
            handler=Followed(follow, Accounts(self.usage)),
            decoder=decoder(),
        )
        triggered = GroupConsumer(
            self.database,
            self.bus,
            instance=self.settings.instance,
            name=f"{NAME}-triggers",
            topics=[topics.TRIGGERS],
            handler=Triggered(self.firing),
            decoder=cloud_event,
            records=_TRIGGER_RECORDS,
        )
        return followed, triggered

    def services(self) -> Sequence[Service]:
        """Everything that is served."""
        everyone = [self.policy, self.scheduler, self.telemetry]
        own = DeadLetters(self.database)
        library = Library(self.templates, self.drafts, self.sealing)
        rules = Rules(self.triggers, self.firings, self.drafts, self.expressions, self.runs)
        return [
            self._workloads(),
            *self.access_parts.services(self.grants),
            service(
                tenancy_pb2.DESCRIPTOR.services_by_name["TenancyService"],
                tenancy_pb2_grpc.add_TenancyServiceServicer_to_server,
                self.organisation,
            ),
            service(
                templates_pb2.DESCRIPTOR.services_by_name["TemplatesService"],
                templates_pb2_grpc.add_TemplatesServiceServicer_to_server,
                Templates(self.database, self.access, self.templates, library),
            ),
            service(
                triggers_pb2.DESCRIPTOR.services_by_name["TriggersService"],
                triggers_pb2_grpc.add_TriggersServiceServicer_to_server,
                Triggers(self.database, self.access, self.triggers, self.firings, rules, self.firing),
            ),
            service(
                usage_pb2.DESCRIPTOR.services_by_name["UsageService"],
                usage_pb2_grpc.add_UsageServiceServicer_to_server,
                Usage(self.access, self.usage),
            ),
            service(
                dead_letters_pb2.DESCRIPTOR.services_by_name["DeadLettersService"],
                dead_letters_pb2_grpc.add_DeadLettersServiceServicer_to_server,
                AllDeadLetters(self.database, self.access, own, everyone),
            ),
            *self._passed_on(),
        ]

    def _workloads(self) -> Service:
        servicer = Workloads(
            self.database,
            self.access,
            self.reading,
            self.drafts,
            self.submit,
            self.intents,
            self.verdicts,
            Mounted(
                Watching(self.reading, self.feed),
                LogReading(self.reading, self.feed, self.agents),
                Applying(self.database, self.drafts, self.apply, self.access),
            ),
        )
        self.runtime.eternal("single submissions", servicer.together.run)
        return service(
            workloads_pb2.DESCRIPTOR.services_by_name["WorkloadsService"],
            workloads_pb2_grpc.add_WorkloadsServiceServicer_to_server,
            servicer,
        )

    def _passed_on(self) -> Sequence[Service]:
        return [
            service(
                fleet_pb2.DESCRIPTOR.services_by_name["FleetService"],
                fleet_pb2_grpc.add_FleetServiceServicer_to_server,
                Fleet(self.database, self.access, self.scheduler),
            ),
            service(
                explain_pb2.DESCRIPTOR.services_by_name["ExplainService"],
                explain_pb2_grpc.add_ExplainServiceServicer_to_server,
                Explain(self.access, self.scheduler, self.reading),
            ),
            service(
                policies_pb2.DESCRIPTOR.services_by_name["PoliciesService"],
                policies_pb2_grpc.add_PoliciesServiceServicer_to_server,
                Policies(self.access, self.policy),
            ),
            service(
                agent_gateway_pb2.DESCRIPTOR.services_by_name["AgentGatewayService"],
                agent_gateway_pb2_grpc.add_AgentGatewayServiceServicer_to_server,
                AgentGateway(self.access, self.agents, self.secrets, self.vault),
            ),
        ]

    def edge(self) -> Edge:
        """The REST API."""
        parts = Parts(
            database=self.database,
            access=self.access,
            reading=self.reading,
            feed=self.feed,
            verdicts=self.verdicts,
            drafts=self.drafts,
            submit=self.submit,
            intents=self.intents,
            objects=Objects(PostgresApplied(), self.books, self.submit),
            known=KnownObjects(self.database.pool),
            tenancy=self.tenancy,
            organisation=self.organisation,
            fleet=self.fleet,
            node_pools=self.node_pools,
            gates=self.access_parts.gates(self.grants),
            tenant_id=self.settings.tenant_id,
            scheduler=self.scheduler,
            policy=self.policy,
            telemetry=self.telemetry,
        )
        return Edge(operations(parts), self.access_parts.authenticate)

    async def keep_bounded(self) -> None:
        """Prunes the log of changes, histories and old firings, once a minute. An eternal task."""
        while True:
            try:
                while await self.reading.prune(identity.now() - _LOG_KEPT, _PRUNE_ROWS):
                    pass
                while await self.reading.forget(identity.now() - _HISTORY_KEPT, _PRUNE_ROWS):
                    pass
                await self.firings.forget(identity.now(), _PRUNE_ROWS)
                await self.access_parts.renew()
                await self.secrets.forget(_PRUNE_ROWS)
            except (*TRANSIENT, asyncpg.PostgresError, TimeoutError) as error:
                _log.warning("old rows could not be removed, tried again in a minute", error=repr(error))
            await asyncio.sleep(_PRUNE_SECONDS)

    async def keep_sealed(self) -> None:
        """Reads the keys again where their file has changed, and seals anew what an older key has sealed. Eternal."""
        rotation = Rotation(self.vault, self.secrets)
        while True:
            try:
                self.vault.renew()
                more = True
                while more:
                    async with self.database.unit() as unit:
                        more = await rotation.turn(unit)
            except BadKeys as error:
                _log.error("the keys for credentials cannot be read, those that were read stay", error=str(error))
            except (*TRANSIENT, asyncpg.PostgresError, TimeoutError) as error:
                _log.warning("credentials could not be sealed anew, tried again in a minute", error=repr(error))
            await asyncio.sleep(_ROTATE_SECONDS)

    async def start_what_waits(self) -> None:
        """Lets firings that wait for their rule's limits go on, once a second. An eternal task."""
        while True:
            try:
                for key in await self.firings.with_waiting():
                    async with self.database.unit() as unit:
                        await self.firing.go_on(unit, key)
            except (*TRANSIENT, asyncpg.PostgresError, TimeoutError) as error:
                _log.warning("waiting firings could not be looked at, tried again in a second", error=repr(error))
            await asyncio.sleep(_WAIT_SECONDS)

    async def ended(self, days: int) -> list[str]:
        """Workloads that have been Deleted for so many days."""
        return [row["id"] for row in await self.database.pool.fetch(_ENDED, days)]


async def compose(runtime: Runtime, settings: SubmissionSettings) -> Application:
    """Opens and wires everything, and names the eternal tasks."""
    database = await Database.open(settings, source=NAME, migrations=of_package(NAME, "muster_submission"))
    runtime.close_last(database.close)
    bus = Bus(
        settings.kafka_bootstrap,
        client=f"muster-{NAME}-{settings.instance}",
        identity=DatabaseIdentity(database),
        owned=topics.owned_by(NAME),
        health=runtime.health,
    )
    runtime.close_last(bus.close)
    app = Application(runtime, settings, database, bus)
    for owner in (app.scheduler, app.policy, app.telemetry, app.expressions):
        runtime.close_last(owner.close)
    async with database.unit() as unit:
        await app.departments.ensure_default(unit)
        await app.access_parts.begin(unit)
    relay = Relay(database, bus)
    server = Server(settings, app.services(), runtime.health, app.access_parts.authenticate, PUBLIC)
    retention = Retention(
        database, deletable=lambda: app.ended(_DELETED_KEPT), forgotten=lambda: app.ended(_FORGOTTEN_AFTER)
    )

    async def stop_serving() -> None:
        app.feed.close()
        app.agents.end()
        await server.stop()

    runtime.eternal("bus", bus.watch)
    runtime.eternal("relay", relay.run)
    for consumer in app.consumers():
        runtime.eternal(f"consumer {consumer.name}", consumer.run, stop=consumer.stop)
    runtime.eternal("feed", app.feed.run)
    runtime.eternal("retention", retention.run)
    runtime.eternal("pruning", app.keep_bounded)
    runtime.eternal("refusals", app.access_parts.refusals.run)
    runtime.eternal("waiting firings", app.start_what_waits)
    if settings.secret_keys_file is not None:
        runtime.eternal("credentials", app.keep_sealed)
    runtime.eternal("rpc", server.run, stop=stop_serving)
    if settings.rest_listen is not None:
        rest = RestServer(settings.rest_listen, app.edge())
        rest.start()
        runtime.eternal("rest", rest.run, stop=rest.stop)
    runtime.drain(lambda: relay.drain(_DRAIN_SECONDS))
    await server.start()
    return app
