"""The form of fleet and queues in the database: JSON bodies that msgspec decodes into equal values.

postgres.py uses it to write, and rebuild.py to read; workload_rows.py has the workloads. Values that queries need are
columns; a body holds the other values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from muster_scheduler.domain.asked.quotas import ModelQuota, Quota, UserLimit
from muster_scheduler.domain.asked.rules import NodeTypes, Rules
from muster_scheduler.domain.books.pools import NodePool, Strategy
from muster_scheduler.domain.books.queues import Department, Project
from muster_scheduler.domain.fleet.clusters import Cluster, Profile
from muster_scheduler.domain.fleet.layouts import LayoutChange
from muster_scheduler.domain.fleet.nodes import UNBOUNDED, Device, Node, NodeState, SlotGroup
from muster_scheduler.domain.fleet.objects import Objects, ReportedObjects
from muster_scheduler.domain.fleet.snapshots import HeldParts, InventoryPart
from muster_scheduler.domain.shares.decay import Faded
from muster_scheduler.domain.strategies.mix import Mix


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
    dead_man: int
    held: HeldParts | None = None
    left: bool = False
    names_objects: bool = False


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
    """A node's row, without the charges: they follow from the replicas."""

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
    said: str
    said_state: NodeState | None = None
    said_deadline: int = -1
    ordered: NodeState | None = None
    ordered_by: str = ""
    ordered_deadline: int = 0
    groups: tuple[SlotGroup, ...] = ()
    layout: LayoutChange | None = None
    layout_failure: str = ""
    most_replicas: int = UNBOUNDED


@dataclass(frozen=True, slots=True)
class ObjectsBody:
    """The row of a namespace's objects."""

    names: tuple[str, ...]
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class PartBody:
    """A row of a part of an incomplete inventory: the nodes and the namespaces by name."""

    profile: Profile | None
    nodes: tuple[tuple[str, NodeBody], ...]
    names_objects: bool | None = None
    objects: tuple[tuple[str, ObjectsBody], ...] = ()


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
    label_key: str
    label_value: str
    memory_as_slices: bool


_encode = msgspec.json.Encoder().encode
_cluster = msgspec.json.Decoder(ClusterBody)
_node = msgspec.json.Decoder(NodeBody)
_part = msgspec.json.Decoder(PartBody)
_objects = msgspec.json.Decoder(ObjectsBody)
_project = msgspec.json.Decoder(ProjectBody)
_usage = msgspec.json.Decoder(Faded)
_department = msgspec.json.Decoder(DepartmentBody)
_node_pool = msgspec.json.Decoder(NodePoolBody)


def text(body: object) -> str:
    """Return the JSON text of a body, without NUL, which PostgreSQL cannot store."""
    return _encode(body).decode().replace("\\u0000", "")


def copied(source: object, into: type[Any], **other: object) -> Any:
    """Return a value of another type with the same fields, except for those that are given."""
    fields = into.__struct_fields__ if issubclass(into, msgspec.Struct) else into.__slots__
    names = [name for name in fields if name not in other]
    return into(**{name: getattr(source, name) for name in names}, **other)


def of_cluster(cluster: Cluster) -> str:
    """Return a cluster's body."""
    return text(copied(cluster, ClusterBody))


def to_cluster(cluster_id: str, body: str, now: int) -> Cluster:
    """Return the cluster of a row. Its silence counts from `now`, in microseconds."""
    read = _cluster.decode(body)
    cluster = Cluster(cluster_id, fresh=now)
    for name in ClusterBody.__slots__:
        setattr(cluster, name, getattr(read, name))
    return cluster


def of_node(node: Node) -> str:
    """Return a node's body."""
    return text(_node_body(node))


def _node_body(node: Node) -> NodeBody:
    body: NodeBody = copied(node, NodeBody, devices=tuple(copied(device, DeviceBody) for device in node.devices))
    return body


def to_node(cluster: str, name: str, body: str) -> Node:
    """Return the node of a row, with nothing charged to it yet."""
    return _read_node(cluster, name, _node.decode(body))


def _read_node(cluster: str, name: str, read: NodeBody) -> Node:
    plain = {field: getattr(read, field) for field in NodeBody.__slots__ if field != "devices"}
    devices = [Device(**{field: getattr(each, field) for field in DeviceBody.__slots__}) for each in read.devices]
    for device in devices:
        device.tally()
    return Node(cluster, name, devices=devices, **plain)


def of_part(part: InventoryPart) -> str:
    """Return the body of a part of an incomplete inventory."""
    nodes = tuple((node.name, _node_body(node)) for node in part.nodes)
    objects = tuple((name, _objects_body(each)) for name, each in part.objects.entries)
    return text(PartBody(part.profile, nodes, part.objects.named, objects))


def to_part(cluster: str, checksum: bytes, body: str) -> InventoryPart:
    """Return the part of a row."""
    read = _part.decode(body)
    objects = ReportedObjects(read.names_objects, tuple((name, _read_objects(each)) for name, each in read.objects))
    nodes = tuple(_read_node(cluster, name, node) for name, node in read.nodes)
    return InventoryPart(checksum, read.profile, nodes, objects)


def of_objects(objects: Objects) -> str:
    """Return the body of a namespace's objects."""
    return text(_objects_body(objects))


def to_objects(body: str) -> Objects:
    """Return the objects of a row."""
    return _read_objects(_objects.decode(body))


def _objects_body(objects: Objects) -> ObjectsBody:
    return ObjectsBody(tuple(sorted(objects.names)), objects.truncated)


def _read_objects(read: ObjectsBody) -> Objects:
    return Objects(frozenset(read.names), read.truncated)


def of_project(project: Project) -> str:
    """Return a project's body."""
    return text(copied(project, ProjectBody))


def to_project(name: str, body: str) -> Project:
    """Return the project of a row."""
    read = _project.decode(body)
    return Project(name, **{field: getattr(read, field) for field in ProjectBody.__slots__})


def of_department(department: Department) -> str:
    """Return a department's body."""
    return text(copied(department, DepartmentBody))


def to_department(name: str, body: str) -> Department:
    """Return the department of a row."""
    read = _department.decode(body)
    return Department(name, **{field: getattr(read, field) for field in DepartmentBody.__slots__})


def of_node_pool(pool: NodePool) -> str:
    """Return a node pool's body."""
    return text(copied(pool, NodePoolBody))


def to_node_pool(number: int, body: str) -> NodePool:
    """Return the node pool of a row."""
    read = _node_pool.decode(body)
    return NodePool(number, **{field: getattr(read, field) for field in NodePoolBody.__slots__})


def of_usage(past: Faded) -> str:
    """Return the body of a project's past usage of a pool."""
    return text(past)


def to_usage(body: str) -> Faded:
    """Return a project's past usage of a pool."""
    return _usage.decode(body)
