"""Nodes of a cluster as the agent reports them, and as reconciling needs them (kubernetes.md 7.6, 8.4 and 10).

Called by the Kubernetes back end after changes of nodes and pods. Pure: the time is an argument.
Holds: what others hold is never offered; a node that is deleted stays LOST to its replicas until time or another boot
gives evidence.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

from muster_cluster_agent.domain.fleet import Device, Foreign, Node, NodeState, SlotGroup, Taint
from muster_cluster_agent.domain.kubernetes import hami
from muster_cluster_agent.domain.kubernetes.amounts import Amounts, quantities, quantity
from muster_cluster_agent.domain.kubernetes.hami import Registered
from muster_cluster_agent.domain.kubernetes.pods import Pod, moment
from muster_cluster_agent.domain.model import NodeHealth, NodeView, Slots
from muster_kernel.cards import card_of
from muster_kernel.slots import mig_family, mig_profile, mig_resource, profile_of

Json = Mapping[str, Any]
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
DRAIN_DEADLINE: Final = "muster.io/drain-deadline"
"""Annotation of a node: until when it is to be empty, as RFC 3339."""
_PRODUCT: Final = "nvidia.com/gpu.product"
_GPU_MEMORY: Final = "nvidia.com/gpu.memory"  # MiB
_REPLICATED: Final = "nvidia.com/gpu.replicas"
_SHARED: Final = "-SHARED"
_SINGLE: Final = "-MIG-"
_STATE_TAINTS: Final = "node.kubernetes.io/"  # the cluster's own: what they say is the node's state
_NOISE: Final = ("feature.node.kubernetes.io/", "beta.kubernetes.io/")
_MEBIBYTE: Final = 1 << 20
_MOST_PODS: Final = (1 << 32) - 1  # what the inventory can say


@dataclass(frozen=True, slots=True)
class KubernetesNode:
    """A node of its JSON.

    silent_since: since when it has not been Ready; None: it is. tainted_at: when taints were added, where the cluster
    says so, by their keys. Times in seconds since 1970. single: the MIG profile of each device under the plugin's
    strategy `single`. hami: what HAMi has registered of it; None: it is no HAMi node. pods: how many pods its kubelet
    runs at most; None: it does not say.
    """

    name: str
    uid: str
    boot: str
    unschedulable: bool
    silent_since: float | None
    drain_deadline: float | None
    labels: tuple[tuple[str, str], ...]
    taints: tuple[Taint, ...]
    allocatable: Amounts
    out_of_service: bool = False
    tainted_at: tuple[tuple[str, float], ...] = ()
    single: str = ""
    hami: Registered | None = None
    pods: int | None = None


@dataclass(frozen=True, slots=True)
class Counting:
    """How devices are counted and what is hidden, as the cluster file says.

    resource: whose units are GPUs. tolerated: keys of taints that every pod of Muster tolerates. gone_after: seconds
    after which a silent node counts as gone for good; None: never. drains: taints that announce that a node goes, by
    their keys, with the seconds that are left from then on.
    """

    resource: str = "nvidia.com/gpu"
    tolerated: frozenset[str] = field(default=frozenset())
    gone_after: float | None = 900.0
    drains: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class ToldApart:
    """Devices of a node that have UUIDs, and those of them that others hold.

    They are all of its devices: the same cards, counted by a resource, are left out.
    """

    devices: tuple[Device, ...]
    foreign: tuple[str, ...] = ()


def node_of(raw: Json) -> KubernetesNode:
    """A node of its JSON. Raises ValueError, KeyError or TypeError for one that is not whole."""
    metadata, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    ready: Json = next((one for one in status.get("conditions") or () if one["type"] == "Ready"), {})
    taints = tuple(Taint(one["key"], one.get("value", ""), one["effect"]) for one in spec.get("taints") or ())
    allocatable = status.get("allocatable") or {}
    found = quantities(allocatable)
    annotations = metadata.get("annotations") or {}
    deadline = annotations.get(DRAIN_DEADLINE)
    return KubernetesNode(
        name=metadata["name"],
        uid=metadata["uid"],
        boot=(status.get("nodeInfo") or {}).get("bootID", ""),
        unschedulable=bool(spec.get("unschedulable")),
        silent_since=None if ready.get("status") == "True" else _silence(ready, metadata),
        drain_deadline=moment(deadline),
        labels=tuple(
            sorted((name, text) for name, text in (metadata.get("labels") or {}).items() if not name.startswith(_NOISE))
        ),
        taints=taints,
        allocatable=Amounts(
            found.pop("cpu", 0), found.pop("memory", 0), tuple(sorted((n, a) for n, a in found.items() if a))
        ),
        out_of_service=any(one.key == OUT_OF_SERVICE for one in taints),
        hami=hami.registered(annotations[hami.REGISTERED]) if hami.REGISTERED in annotations else None,
        pods=min(_MOST_PODS, int(quantity(str(allocatable["pods"])))) if "pods" in allocatable else None,
        single=profile_of((metadata.get("labels") or {}).get(_PRODUCT, "").partition(_SINGLE)[2]),
        tainted_at=tuple((one["key"], at) for one in spec.get("taints") or () if (at := moment(one.get("timeAdded")))),
    )


def drained_by(node: KubernetesNode, counting: Counting, now: float) -> float | None:
    """Return when a node goes by the taints that announce it; None: none does.

    A taint that does not say when it was added counts from `now`: the API server writes that for NoExecute alone.
    """
    added = dict(node.tainted_at)
    keys = {taint.key for taint in node.taints}
    ends = [added.get(key, now) + seconds for key, seconds in counting.drains if key in keys]
    return min(ends, default=None)


def reported(
    node: KubernetesNode,
    others: Collection[Pod],
    counting: Counting,
    drained_by: float | None = None,
    apart: ToldApart | None = None,
) -> Node:
    """The node as the scheduler hears of it.

    others: pods on it that are not Muster's and not terminal. drained_by: when it goes by a taint that announces it.
    apart: its devices, where the cluster tells them apart.
    """
    deadline = min((at for at in (node.drain_deadline, drained_by) if at is not None), default=None)
    # HAMi makes several units of each card: none of them is a whole device.
    split = is_shared(node) or node.hami is not None
    slots = () if apart is not None or split else slots_of(node, counting)
    foreign = _foreign([pod.amounts for pod in others], counting)
    if apart is not None:
        foreign = replace(foreign, devices=apart.foreign, slots=())
    return Node(
        name=node.name,
        uid=node.uid,
        boot_id=node.boot,
        state=_state(node, deadline),
        cpu_milli=node.allocatable.cpu,
        memory_bytes=node.allocatable.memory,
        drain_deadline=deadline,
        labels=node.labels,
        taints=tuple(
            taint
            for taint in node.taints
            if not taint.key.startswith(_STATE_TAINTS) and taint.key not in counting.tolerated
        ),
        foreign=foreign,
        devices=apart.devices if apart is not None else (),
        slots=slots,
        extended=tuple(
            (name, amount) for name, amount in node.allocatable.extended if not _is_device(name, counting.resource)
        ),
        most_replicas=None if node.pods is None else max(0, node.pods - len(others)),
    )


def view(node: KubernetesNode, now: float, counting: Counting, usable: frozenset[str] = frozenset()) -> NodeView:
    """The node as reconciling needs it. usable: UUIDs of devices that a replica may have."""
    return NodeView(node.name, _health(node, now, counting), node.boot, usable)


def slots_of(node: KubernetesNode, counting: Counting) -> tuple[SlotGroup, ...]:
    """Return the node's devices and MIG slices, by resource (kubernetes.md 7.2).

    Under the plugin's strategy `single` each unit of a whole device's resource is a slice, and the product ends in its
    profile. A node whose product ends in something else there offers nothing.
    """
    if product_of(node).partition(_SINGLE)[2] and not node.single:
        return ()
    model, memory = model_of(node)
    return tuple(
        SlotGroup(resource, count, mig_profile(resource) or node.single, model, memory)
        for resource, count in device_units(node.allocatable.extended, counting)
    )


def model_of(node: KubernetesNode) -> tuple[str, int]:
    """Return the model of the node's cards and the bytes of memory of each, by their labels; 0: no label says it."""
    memory = 0 if node.single else _memory(dict(node.labels))  # under `single` the label is about one slice
    return card_of(product_of(node).partition(_SINGLE)[0], memory), memory


def device_units(extended: Slots, counting: Counting) -> Slots:
    """Return the resources whose units are devices or MIG slices of the vendor that is counted."""
    return tuple(one for one in extended if _is_device(one[0], counting.resource))


def charged_units(extended: Slots, counting: Counting, node: KubernetesNode | None) -> Slots:
    """Return the units that a replica on a node is charged for; under `single` as units of the slices' resource."""
    units = device_units(extended, counting)
    single = node.single if units and node is not None else ""
    if not single:
        return units
    resource = mig_resource(mig_family(counting.resource), single)
    return tuple((resource, count) for _, count in units)


@lru_cache(maxsize=1024)  # asked of every resource of every pod, whenever a pod is looked at
def _is_device(resource: str, whole: str) -> bool:
    vendor = whole.partition("/")[0]
    return resource == whole or (resource.startswith(f"{vendor}/") and bool(mig_profile(resource)))


def product_of(node: KubernetesNode) -> str:
    """The product of its GPUs, as GPU feature discovery labels it; empty: no label says it."""
    return dict(node.labels).get(_PRODUCT, "")


def is_shared(node: KubernetesNode) -> bool:
    """Whether one unit is less than a card: time-slicing that was not renamed must never be a whole device."""
    count = dict(node.labels).get(_REPLICATED, "1")
    return product_of(node).endswith(_SHARED) or (count.isdigit() and int(count) > 1)


def without_object(name: str, at: float, *, uid: str = "", boot: str = "") -> KubernetesNode:
    """A node whose object is missing since that moment: its machine may live on, so that it is silent and no more."""
    return KubernetesNode(
        name,
        uid,
        boot,
        unschedulable=True,
        silent_since=at,
        drain_deadline=None,
        labels=(),
        taints=(),
        allocatable=Amounts(),
    )


def _silence(ready: Json, metadata: Json) -> float:
    """Since when a node is not Ready; one that never said it, since it is there."""
    return moment(ready.get("lastTransitionTime")) or moment(metadata.get("creationTimestamp")) or 0.0


def _state(node: KubernetesNode, deadline: float | None) -> NodeState:
    if node.out_of_service:
        return NodeState.OUT_OF_SERVICE
    if node.silent_since is not None:
        return NodeState.NOT_READY
    if deadline is not None:
        return NodeState.DRAINING
    return NodeState.CORDONED if node.unschedulable else NodeState.READY


def _health(node: KubernetesNode, now: float, counting: Counting) -> NodeHealth:
    if node.out_of_service:
        return NodeHealth.OUT_OF_SERVICE
    if node.silent_since is None:
        return NodeHealth.UP
    late = counting.gone_after is not None and now - node.silent_since >= counting.gone_after
    return NodeHealth.LOST if late else NodeHealth.SILENT


def _foreign(held: Sequence[Amounts], counting: Counting) -> Foreign:
    extended: dict[str, int] = {}
    for amounts in held:
        for name, amount in amounts.extended:
            extended[name] = extended.get(name, 0) + amount
    return Foreign(
        cpu_milli=sum(amounts.cpu for amounts in held),
        memory_bytes=sum(amounts.memory for amounts in held),
        slots=device_units(tuple(sorted(extended.items())), counting),
        extended=tuple(sorted(one for one in extended.items() if not _is_device(one[0], counting.resource))),
    )


def _memory(labels: Mapping[str, str]) -> int:
    text = labels.get(_GPU_MEMORY, "")
    return int(text) * _MEBIBYTE if text.isdigit() else 0
