"""What comes in: the facts and requests that change the scheduler's state, as plain values.

stream/ and rpc.py make them from protobuf; `State.apply` takes them. Times are microseconds since 1970 in UTC.
`id` is the event's own id, quoted where a request is refused. What comes by the hundred a second is a named tuple: to
make a frozen dataclass takes three times as long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from muster_kernel.reasons import FailureClass
from muster_scheduler.domain.asked.requests import Share
from muster_scheduler.domain.asked.workloads import ReplicaState, Request
from muster_scheduler.domain.books.pools import NodePool
from muster_scheduler.domain.books.queues import Department, Project
from muster_scheduler.domain.fleet.clusters import Profile
from muster_scheduler.domain.fleet.nodes import Node
from muster_scheduler.domain.fleet.objects import NONE_REPORTED, ReportedObjects
from muster_scheduler.domain.fleet.orders import Order as NodeOrder
from muster_scheduler.domain.fleet.snapshots import InventoryPart, SnapshotPart


class Admitted(NamedTuple):
    """Policy lets a workload run."""

    workload: str
    project: str
    department: str
    namespace: str
    name: str
    owner: str
    submitted: int
    active: bool
    request: Request


@dataclass(frozen=True, slots=True)
class Rejected:
    """Policy refuses a generation of a workload."""

    workload: str
    generation: int
    project: str
    name: str
    submitted: int
    message: str


@dataclass(frozen=True, slots=True)
class SuspendRequested:
    """Somebody wants it suspended."""

    id: str
    workload: str


@dataclass(frozen=True, slots=True)
class ResumeRequested:
    """Somebody wants it to run again."""

    id: str
    workload: str


@dataclass(frozen=True, slots=True)
class DeletionRequested:
    """Somebody wants it gone."""

    id: str
    workload: str


@dataclass(frozen=True, slots=True)
class Archived:
    """The archiving of a workload by submission: no more of it is asked for."""

    workload: str


@dataclass(frozen=True, slots=True)
class ProjectChanged:
    """A project as people want it."""

    project: Project


@dataclass(frozen=True, slots=True)
class ProjectRemoved:
    """A project is no more."""

    name: str


@dataclass(frozen=True, slots=True)
class DepartmentChanged:
    """A department as people want it."""

    department: Department


@dataclass(frozen=True, slots=True)
class DepartmentRemoved:
    """A department is no more."""

    name: str


@dataclass(frozen=True, slots=True)
class NodePoolChanged:
    """A node pool as people want it."""

    pool: NodePool


@dataclass(frozen=True, slots=True)
class NodePoolRemoved:
    """A node pool is no more."""

    id: int


class Order(NamedTuple):
    """Where a report stands among those of its cluster."""

    instance: str
    start: int
    sequence: int
    observed: int


@dataclass(frozen=True, slots=True)
class ClusterRegistered:
    """A cluster may report from now on. lost_timeout: the opt-in in seconds, 0: never given up by time alone."""

    cluster: str
    lost_timeout: int = 0


@dataclass(frozen=True, slots=True)
class ClusterAdopted:
    """Another agent instance takes a cluster over; what the old one held is declared gone."""

    cluster: str
    instance: str


@dataclass(frozen=True, slots=True)
class ClusterLeft:
    """An operator takes a cluster out of the fleet; what it still holds is declared gone."""

    cluster: str


@dataclass(frozen=True, slots=True)
class NodeForcedGone:
    """An operator vouches that nothing runs on a node any more."""

    cluster: str
    node: str


@dataclass(frozen=True, slots=True)
class NodeOrdered:
    """An operator cordons or drains a node, or takes that back."""

    cluster: str
    node: str
    order: NodeOrder


@dataclass(frozen=True, slots=True)
class NodeLayoutOrdered:
    """An operator orders a MIG layout of a node; an empty `config`: takes back the change that is under way."""

    cluster: str
    node: str
    config: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class LayoutReported:
    """An agent answers a change of layout: with the node as it is now, or with why it failed."""

    cluster: str
    order: Order
    node: str
    revision: int
    now: Node | None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class InventoryReported:
    """Nodes and objects of a cluster: all of them, or what changed since the sequence before."""

    cluster: str
    order: Order
    full: bool
    sequence: int
    profile: Profile | None
    nodes: tuple[Node, ...]
    removed: tuple[str, ...]
    objects: ReportedObjects = NONE_REPORTED


@dataclass(frozen=True, slots=True)
class InventoryPartReported:
    """Some nodes of a full inventory. digest: SHA-256 over the checksums of all parts, in their order."""

    cluster: str
    order: Order
    place: SnapshotPart
    digest: bytes
    part: InventoryPart


class Status(NamedTuple):
    """What an agent knows of one replica. An empty role: nothing of the whole attempt is there (state gone only)."""

    role: str
    rank: int
    k: int
    node: str
    state: ReplicaState | None
    gone: bool
    exit_code: int | None = None
    failure: FailureClass = FailureClass.NONE
    name: str = ""
    message: str = ""
    endpoints: tuple[str, ...] = ()
    devices: tuple[Share, ...] = ()
    started: int = 0
    finished: int = 0
    substate: str = ""  # what it is doing while it starts, and since when
    substate_since: int = 0


class ReplicaReported(NamedTuple):
    """One replica changed."""

    cluster: str
    order: Order
    workload: str
    generation: int
    attempt: int
    status: Status
    endpoints: tuple[str, ...] = ()
    conditions: tuple[tuple[str, bool, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class AssignmentRefused:
    """An agent will not do what an assignment says.

    retry_after: seconds; 0: not before the spec or what the cluster takes changes. node: empty where the cluster as a
    whole refuses. final: no cluster can take the workload as it is. role, rank, k: the one replica that is meant; an
    empty role: the whole run.
    """

    cluster: str
    order: Order
    workload: str
    generation: int
    attempt: int
    code: str
    message: str
    node: str
    retry_after: int
    final: bool = False
    role: str = ""
    rank: int = 0
    k: int = 0


class Held(NamedTuple):
    """One assignment that an agent holds."""

    workload: str
    generation: int
    attempt: int
    epoch: int
    replicas: tuple[Status, ...]


@dataclass(frozen=True, slots=True)
class AssignmentsHeld:
    """Everything that an agent holds, or the part of it at `place`."""

    cluster: str
    order: Order
    held: tuple[Held, ...]
    highest_epoch: int
    place: SnapshotPart | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatSeen:
    """An agent lives. dead_man: seconds without contact after which its replicas end by themselves; 0: never.

    unreachable: what it makes replicas with does not answer. version: of its software.
    """

    cluster: str
    order: Order
    dead_man: int = 0
    unreachable: bool = False
    version: str = ""


@dataclass(frozen=True, slots=True)
class IdleReported:
    """A workload's GPUs stand idle since then; 0: they are used."""

    workload: str
    since: int


@dataclass(frozen=True, slots=True)
class ScaleAdvised:
    """A service should have another number of replicas."""

    workload: str
    replicas: int


Event = (
    Admitted
    | Rejected
    | SuspendRequested
    | ResumeRequested
    | DeletionRequested
    | Archived
    | ProjectChanged
    | ProjectRemoved
    | DepartmentChanged
    | DepartmentRemoved
    | NodePoolChanged
    | NodePoolRemoved
    | ClusterRegistered
    | ClusterAdopted
    | ClusterLeft
    | NodeForcedGone
    | NodeLayoutOrdered
    | LayoutReported
    | NodeOrdered
    | InventoryReported
    | InventoryPartReported
    | ReplicaReported
    | AssignmentRefused
    | AssignmentsHeld
    | HeartbeatSeen
    | ScaleAdvised
    | IdleReported
)
