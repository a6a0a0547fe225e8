"""What a stack consists of: every part with its command, environment and ports, and in which order they start.

Called by house.py. Services are started by `python -m`, none is imported; their settings go through the environment
alone.
Holds: every process carries MUSTER_STACK_ID and MUSTER_SERVICE, so that it can be found without its keeper.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster_stack import credentials, identities, kafka, postgres, sealing_keys
from muster_stack.bus.access import Access
from muster_stack.bus.identities import Identities
from muster_stack.kafka import KafkaServer
from muster_stack.keeper import probes
from muster_stack.keeper.child import Part, nothing
from muster_stack.keeper.instances import POLICY, SCHEDULER, SUBMISSION, TELEMETRY, Instance, all_instances
from muster_stack.keeper.state import State
from muster_stack.layout import Layout
from muster_stack.ports import LOOPBACK
from muster_stack.postgres import PostgresServer
from muster_stack.processes import PRIVATE, SERVICE_MARK, SHARED, STACK_MARK, Command

KAFKA: Final = "kafka"
POSTGRES: Final = postgres.NAME
REST: Final = "rest"
# Settings of the user's that services get: a proxy in front of the stack is the user's as well, and so is the disk.
_PASSED_ON: Final = frozenset(
    {"MUSTER_PUBLIC_HOSTS", "MUSTER_RETENTION_SECONDS", "MUSTER_ARCHIVE_DAYS", "MUSTER_ARCHIVE_FOLDER"}
)
_AGENT: Final = "muster_cluster_agent"
_SERVER_CALM: Final = 5.0  # seconds between two probes of a ready Kafka or PostgreSQL


@dataclass(frozen=True, slots=True)
class Cluster:
    """A declared cluster: its id and its declaration."""

    name: str
    file: Path

    @property
    def service(self) -> str:
        """The name of its agent's part."""
        return f"agent-{self.name}"


@dataclass(frozen=True, slots=True)
class Parts:
    """All parts in the order of their start: a row starts when the row before is ready, and stops before it stops.

    Patient parts start together with the row before theirs.
    """

    rows: Sequence[Sequence[Part]]
    kafka: KafkaServer | None = None
    submission: str | None = None  # the address where clusters are registered
    rest: str | None = None  # the address of the REST API

    @property
    def all(self) -> list[Part]:
        """Every part."""
        return [part for row in self.rows for part in row]


def compose(state: State, runtime: kafka.Runtime, clusters: Sequence[Cluster]) -> Parts:
    """The embedded stack. Chooses the ports and keeps them in `state`."""
    instances = all_instances(state.options.instances)
    names = [*(each.name for each in instances), *(cluster.service for cluster in clusters)]
    wanted = [f"{name}.{kind}" for name in names for kind in ("grpc", "metrics")]
    rests = [f"{each.name}.{REST}" for each in instances if each.service == SUBMISSION]
    state.choose_ports(["kafka", "kafka.controller", *rests, *wanted])
    layout = state.layout
    identities.ensure(layout)
    broker = KafkaServer(
        layout.kafka,
        port=state.ports["kafka"],
        controller_port=state.ports["kafka.controller"],
        log=layout.log(KAFKA),
        runtime=runtime,
        access=Access(Identities(layout.bus_identities), [cluster.name for cluster in clusters]),
    )
    database = PostgresServer.of(layout)
    maker = _Maker(state, broker, database)
    return Parts(
        rows=[
            [_kafka_part(broker, layout), _postgres_part(database, layout)],
            [maker.service(each) for each in instances],
            [maker.agent(cluster) for cluster in clusters],
        ],
        kafka=broker,
        submission=maker.address(SUBMISSION),
        rest=maker.address(SUBMISSION, REST),
    )


def marks(layout: Layout, name: str) -> dict[str, str]:
    """What every process of a stack carries in its environment."""
    return {STACK_MARK: layout.key, SERVICE_MARK: name}


def _kafka_part(broker: KafkaServer, layout: Layout) -> Part:
    return Part(
        name=KAFKA,
        command=lambda: broker.command(env=marks(layout, KAFKA)),
        ready=probes.of_kafka(broker),
        prepare=broker.prepare,
        settle=broker.settle,
        stop_grace=kafka.STOP_GRACE,
        addresses=(("bootstrap", broker.bootstrap),),
        calm=_SERVER_CALM,
    )


def _postgres_part(database: PostgresServer, layout: Layout) -> Part:
    def prepare() -> None:
        database.end_leftovers()
        database.prepare()

    return Part(
        name=POSTGRES,
        command=lambda: database.command(env=marks(layout, POSTGRES)),
        ready=probes.of_postgres(database),
        prepare=prepare,
        settle=database.bootstrap,
        stop_signal=postgres.STOP_SIGNAL,
        stop_grace=postgres.STOP_GRACE,
        addresses=(("socket", str(layout.sockets)),),
        calm=_SERVER_CALM,
    )


class _Maker:
    """Makes the parts that are Muster's own services."""

    def __init__(self, state: State, broker: KafkaServer, database: PostgresServer) -> None:
        self._state = state
        self._layout = state.layout
        self._broker = broker
        self._database = database

    def address(self, name: str, kind: str = "grpc") -> str:
        return f"{LOOPBACK}:{self._state.ports[f'{name}.{kind}']}"

    def service(self, instance: Instance) -> Part:
        service = instance.service

        def environment() -> dict[str, str]:
            # Asked at every start: the password exists only after PostgreSQL's first one.
            own = {"MUSTER_DATABASE_URL": self._database.url(service), "MUSTER_DATABASE_SCHEMA": service}
            return {**self._shared(instance.name, service), **own, **self._particular(instance)}

        return self._part(instance, f"muster_{service}", environment)

    def agent(self, cluster: Cluster) -> Part:
        name = cluster.service
        own = {
            "MUSTER_CLUSTER_FILE": str(cluster.file),
            "MUSTER_TRUST_FILE": str(identities.trust(self._layout)),
            "MUSTER_STATE_DIR": str(self._layout.agent(cluster.name)),
            "MUSTER_DATA_DIR": str(self._layout.root),
            "MUSTER_CONFINED": "true" if self._state.options.auth else "false",
            "MUSTER_SUBMISSION_ADDRESS": self._addresses(SUBMISSION),
            "MUSTER_APPLICATION_FILE": str(credentials.agents(self._layout)),
            "MUSTER_HOLD": "true" if self._state.options.hold else "false",
        }
        folder = self._layout.agent(cluster.name)

        def prepare() -> None:
            folder.mkdir(parents=True, exist_ok=True)

        return self._part(Instance(name), _AGENT, lambda: {**self._shared(name, name), **own}, prepare)

    def _part(
        self,
        instance: Instance,
        module: str,
        environment: Callable[[], Mapping[str, str]],
        prepare: Callable[[], None] = nothing,
    ) -> Part:
        name, ports = instance.name, self._state.ports
        grpc, metrics = ports[f"{name}.grpc"], ports[f"{name}.metrics"]
        is_agent = module == _AGENT
        return Part(
            name=name,
            command=lambda: Command(
                argv=(sys.executable, "-m", module),
                log=self._layout.log(name),
                env=environment(),
                cwd=self._layout.root,
                umask=SHARED if is_agent else PRIVATE,
            ),
            ready=probes.of_service(metrics=metrics, grpc=None if is_agent else grpc),
            prepare=prepare,
            owns_group=not is_agent,
            patient=is_agent,
            awaited=instance.service != TELEMETRY,
            addresses=tuple((kind, self.address(name, kind)) for kind in self._kinds(instance)),
        )

    def _kinds(self, instance: Instance) -> tuple[str, ...]:
        """What the service listens for, each with a port of its own."""
        return ("grpc", "metrics", REST) if instance.service == SUBMISSION else ("grpc", "metrics")

    def _shared(self, name: str, user: str) -> dict[str, str]:
        # The user's own MUSTER_* settings are meant for the command line, not for services that we configure.
        inherited = {
            key: value for key, value in os.environ.items() if key in _PASSED_ON or not key.startswith("MUSTER_")
        }
        return {
            **inherited,
            **marks(self._layout, name),
            "PYTHONUNBUFFERED": "1",
            "MUSTER_KAFKA_BOOTSTRAP": self._broker.bootstrap,
            "MUSTER_KAFKA_SECURITY": "sasl_plaintext",
            "MUSTER_KAFKA_USER": user,
            "MUSTER_KAFKA_PASSWORD_FILE": str(self._layout.bus_identities / user),
            "MUSTER_GRPC_LISTEN": self.address(name),
            "MUSTER_PORTS_RESERVED": "true" if self._state.reserves else "false",
            "MUSTER_METRICS_LISTEN": self.address(name, "metrics"),
            "MUSTER_INSTANCE": name,
            "MUSTER_LOG_LEVEL": self._state.options.log_level,
        }

    def _particular(self, instance: Instance) -> dict[str, str]:
        service = instance.service
        if service == SUBMISSION:
            first = [str(path) for path in credentials.ensure(self._layout)]
            return {
                "MUSTER_AUTH": "jwt" if self._state.options.auth else "off",
                "MUSTER_AUTH_FIRST_APPLICATIONS": json.dumps(first),
                "MUSTER_SERVICE_KEY_FILE": str(identities.service_key(self._layout, SUBMISSION)),
                "MUSTER_DISK_RESERVE_FOLDER": str(self._layout.root),
                "MUSTER_SECRET_KEYS_FILE": str(sealing_keys.ensure(self._layout.sealing_keys)),
                "MUSTER_REST_LISTEN": self.address(instance.name, REST),
                "MUSTER_SCHEDULER_ADDRESS": self._addresses(SCHEDULER),
                "MUSTER_POLICY_ADDRESS": self._addresses(POLICY),
                "MUSTER_TELEMETRY_ADDRESS": self._addresses(TELEMETRY),
            }
        trust = {"MUSTER_TRUST_FILE": str(identities.trust(self._layout))}
        if service == POLICY:
            # Of a data folder that an earlier release made: policy says what to do with a file that holds rules.
            old = self._layout.old_policy
            return trust | ({"MUSTER_POLICY_FILE": str(old)} if old.exists() else {})
        if service == SCHEDULER:
            return trust | {"MUSTER_ASSIGNMENTS_KEY_FILE": str(identities.assignments_key(self._layout))}
        return trust

    def _addresses(self, service: str) -> str:
        """Of all instances of a service."""
        instances = all_instances(self._state.options.instances)
        return ",".join(self.address(each.name) for each in instances if each.service == service)
