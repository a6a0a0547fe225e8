"""How the state's parts look in the database: JSON bodies that msgspec reads back into the very same values.

Used by postgres.py alone. A body holds what no query asks for; what queries ask for are columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from muster_kernel.lifecycle import DesiredPhase, Phase
from muster_kernel.reasons import ChangeReason, FailureClass, WaitingReason
from muster_scheduler.domain.asked.quotas import ModelQuota, Quota, UserLimit
from muster_scheduler.domain.asked.requests import Grant, Holder
from muster_scheduler.domain.asked.rules import NodeTypes, Rules
from muster_scheduler.domain.asked.workloads import Claim, Ending, Replica, ReplicaState, Request, Reservation, Workload
from muster_scheduler.domain.books.pools import NodePool, Strategy
from muster_scheduler.domain.books.queues import Department, Project
from muster_scheduler.domain.fleet.clusters import Cluster, Profile
from muster_scheduler.domain.fleet.nodes import Device, Node, NodeState
from muster_scheduler.domain.shares.decay import Faded
from muster_scheduler.domain.strategies.mix import Mix

_NOTHING: Final = b""


@dataclass(frozen=True, slots=True)
class ClusterBody:
    """A cluster's row."""

    instance: str
    profile: Profile | None
    start: int
    observed: int
    inventory_sequence: int
    full_needed: bool
    silent: bool
    lost_timeout: int


@dataclass(frozen=True, slots=True)
class DeviceBody:
    """A device within a node's row."""

    uuid: str
    model: str
    memory: int
    slot: int
    healthy: bool
    foreign: bool
    mig: bool
    layout: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class NodeBody:
    """A node's row, without what is charged: that follows from the replicas."""

    pool: str
    uid: str
    boot: str
    state: NodeState
    cpu: int
    memory: int
    foreign_cpu: int
    foreign_memory: int
    devices: tuple[DeviceBody, ...]
    slots: int
    foreign_slots: int
    slot_model: str
    labels: tuple[tuple[str, str], ...]
    taints: tuple[tuple[str, str, str], ...]
    drain_deadline: int
    tainted: int
    windows: tuple[tuple[int, int], ...]
    present: bool
    extra: dict[str, int]
    foreign_extra: dict[str, int]


@dataclass(frozen=True, slots=True)
class ProjectBody:
    """A project's row."""

    department: str
    version: int
    quotas: dict[str, Quota]
    rules: Rules
    node_types: NodeTypes
    rank: int
    user_limits: tuple[UserLimit, ...]
    models: tuple[ModelQuota, ...]
    home: str


@dataclass(frozen=True, slots=True)
class DepartmentBody:
    """A department's row."""

    version: int
    quotas: dict[str, Quota]
    rules: Rules
    node_types: NodeTypes
    rank: int
    models: tuple[ModelQuota, ...]


@dataclass(frozen=True, slots=True)
class NodePoolBody:
    """A node pool's row."""

    cluster: str
    name: str
    version: int
    gpu: Strategy
    cpu: Strategy
    levels: tuple[str, ...]
    mix: Mix
    mixed: int


class WorkloadBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """A workload's row beside its columns. What is as it begins is not written: most of a million waiting ones."""

    department: str = ""
    namespace: str = ""
    owner: str = ""
    submitted: int = 0
    reason: ChangeReason = ChangeReason.ADMITTED
    message: str = ""
    queued: int = 0
    told: WaitingReason | None = None
    told_at: int = 0
    cluster: str = ""
    pool: str = ""
    placed: int = 0
    first_placed: int = 0
    ending: Ending = Ending.NONE
    exits: int = 0
    faults: int = 0
    ours: int = 0
    not_before: int = 0
    avoid: list[tuple[tuple[str, str], int]] = msgspec.field(default_factory=list)
    claim: Claim | None = None
    reservation: Reservation | None = None
    preempted_by: str = ""
    record: int = 0
    finished: int = 0
    scale: int | None = None
    snapshot_due: bool = False
    endpoints: tuple[str, ...] = ()
    conditions: tuple[tuple[str, bool, str, str], ...] = ()
    replacements: list[tuple[tuple[str, int], tuple[int, int]]] = msgspec.field(default_factory=list)
    old_generation: int = 0
    preemptions: int = 0
    ran: int = 0
    next_trial: int = 0
    open_trials: tuple[int, ...] = ()
    idle_since: int = 0
    below_since: int = 0
    calm_since: int = 0
    resized: int = 0


class ReplicaBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """A replica's row beside its key."""

    node: tuple[str, str]
    grant: Grant
    state: ReplicaState = ReplicaState.ASSIGNED
    gone: bool = False
    kept: bool = False
    accounted: bool = True
    failure: FailureClass = FailureClass.NONE
    exit_code: int | None = None
    seen: tuple[int, int] = (0, 0)
    name: str = ""
    message: str = ""
    endpoints: tuple[str, ...] = ()
    started: int = 0
    finished: int = 0


_APART: Final = frozenset({"avoid", "replacements", "old_generation"})
"""Fields of a body that are not a workload's attributes as they stand."""
_PLAIN: Final = tuple(name for name in WorkloadBody.__struct_fields__ if name not in _APART)
_AS_SAID: Final = frozenset(
    {"department", "namespace", "owner", "submitted", "message", "queued", "told_at", "cluster", "pool", "placed"}
)
"""Fields that a body holds just as a workload does: texts and numbers."""
_PHASES: Final = {phase.value: phase for phase in Phase}
_WISHES: Final = {wish.value: wish for wish in DesiredPhase}
_REASONS: Final[dict[str | None, WaitingReason | None]] = {None: None, **{one.value: one for one in WaitingReason}}
_encode = msgspec.json.Encoder().encode
_cluster = msgspec.json.Decoder(ClusterBody)
_node = msgspec.json.Decoder(NodeBody)
_project = msgspec.json.Decoder(ProjectBody)
_usage = msgspec.json.Decoder(Faded)
_department = msgspec.json.Decoder(DepartmentBody)
_node_pool = msgspec.json.Decoder(NodePoolBody)
_workload = msgspec.json.Decoder(WorkloadBody)
_said = msgspec.json.Decoder(dict[str, Any])
_replica = msgspec.json.Decoder(ReplicaBody)
_request = msgspec.json.Decoder(Request)


def text(body: object) -> str:
    """The JSON text of a body. NUL, which PostgreSQL cannot keep, is left out."""
    return _encode(body).decode().replace("\\u0000", "")


def _copy(source: object, into: type[Any], **other: object) -> Any:
    fields = into.__struct_fields__ if issubclass(into, msgspec.Struct) else into.__slots__
    names = [name for name in fields if name not in other]
    return into(**{name: getattr(source, name) for name in names}, **other)


def of_cluster(cluster: Cluster) -> str:
    """A cluster's body."""
    return text(_copy(cluster, ClusterBody))


def to_cluster(cluster_id: str, body: str, now: int) -> Cluster:
    """The cluster of a row; its clock of silence starts now."""
    read = _cluster.decode(body)
    cluster = Cluster(cluster_id, fresh=now)
    for name in ClusterBody.__slots__:
        setattr(cluster, name, getattr(read, name))
    return cluster


def of_node(node: Node) -> str:
    """A node's body."""
    return text(_copy(node, NodeBody, devices=tuple(_copy(device, DeviceBody) for device in node.devices)))


def to_node(cluster: str, name: str, body: str) -> Node:
    """The node of a row, with nothing charged to it yet."""
    read = _node.decode(body)
    plain = {field: getattr(read, field) for field in NodeBody.__slots__ if field != "devices"}
    devices = [
        _copy(device, Device, entries={}, free_milli=0, free_bytes=0, mask=0, mode=None) for device in read.devices
    ]
    for device in devices:
        device.tally()
    return Node(cluster, name, devices=devices, **plain)


def of_project(project: Project) -> str:
    """A project's body."""
    return text(_copy(project, ProjectBody))


def to_project(name: str, body: str) -> Project:
    """The project of a row."""
    read = _project.decode(body)
    return Project(name, **{field: getattr(read, field) for field in ProjectBody.__slots__})


def of_department(department: Department) -> str:
    """A department's body."""
    return text(_copy(department, DepartmentBody))


def to_department(name: str, body: str) -> Department:
    """The department of a row."""
    read = _department.decode(body)
    return Department(name, **{field: getattr(read, field) for field in DepartmentBody.__slots__})


def of_node_pool(pool: NodePool) -> str:
    """A node pool's body."""
    return text(_copy(pool, NodePoolBody))


def to_node_pool(number: int, body: str) -> NodePool:
    """The node pool of a row."""
    read = _node_pool.decode(body)
    return NodePool(number, **{field: getattr(read, field) for field in NodePoolBody.__slots__})


def of_usage(past: Faded) -> str:
    """The body of what a project has used in a pool."""
    return text(past)


def to_usage(body: str) -> Faded:
    """What a project has used in a pool."""
    return _usage.decode(body)


def of_workload(workload: Workload) -> str:
    """A workload's body."""
    return text(
        _copy(
            workload,
            WorkloadBody,
            avoid=sorted(workload.avoid.items()),
            replacements=sorted(workload.replacements.items()),
            old_generation=workload.old.generation if workload.old else 0,
        )
    )


def to_workload(row: Any) -> tuple[Workload, int]:
    """The workload of a row without request and replicas, and the generation of the revision that it replaces."""
    workload = Workload(str(row["id"]), project=row["project"], name=row["name"])
    workload.phase, workload.desired = _PHASES[row["phase"]], _WISHES[row["desired"]]
    workload.attempt = row["attempt"]
    said = _said.decode(row["body"])
    told = said.pop("told", None)
    if said.keys() <= _AS_SAID:
        # What waits has few fields beside those that it begins with: setting these alone takes a third of the time.
        for name, value in said.items():
            setattr(workload, name, value)
        workload.told = _REASONS[told]
        return workload, 0
    read = _workload.decode(row["body"])
    for name in _PLAIN:
        setattr(workload, name, getattr(read, name))
    workload.avoid, workload.replacements = dict(read.avoid), dict(read.replacements)
    return workload, read.old_generation


def of_request(request: Request) -> str:
    """A request's body, without the spec."""
    return text(request._replace(spec=_NOTHING))


def to_request(body: str, spec: bytes) -> Request:
    """The request of a row."""
    return _request.decode(body)._replace(spec=spec)


def of_replica(replica: Replica) -> str:
    """A replica's body."""
    return text(_copy(replica, ReplicaBody))


def to_replica(row: Any) -> Replica:
    """The replica of a row."""
    holder = Holder(str(row["workload"]), row["generation"], row["attempt"], row["role"], row["rank"], row["k"])
    read = _replica.decode(row["body"])
    plain = {name: getattr(read, name) for name in ReplicaBody.__struct_fields__}
    return Replica(holder, leaving=row["place"] == "leaving", **plain)
