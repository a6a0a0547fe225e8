"""Nodes and devices as they are reported: full inventories and what changed between two.

Made by a back end, turned into protobuf by `adapters.reports`. Pure.
Holds: applying `difference(old, new)` to old gives new; a full inventory is the difference to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from muster_cluster_agent.domain.model import Slice, Slots


class Identity(Enum):
    """How devices are told apart; the values are those of the contract's DeviceIdentity."""

    UUID = 1
    ANONYMOUS = 2


class Mig(Enum):
    """What is done with MIG; the values are those of the contract's MigSupport."""

    NONE = 1
    STATIC = 2
    DYNAMIC = 3


class NodeState(Enum):
    """The state of a node; the values are those of the contract's NodeState."""

    READY = 1
    CORDONED = 2
    DRAINING = 3
    NOT_READY = 4
    OUT_OF_SERVICE = 5


@dataclass(frozen=True, slots=True)
class Profile:
    """What a cluster can do."""

    backend: str
    identity: Identity = Identity.UUID
    portions: bool = True
    memory_requests: bool = True
    memory_isolation: bool = False
    mig: Mig = Mig.NONE
    ignored_fields: tuple[str, ...] = ()
    refused_fields: tuple[str, ...] = ()
    service_types: tuple[str, ...] = ()
    request_gateway: bool = False
    confinement: str = ""  # how far replicas are confined, and why not further
    names_objects: bool = False  # the inventory names the claims and ConfigMaps of projects


@dataclass(frozen=True, slots=True)
class Device:
    """One device: UUID, model, memory in bytes, health, MIG slices."""

    uuid: str
    model: str
    memory_bytes: int
    slot: int
    healthy: bool = True
    trouble: str = ""
    mig_enabled: bool = False
    slices: tuple[Slice, ...] = ()


@dataclass(frozen=True, slots=True)
class SlotGroup:
    """Units of one resource: devices, or MIG slices of one profile, that nothing tells apart.

    memory_bytes: of each device, or of each device that the slices are on; 0: not known.
    """

    resource: str
    count: int
    profile: str = ""
    model: str = ""
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Foreign:
    """What others than Muster hold on a node."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    devices: tuple[str, ...] = ()
    slots: Slots = ()
    extended: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Taint:
    """What keeps replicas away from a node."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Node:
    """One node. drain_deadline: seconds since 1970, with DRAINING only.

    most_replicas: how many replicas it takes at most; None: there is no such limit.
    """

    name: str
    uid: str
    boot_id: str
    state: NodeState
    cpu_milli: int
    memory_bytes: int
    pool: str = "default"
    drain_deadline: float | None = None
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    foreign: Foreign = field(default_factory=Foreign)
    devices: tuple[Device, ...] = ()
    slots: tuple[SlotGroup, ...] = ()
    extended: tuple[tuple[str, int], ...] = ()  # named resources in whole units
    maintenance: tuple[tuple[float, float], ...] = ()  # from and to, seconds since 1970
    most_replicas: int | None = None


@dataclass(frozen=True, slots=True)
class NamespaceObjects:
    """What workloads of one project may mount because it is there already, by name. truncated: there is more."""

    namespace: str
    claims: tuple[str, ...] = ()
    config_maps: tuple[str, ...] = ()
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Fleet:
    """All of a cluster."""

    profile: Profile
    nodes: tuple[Node, ...]
    objects: tuple[NamespaceObjects, ...] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """Nodes that are new or changed, and names of those that are gone; the same of namespaces with objects."""

    changed: tuple[Node, ...]
    removed: tuple[str, ...]
    objects: tuple[NamespaceObjects, ...] = ()
    removed_namespaces: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to report."""
        return not (self.changed or self.removed or self.objects or self.removed_namespaces)


def difference(old: Fleet, new: Fleet) -> Difference | None:
    """What changed; None where the profile itself has, which only a full report can say."""
    if old.profile != new.profile:
        return None
    before = {node.name: node for node in old.nodes}
    after = {node.name for node in new.nodes}
    changed = tuple(node for node in new.nodes if before.get(node.name) != node)
    removed = tuple(name for name in before if name not in after)
    known = {each.namespace: each for each in old.objects}
    left = {each.namespace for each in new.objects}
    objects = tuple(each for each in new.objects if known.get(each.namespace) != each)
    return Difference(changed, removed, objects, tuple(name for name in known if name not in left))
