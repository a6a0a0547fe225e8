"""The verb that makes a Kubernetes cluster part of the fleet: it prints what is to be applied there."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from cyclopts import Group, Parameter

from muster.api.v1 import access_pb2
from muster_client import tls
from muster_client.address import find_server
from muster_client.cli.exits import Exit
from muster_client.cli.fleet import trust_document
from muster_client.cli.manifests import show_manifests
from muster_client.cli.options import Common
from muster_client.cli.output import emit, note
from muster_client.errors import AlreadyExists, InvalidInput
from muster_client.joining import bus
from muster_client.joining.installing import objects_of
from muster_client.joining.settings import cluster_file, has_mig_manager
from muster_client.joining.values import BusAccess, Installation, application_name
from muster_client.muster import Muster

_AGENT: Final = Group("The agent", sort_key=70)
_KAFKA: Final = Group("Kafka", sort_key=80)
_NO_OPTIONS = Common()
_LOOPBACK: Final = ("127.", "localhost:", "[::1]:")
_AGENT_ROLE: Final = "cluster-agent"


@Parameter(name="*", group=_KAFKA)
@dataclass(frozen=True, slots=True)
class Kafka:
    """How the agent reaches Kafka; without --kafka it gets a user of the stack on this machine."""

    bootstrap: Annotated[str, Parameter(name="--kafka")] = ""
    """Its brokers, HOST:PORT, several separated by commas."""
    security: Annotated[Literal["sasl_ssl", "sasl_plaintext", "plaintext"], Parameter(name="--kafka-security")] = (
        "sasl_ssl"
    )
    """How it connects."""
    user: Annotated[str, Parameter(name="--kafka-user")] = ""
    """The agent's user; agent-CLUSTER unless it is given."""
    password_file: Annotated[Path | None, Parameter(name="--kafka-password-file")] = None
    """The file with its password."""
    ca: Annotated[Path | None, Parameter(name="--kafka-ca")] = None
    """Certificates (PEM) that sasl_ssl trusts; else those of the system."""

    def access(self, cluster: str, *, rotate: bool) -> BusAccess:
        """What the agent logs in with. Raises InvalidInput or NotNow."""
        if not self.bootstrap:
            if self.user or self.password_file or self.ca:
                raise InvalidInput("--kafka-user, --kafka-password-file and --kafka-ca need --kafka HOST:PORT")
            found = bus.of_stack(cluster, rotate=rotate)
            if found is None:
                raise InvalidInput(
                    "no stack is installed here: say how the agent reaches Kafka, with --kafka HOST:PORT"
                )
            return found
        if self.security == "plaintext":
            return BusAccess(self.bootstrap, self.security)
        if self.password_file is None:
            raise InvalidInput(f"--kafka-security {self.security} needs a password: give --kafka-password-file FILE")
        password = _read(self.password_file, "--kafka-password-file").strip()
        authorities = _read(self.ca, "--kafka-ca") if self.ca else ""
        return BusAccess(self.bootstrap, self.security, self.user or application_name(cluster), password, authorities)


@Parameter(name="*", group=_AGENT)
@dataclass(frozen=True, slots=True)
class Agent:
    """How the agent is installed."""

    namespace: str = "muster"
    """The agent's own namespace."""
    project_namespaces: Annotated[tuple[str, ...], Parameter(name="--project-namespace", negative="")] = ()
    """A namespace of a project that is there already. Without any, the agent makes them."""
    cluster_file: Path | None = None
    """More settings of the agent (see the guide for Kubernetes clusters)."""
    image: str = ""
    """Its image; without one no Deployment is printed, and the agent runs outside of the cluster."""
    submission: str = ""
    """Where it reaches submission, HOST:PORT, or https://HOST:PORT for TLS; else as this command does."""


_DEFAULT_AGENT: Final = Agent()
_STACK_KAFKA: Final = Kafka()


async def join_cluster(
    cluster: str,
    *,
    rotate: Annotated[bool, Parameter(negative="")] = False,
    agent: Agent = _DEFAULT_AGENT,
    kafka: Kafka = _STACK_KAFKA,
    common: Common = _NO_OPTIONS,
) -> int:
    """Registers a Kubernetes cluster and prints what its agent needs: `muster clusters join ID | kubectl apply -f -`.

    The Secret with the agent's credentials is printed the first time only.

    Args:
        cluster: Its id: lower-case letters, digits and dashes.
        rotate: New credentials; the old ones end at once.
        agent: How the agent is installed.
        kafka: How the agent reaches Kafka.
        common: Connection.
    """
    projects = tuple(dict.fromkeys(agent.project_namespaces))
    more = "" if agent.cluster_file is None else _read(agent.cluster_file, "--cluster-file")
    where = f"--cluster-file {agent.cluster_file}"
    settings = cluster_file(cluster, agent.namespace, managed=not projects, more=more, where=where)
    server = tls.named(agent.submission) if agent.submission else find_server(common.server)
    authorities = tls.own_authorities() if server.startswith(tls.SCHEME) else ""
    async with common.muster() as muster:
        keys = (await muster.clusters.register(cluster)).keys
        access = kafka.access(cluster, rotate=rotate)
        # Last, since a secret is shown once: whatever else may fail has not failed by now.
        application = await _application(muster, cluster, rotate=rotate)
    installation = Installation(
        cluster=cluster,
        namespace=agent.namespace,
        projects=projects,
        cluster_file=settings,
        trust=trust_document(keys),
        submission=server.removeprefix(tls.SCHEME),
        submission_tls=server.startswith(tls.SCHEME),
        submission_ca=authorities,
        bus=access,
        application=application,
        image=agent.image,
        mig_manager=has_mig_manager(settings),
    )
    found = objects_of(installation)
    if common.json:
        emit(found)
    else:
        show_manifests(found)
    for text in _notes(installation):
        note(text)
    return Exit.OK


async def _application(muster: Muster, cluster: str, *, rotate: bool) -> tuple[str, str] | None:
    """The id and secret that the agent logs in with; None: it has some already, and none were asked for."""
    name = application_name(cluster)
    made: access_pb2.CreateApplicationResponse | access_pb2.RotateApplicationResponse | None
    try:
        made = await muster.applications.create(name)
    except AlreadyExists:
        made = await muster.applications.rotate(name) if rotate else None
    rule = access_pb2.AccessRule(
        holder_kind="application", holder=name, role=_AGENT_ROLE, scope_kind="cluster", scope=cluster
    )
    with suppress(AlreadyExists):
        await muster.access.grant(rule)
    return (made.application.id, made.secret) if made is not None else None


def _notes(installation: Installation) -> list[str]:
    """Remarks for the administrator who applies the objects."""
    found = []
    if installation.application is None:
        found.append(
            f"cluster {installation.cluster} has credentials, so the Secret is left out; --rotate makes new ones"
        )
    if installation.image:
        local = [one for one in (installation.submission, installation.bus.bootstrap) if one.startswith(_LOOPBACK)]
        if local:
            found.append(
                f"pods do not reach {' and '.join(local)}: give addresses of this network with --submission and --kafka"
            )
    else:
        found.append("no --image was given, so no Deployment is printed: run the agent outside of the cluster")
    if installation.projects:
        names = ", ".join(installation.projects)
        found.append(f"each of {names} needs the label muster.io/project=PROJECT before the agent writes to it")
    return found


def _read(path: Path, option: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        why = (problem.strerror if isinstance(problem, OSError) else None) or problem
        raise InvalidInput(f"{option} {path} cannot be read: {why}") from None
