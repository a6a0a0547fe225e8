"""The parts of one process, wired: what is read and written, what is served, what is consumed.

Made by app.py, which opens what they need and names the eternal tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Final

import grpc

from muster.api.v1 import (
    agent_gateway_pb2,
    agent_gateway_pb2_grpc,
    cluster_agents_pb2,
    cluster_agents_pb2_grpc,
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
from muster_chassis import logs, topics
from muster_chassis.bus import Bus
from muster_chassis.database import Database
from muster_chassis.dead_letters import DeadLetters
from muster_chassis.fingerprints import Fingerprints
from muster_chassis.group_consumer import GroupConsumer
from muster_chassis.key_files import PrivateKey, read_private
from muster_chassis.notifications import Notifications
from muster_chassis.rpc import Service, ServiceIdentity, ServiceName, service
from muster_chassis.runtime import Runtime
from muster_submission.adapters.agents import Agents
from muster_submission.adapters.applied import PostgresApplied
from muster_submission.adapters.archive import PostgresArchive
from muster_submission.adapters.commits import Commits
from muster_submission.adapters.disk_reserve import DiskReserve
from muster_submission.adapters.exporting import Exporter
from muster_submission.adapters.expression_lanes import ExpressionLanes
from muster_submission.adapters.feed import Feed
from muster_submission.adapters.firings import PostgresFirings
from muster_submission.adapters.fleet import PostgresFleet
from muster_submission.adapters.last_words import snapshot
from muster_submission.adapters.objects import KnownObjects
from muster_submission.adapters.owners import Owner
from muster_submission.adapters.peers import Peers
from muster_submission.adapters.places import DirectoryBooks
from muster_submission.adapters.reading import Reading
from muster_submission.adapters.refused_calls import RefusedCalls, by_address
from muster_submission.adapters.secrets import PostgresSecrets
from muster_submission.adapters.templates import PostgresTemplates
from muster_submission.adapters.tenancy import PostgresTenancy
from muster_submission.adapters.trigger_queue import PostgresTriggerQueue
from muster_submission.adapters.triggers import PostgresTriggers
from muster_submission.adapters.usage import PostgresUsage
from muster_submission.adapters.vault import Vault
from muster_submission.adapters.verdicts import Verdicts
from muster_submission.adapters.workloads import PostgresWorkloads
from muster_submission.app_access import AccessParts
from muster_submission.app_upkeep import Upkeep
from muster_submission.handlers.apply import Apply
from muster_submission.handlers.archiving import Archiving, Plan
from muster_submission.handlers.asking import Asking
from muster_submission.handlers.departments import Departments
from muster_submission.handlers.drafts import Drafts
from muster_submission.handlers.firing import Firing
from muster_submission.handlers.intents import Intents
from muster_submission.handlers.lanes import Lanes
from muster_submission.handlers.node_pools import NodePools
from muster_submission.handlers.objects import Objects
from muster_submission.handlers.progress import Follow
from muster_submission.handlers.runs import Runs
from muster_submission.handlers.sealing import Sealing
from muster_submission.handlers.submit import Submit
from muster_submission.handlers.templates import Library
from muster_submission.handlers.tenancy import Projects
from muster_submission.handlers.triggers import Rules
from muster_submission.handlers.usage import Accounts
from muster_submission.rest.edge import Edge
from muster_submission.rest.origins import Origins
from muster_submission.rest.parts import Parts
from muster_submission.rest.routes import operations
from muster_submission.rpc.agent_gateway import AgentGateway
from muster_submission.rpc.applying import Applying
from muster_submission.rpc.archived import Archived
from muster_submission.rpc.cluster_agents import ClusterAgents
from muster_submission.rpc.dead_letters import AllDeadLetters
from muster_submission.rpc.explain import Explain
from muster_submission.rpc.fleet import Fleet
from muster_submission.rpc.happenings import Happenings
from muster_submission.rpc.known_pools import KnownPools
from muster_submission.rpc.logs import LogReading
from muster_submission.rpc.policies import Policies
from muster_submission.rpc.templates import Templates
from muster_submission.rpc.tenancy import Tenancy
from muster_submission.rpc.triggers import Triggers
from muster_submission.rpc.usage import Usage
from muster_submission.rpc.watch import Watching
from muster_submission.rpc.workloads import Mounted, Workloads
from muster_submission.settings import SubmissionSettings, addresses
from muster_submission.stream import FOLLOWED, Followed, Triggered, cloud_event, decoder

NAME: Final = "submission"
_log = logs.get(__name__)
_TRIGGER_RECORDS: Final = 100  # each takes locks of its own


def _served(protos: ModuleType, add: Callable[[Any, grpc.aio.Server], None], servicer: object) -> Service:
    """The one service of a proto file, with what answers its calls."""
    (descriptor,) = protos.DESCRIPTOR.services_by_name.values()
    return service(descriptor, add, servicer)


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
        self.verdicts = Verdicts(self.reading.judged)
        self.notifications = Notifications(database)
        self.commits = Commits(self.notifications, self.feed, self.verdicts)
        self.agents = Agents()
        self.peers = Peers(database, settings)
        self.books = PostgresWorkloads()
        self.fleet = PostgresFleet(database.pool)
        self.templates = PostgresTemplates(database.pool)
        self.triggers = PostgresTriggers(database.pool)
        self.firings = PostgresFirings(database.pool)
        self.expressions = ExpressionLanes()
        self.queue = PostgresTriggerQueue(database.pool, settings.instance)
        self.usage = PostgresUsage(database.pool)
        self.grants = self.access_parts.grants(self.tenancy)
        self.drafts = Drafts(self.tenancy, self.templates, settings.template_fields)
        self.vault = Vault(settings.secret_keys_file)
        # A request may have credentials in it, and what is kept of it is in the database for a day.
        database.fingerprints = Fingerprints(self.vault.request_keys)
        self.secrets = PostgresSecrets(database.pool)
        self.sealing = Sealing(self.vault, self.secrets)
        self.reserve = DiskReserve(settings.disk_reserve_folder, settings.disk_reserve)
        self.submit = Submit(self.books, self.sealing, self.commits, self.reserve)
        self.runs = Runs(self.expressions, self.drafts, self.access)
        self.firing = Firing(self.triggers, self.firings, self.queue, self.runs, self.submit, database.unit)
        self.lanes = Lanes(self.firing, self.firings, self.queue, runtime.health, self.reserve)
        self.archive = PostgresArchive(database.pool)
        self.intents = Intents(self.books, self.archive, self.sealing, self.commits)
        self.apply = Apply(PostgresApplied(), self.books, self.sealing, self.submit, self.intents)
        identity = ServiceIdentity(ServiceName.SUBMISSION, PrivateKey(settings.service_key_file, read_private))
        self.scheduler = Owner(ServiceName.SCHEDULER, addresses(settings.scheduler_address), identity)
        self.policy = Owner(ServiceName.POLICY, addresses(settings.policy_address), identity)
        self.telemetry = Owner(ServiceName.TELEMETRY, addresses(settings.telemetry_address), identity)
        self.refused_calls = RefusedCalls(database, by_address([self.scheduler, self.policy, self.telemetry]))
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
            KnownPools(database, self.fleet, self.node_pools, self.scheduler),
        )

    def consumers(self) -> tuple[GroupConsumer, GroupConsumer]:
        """The consumer of what is followed, and that of foreign events."""
        follow = Follow(self.books, self.archive, self.commits, self.commits.judged)
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
            handler=Triggered(self.firing, self.reserve),
            decoder=cloud_event,
            records=_TRIGGER_RECORDS,
        )
        return followed, triggered

    def services(self) -> Sequence[Service]:
        """Everything that is served."""
        everyone = [self.policy, self.scheduler, self.telemetry]
        own = DeadLetters(self.database, snapshot)
        library = Library(self.templates, self.drafts, self.sealing)
        rules = Rules(self.triggers, self.firings, self.drafts, self.expressions, self.runs)
        return [
            self._workloads(),
            *self.access_parts.services(self.grants),
            _served(
                tenancy_pb2,
                tenancy_pb2_grpc.add_TenancyServiceServicer_to_server,
                self.organisation,
            ),
            _served(
                templates_pb2,
                templates_pb2_grpc.add_TemplatesServiceServicer_to_server,
                Templates(self.database, self.access, self.templates, library),
            ),
            _served(
                triggers_pb2,
                triggers_pb2_grpc.add_TriggersServiceServicer_to_server,
                Triggers(self.database, self.access, self.triggers, self.firings, rules, self.runs, self.firing),
            ),
            _served(
                usage_pb2,
                usage_pb2_grpc.add_UsageServiceServicer_to_server,
                Usage(self.access, self.usage),
            ),
            _served(
                dead_letters_pb2,
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
                LogReading(self.reading, self.feed, self.agents, self.peers),
                Applying(self.database, self.drafts, self.apply, self.access),
                Happenings(self.reading),
                Archived(self.archive, self.reading),
            ),
        )
        self.runtime.eternal("single submissions", servicer.together.run)
        return _served(
            workloads_pb2,
            workloads_pb2_grpc.add_WorkloadsServiceServicer_to_server,
            servicer,
        )

    def _passed_on(self) -> Sequence[Service]:
        return [
            _served(
                fleet_pb2,
                fleet_pb2_grpc.add_FleetServiceServicer_to_server,
                Fleet(self.database, self.access, self.scheduler, self.node_pools),
            ),
            _served(
                explain_pb2,
                explain_pb2_grpc.add_ExplainServiceServicer_to_server,
                Explain(self.access, self.scheduler, self.policy, self.reading, Asking(self.drafts)),
            ),
            _served(
                policies_pb2,
                policies_pb2_grpc.add_PoliciesServiceServicer_to_server,
                Policies(self.database, self.access, self.policy, Asking(self.drafts)),
            ),
            _served(
                agent_gateway_pb2,
                agent_gateway_pb2_grpc.add_AgentGatewayServiceServicer_to_server,
                AgentGateway(self.access, self.agents, self.peers, self.secrets, self.vault),
            ),
            _served(
                cluster_agents_pb2,
                cluster_agents_pb2_grpc.add_ClusterAgentsServiceServicer_to_server,
                ClusterAgents(self.database, self.access, self.agents, self.peers),
            ),
        ]

    def archiving(self) -> Archiving:
        """What moves into the archive and out of it."""
        settings = self.settings
        plan = Plan(settings.retention, settings.archive_kept, settings.archive_folder)
        exporter = Exporter(self.database.pool)
        return Archiving(self.database, self.archive, exporter.month, plan, self.runtime.health)

    def upkeep(self) -> Upkeep:
        """What runs beside the calls."""
        return Upkeep(
            self.database,
            reading=self.reading,
            access=self.access_parts,
            firings=self.firings,
            secrets=self.secrets,
            vault=self.vault,
        )

    def edge(self) -> Edge:
        """The REST API."""
        parts = Parts(
            database=self.database,
            access=self.access,
            reading=self.reading,
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
        )
        origins = Origins(self.settings.public_hosts)
        return Edge(
            operations(parts), self.access_parts.authenticate, origins=origins, limiter=self.access_parts.limiter
        )
