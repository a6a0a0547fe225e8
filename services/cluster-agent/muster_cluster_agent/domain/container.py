"""How the container of a replica is made: what a workload's spec says beside command, environment and resources.

Made by `adapters.containers` for back ends that have containers, carried by templates and plans. Pure values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from muster_cluster_agent.domain.storage import Volume

TENSORBOARD_PORT: Final = 6006


@dataclass(frozen=True, slots=True)
class SecretVariable:
    """A variable whose value is one key of a Secret of the cluster. optional: the Secret may lack the key."""

    name: str
    secret: str
    key: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Security:
    """As whom and with which rights its processes run; None: what the image or the cluster says.

    seccomp: RuntimeDefault or Unconfined; empty: the cluster's own. capabilities: those that are added.
    """

    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()
    non_root: bool | None = None
    read_only_root: bool | None = None
    escalation: bool | None = None
    seccomp: str = ""
    capabilities: tuple[str, ...] = ()
    drop_capabilities: bool = False


class Reach(StrEnum):
    """From where a port is reached; the values are the API's types of Services."""

    CLUSTER = "ClusterIP"
    NODES = "NodePort"
    BALANCER = "LoadBalancer"


@dataclass(frozen=True, slots=True)
class ServedPort:
    """A port on which the container listens. external: the one outside; 0: the same, or one of the cluster's choice.

    sidecar: another container of the pod listens on it.
    """

    container: int
    external: int = 0
    reach: Reach = Reach.CLUSTER
    sidecar: bool = False


@dataclass(frozen=True, slots=True)
class ExposedPort:
    """A port that is to be reached from outside the cluster. label: its name within the workload.

    url: the address asked for; empty: the cluster makes one up. users, groups: who may open it; with neither, everyone
    whom the cluster lets in.
    """

    label: str
    container: int
    url: str = ""
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Checkout:
    """A repository that is checked out before the replica starts. branch, revision: empty: what the server says.

    secrets: its credentials in Secrets of the cluster. credentials: those that Muster keeps, by the variable.
    """

    repository: str
    path: str
    branch: str = ""
    revision: str = ""
    secrets: tuple[SecretVariable, ...] = ()
    credentials: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Container:
    """The container of one role.

    pull_policy: Always, IfNotPresent or Never; empty: the cluster's own. extended: whole units by the resource's name.
    large_shm: /dev/shm is as large as half of its memory. host_ipc, host_network: it uses its node's. home: a folder
    that is made as its home; empty: the image's own. tensorboard: a sidecar shows tensorboard_logs.
    """

    image: str
    pull_policy: str = ""
    pull_secrets: tuple[str, ...] = ()
    tty: bool = False
    stdin: bool = False
    secrets: tuple[SecretVariable, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    extended: tuple[tuple[str, int], ...] = ()
    large_shm: bool = False
    ports: tuple[ServedPort, ...] = ()
    exposed: tuple[ExposedPort, ...] = ()
    volumes: tuple[Volume, ...] = ()
    checkouts: tuple[Checkout, ...] = ()
    tensorboard: bool = False
    tensorboard_logs: str = ""
    host_ipc: bool = False
    host_network: bool = False
    home: str = ""
    security: Security = field(default_factory=Security)
