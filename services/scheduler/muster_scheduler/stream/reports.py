"""What agents report, as events of the domain: inventories, heartbeats, replicas, and what they hold."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from google.protobuf.message import DecodeError

from muster.events.v1 import agent_pb2
from muster.fleet.v1 import fleet_pb2
from muster_chassis.events import Event, Reject
from muster_kernel.reasons import FailureClass
from muster_scheduler.adapters.encoding import device_name
from muster_scheduler.domain import events as domain
from muster_scheduler.domain.asked.requests import Kind, Share
from muster_scheduler.domain.asked.workloads import ReplicaState
from muster_scheduler.domain.fleet.clusters import Profile
from muster_scheduler.domain.fleet.nodes import UNBOUNDED, Device, Mig, Node, NodeState, SlotGroup
from muster_scheduler.domain.fleet.objects import CLAIMS, CONFIG_MAPS, Objects, ReportedObjects
from muster_scheduler.domain.fleet.slots import is_slot
from muster_scheduler.domain.fleet.snapshots import DIGEST_BYTES, MOST_PARTS, InventoryPart, SnapshotPart
from muster_scheduler.stream import values

# Both grow by one. A number that no agent can reach is not one of ours, and taking it would make its cluster mute.
_MOST_STARTS: Final = 10**9
_MOST_REPORTS: Final = 1 << 53
_MOST_WINDOWS: Final = 64  # of one node
_MOST_GROUPS: Final = 32  # of slots of one node
_LONGEST_VERSION: Final = 40  # characters
MOST_OBJECTS: Final = 2_000
"""Names of one kind in one namespace; agents cut there too."""
_STATES: Final = {
    fleet_pb2.NODE_STATE_READY: NodeState.READY,
    fleet_pb2.NODE_STATE_CORDONED: NodeState.CORDONED,
    fleet_pb2.NODE_STATE_DRAINING: NodeState.DRAINING,
    fleet_pb2.NODE_STATE_NOT_READY: NodeState.NOT_READY,
    fleet_pb2.NODE_STATE_OUT_OF_SERVICE: NodeState.OUT_OF_SERVICE,
}
_MIG: Final = {
    fleet_pb2.MIG_SUPPORT_STATIC: Mig.STATIC,
    fleet_pb2.MIG_SUPPORT_DYNAMIC: Mig.DYNAMIC,
}
_REPLICA_STATES: Final = {
    fleet_pb2.REPLICA_STATE_CREATED: ReplicaState.CREATED,
    fleet_pb2.REPLICA_STATE_STARTING: ReplicaState.STARTING,
    fleet_pb2.REPLICA_STATE_READY: ReplicaState.READY,
    fleet_pb2.REPLICA_STATE_SUCCEEDED: ReplicaState.SUCCEEDED,
    fleet_pb2.REPLICA_STATE_FAILED: ReplicaState.FAILED,
    fleet_pb2.REPLICA_STATE_LOST: ReplicaState.LOST,
}
_SUBSTATES: Final = {
    number: name.removeprefix("SUBSTATE_")
    for name, number in fleet_pb2.Substate.items()
    if number != fleet_pb2.SUBSTATE_UNSPECIFIED
}
_FAILURES: Final = {
    fleet_pb2.FAILURE_CLASS_OURS: FailureClass.OURS,
    fleet_pb2.FAILURE_CLASS_INFRASTRUCTURE: FailureClass.INFRASTRUCTURE,
    fleet_pb2.FAILURE_CLASS_START: FailureClass.START,
    fleet_pb2.FAILURE_CLASS_OUT_OF_MEMORY: FailureClass.OUT_OF_MEMORY,
    fleet_pb2.FAILURE_CLASS_RETRYABLE_EXIT: FailureClass.RETRYABLE_EXIT,
    fleet_pb2.FAILURE_CLASS_EXIT: FailureClass.EXIT,
}


def _cluster(message: Any, event: Event) -> str:
    """The cluster whose topic the report came over; a report that names another one is nobody's."""
    named: str = message.order.cluster
    parts = event.origin.topic.split(".")
    topic_of = ".".join(parts[2:-1])
    if named and named != topic_of:
        raise Reject(f"a report of cluster {named!r} on the topic of {topic_of!r}")
    return topic_of


def _order(message: Any) -> domain.Order:
    order: agent_pb2.ReportOrder = message.order
    return domain.Order(
        values.text(order.instance),
        values.number(order.start, "order.start", _MOST_STARTS),
        values.number(order.sequence, "order.sequence", _MOST_REPORTS),
        values.micros(order.observed_at),
    )


def heartbeat(message: Any, event: Event) -> domain.Event:
    """A sign of life of a cluster."""
    unreachable = message.backend == agent_pb2.BACKEND_HEALTH_UNREACHABLE
    version = values.text(message.agent_version, _LONGEST_VERSION)
    return domain.HeartbeatSeen(
        _cluster(message, event), _order(message), message.dead_man_seconds, unreachable, version
    )


def inventory(message: Any, event: Event) -> domain.Event:
    """What a cluster consists of, or what has changed there."""
    cluster, inventory = _cluster(message, event), message.inventory
    return domain.InventoryReported(
        cluster,
        _order(message),
        inventory.full,
        values.number(inventory.sequence, "inventory.sequence"),
        _profile(inventory.profile) if inventory.HasField("profile") else None,
        tuple(_node(cluster, node) for node in inventory.nodes),
        tuple(inventory.removed_nodes),
        _objects(inventory),
    )


def inventory_part(message: Any, event: Event) -> domain.Event:
    """Some nodes of a full inventory. Raises Reject for a part that cannot be one."""
    cluster, digest, content = _cluster(message, event), message.digest, message.content
    if len(digest) != DIGEST_BYTES:
        raise Reject(f"the digest of an inventory in parts has {len(digest)} bytes and should have {DIGEST_BYTES}")
    try:
        inventory = fleet_pb2.Inventory.FromString(content)
    except DecodeError as error:
        raise Reject(f"part {message.part.number} of an inventory cannot be decoded: {error}") from error
    part = InventoryPart(
        hashlib.sha256(content).digest(),
        _profile(inventory.profile) if inventory.HasField("profile") else None,
        tuple(_node(cluster, node) for node in inventory.nodes),
        _objects(inventory),
    )
    return domain.InventoryPartReported(cluster, _order(message), _place(message.part), digest, part)


def _place(part: agent_pb2.SnapshotPart) -> SnapshotPart:
    snapshot = values.number(part.snapshot, "part.snapshot", _MOST_REPORTS)
    if not 1 <= part.number <= part.count <= MOST_PARTS:
        raise Reject(f"part {part.number} of {part.count}: numbers go from 1 to their count, at most {MOST_PARTS}")
    return SnapshotPart(snapshot, part.number, part.count)


def _profile(profile: fleet_pb2.ClusterProfile) -> Profile:
    return Profile(
        backend=values.text(profile.backend),
        anonymous=profile.identity == fleet_pb2.DEVICE_IDENTITY_ANONYMOUS,
        portions=profile.portions,
        memory_requests=profile.memory_requests,
        memory_isolation=profile.memory_isolation,
        mig=_MIG.get(profile.mig, Mig.NONE),
        ignored_fields=tuple(profile.ignored_fields),
        refused_fields=tuple(profile.refused_fields),
        service_types=tuple(profile.service_types),
        request_gateway=profile.request_gateway,
        confinement=values.text(profile.confinement),
    )


def _objects(inventory: fleet_pb2.Inventory) -> ReportedObjects:
    named = inventory.profile.names_objects if inventory.HasField("profile") else None
    entries = {values.text(each.namespace): _of_namespace(each) for each in inventory.objects}
    return ReportedObjects(named, tuple(entries.items()), tuple(map(values.text, inventory.removed_namespaces)))


def _of_namespace(said: fleet_pb2.NamespaceObjects) -> Objects:
    claims = [f"{CLAIMS}/{values.text(name)}" for name in said.claims[:MOST_OBJECTS]]
    config_maps = [f"{CONFIG_MAPS}/{values.text(name)}" for name in said.config_maps[:MOST_OBJECTS]]
    most = max(len(said.claims), len(said.config_maps)) > MOST_OBJECTS
    return Objects(frozenset((*claims, *config_maps)), said.truncated or most)


def _node(cluster: str, node: fleet_pb2.Node) -> Node:
    if not node.name:
        raise Reject("a node has no name")
    foreign = frozenset(node.foreign.devices)
    devices = [_device(device, foreign) for device in node.devices]
    return Node(
        cluster,
        values.text(node.name),
        values.text(node.pool) or "default",
        uid=values.text(node.uid),
        boot=values.text(node.boot_id),
        state=_STATES.get(node.state, NodeState.NOT_READY),
        cpu=min(node.cpu_milli, values.MOST),
        memory=min(node.memory_bytes, values.MOST),
        foreign_cpu=min(node.foreign.cpu_milli, values.MOST),
        foreign_memory=min(node.foreign.memory_bytes, values.MOST),
        devices=devices,
        groups=_groups(node),
        labels=tuple(sorted(node.labels.items())),
        taints=tuple((t.key, t.value, t.effect) for t in node.taints),
        drain_deadline=values.micros(node.drain_deadline) if node.HasField("drain_deadline") else 0,
        windows=_windows(node.maintenance),
        extra=values.amounts(node.extended),
        foreign_extra=values.amounts(node.foreign.extended),
        most_replicas=node.most_replicas if node.HasField("most_replicas") else UNBOUNDED,
    )


def _groups(node: fleet_pb2.Node) -> tuple[SlotGroup, ...]:
    """Return the node's slot groups. Of two groups of one resource the first counts."""
    foreign = Counter[str]()
    for taken in node.foreign.slots:
        foreign[taken.resource] += taken.count
    groups: dict[str, SlotGroup] = {}
    for each in node.slots[:_MOST_GROUPS]:
        groups.setdefault(
            each.resource,
            SlotGroup(
                values.text(each.resource, values.RESOURCE_LIMIT),
                values.text(each.mig_profile),
                values.text(each.model),
                min(each.memory_bytes, values.MOST),
                min(each.count, values.MOST),
                min(foreign[each.resource], values.MOST),
            ),
        )
    return tuple(groups.values())


def _windows(said: Iterable[fleet_pb2.MaintenanceWindow]) -> tuple[tuple[int, int], ...]:
    """Times in which a node has to be empty; one that ends before it begins is none."""
    times = [(values.micros(getattr(one, "from")), values.micros(one.to)) for one in list(said)[:_MOST_WINDOWS]]
    return tuple(sorted((start, end) for start, end in times if 0 < start < end))


def _device(device: fleet_pb2.Device, foreign: frozenset[str]) -> Device:
    if is_slot(device.uuid):
        raise Reject(f"a device has the name {device.uuid[:60]!r}: the inventory names the slots of a node like this")
    made = Device(
        uuid=values.text(device.uuid),
        model=values.text(device.model),
        memory=min(device.memory_bytes, values.MOST),
        slot=device.slot,
        healthy=device.healthy,
        foreign=device.uuid in foreign,
        mig=device.mig_enabled,
        layout=tuple(sorted((piece.profile, piece.start) for piece in device.slices)),
    )
    made.tally()
    return made


def _status(status: fleet_pb2.ReplicaStatus) -> domain.Status:
    return domain.Status(
        role=values.text(status.role),
        rank=status.index,
        k=status.k,
        node=values.text(status.node),
        state=_REPLICA_STATES.get(status.state),
        gone=status.state == fleet_pb2.REPLICA_STATE_GONE,
        exit_code=status.exit_code if status.HasField("exit_code") else None,
        failure=_FAILURES.get(status.failure, FailureClass.NONE),
        name=values.text(status.name),
        message=_message(status),
        endpoints=tuple(values.text(endpoint) for endpoint in list(status.endpoints)[:16]),
        devices=tuple(_given(status.devices)),
        started=values.micros(status.started_at) if status.HasField("started_at") else 0,
        finished=values.micros(status.finished_at) if status.HasField("finished_at") else 0,
        substate=_SUBSTATES.get(status.substate, ""),
        substate_since=values.micros(status.substate_since) if status.HasField("substate_since") else 0,
    )


def _message(status: fleet_pb2.ReplicaStatus) -> str:
    """What the agent says of the replica, with the last lines of its log where it failed."""
    said = values.text(status.message, values.MESSAGE_LIMIT)
    lines = values.last_lines(status.log_tail)
    if not lines or status.state != fleet_pb2.REPLICA_STATE_FAILED:
        return said
    return values.text(f"{said}, last lines: {lines}" if said else f"last lines: {lines}", values.MESSAGE_LIMIT)


def _given(shares: Iterable[fleet_pb2.DeviceShare]) -> Iterable[Share]:
    for share in shares:
        name = device_name(share.device)
        if not is_slot(name):  # slots have no devices that an agent could tell apart
            yield Share(name, Kind.WHOLE)


def replica(message: Any, event: Event) -> domain.Event:
    """How a replica is."""
    return domain.ReplicaReported(
        _cluster(message, event),
        _order(message),
        values.workload_id(message.workload_id),
        values.number(message.generation, "generation"),
        message.attempt,
        _status(message.status),
        tuple(values.text(endpoint) for endpoint in list(message.endpoints)[:16]),
        tuple(
            (
                values.text(c.type),
                c.status,
                values.text(c.reason.code),
                values.text(c.reason.message, values.MESSAGE_LIMIT),
            )
            for c in list(message.conditions)[:32]
        ),
    )


def refused(message: Any, event: Event) -> domain.Event:
    """An assignment that the agent will not carry out."""
    of_cluster = message.scope == agent_pb2.REFUSAL_SCOPE_CLUSTER
    return domain.AssignmentRefused(
        _cluster(message, event),
        _order(message),
        values.workload_id(message.workload_id),
        values.number(message.generation, "generation"),
        message.attempt,
        values.text(message.reason.code),
        values.text(message.reason.message, values.MESSAGE_LIMIT),
        "" if of_cluster else values.text(message.node),
        message.retry_after_seconds,
        message.scope == agent_pb2.REFUSAL_SCOPE_WORKLOAD,
        values.text(message.role),
        message.index,
        message.k,
    )


def layout_changed(message: Any, event: Event) -> domain.Event:
    """The node has the MIG layout that was asked for. Raises Reject where it does not say how the node is now."""
    cluster = _cluster(message, event)
    if not message.HasField("now") or message.now.name != message.node:
        raise Reject(f"the answer for node {message.node[:80]!r} says how {message.now.name[:80]!r} is")
    return domain.LayoutReported(
        cluster, _order(message), values.text(message.node), _revision(message), _node(cluster, message.now)
    )


def layout_failed(message: Any, event: Event) -> domain.Event:
    """The node does not have the MIG layout that was asked for."""
    failure = values.text(message.reason.message, values.MESSAGE_LIMIT) or "the agent gives no reason"
    return domain.LayoutReported(
        _cluster(message, event), _order(message), values.text(message.node), _revision(message), None, failure
    )


def _revision(message: Any) -> int:
    return values.number(message.revision, "revision", _MOST_REPORTS)


def held(message: Any, event: Event) -> domain.Event:
    """Everything that an agent holds, or a part of it."""
    held = tuple(
        domain.Held(
            values.workload_id(one.workload_id),
            values.number(one.generation, "generation"),
            one.attempt,
            values.number(one.epoch, "epoch"),
            tuple(_status(status) for status in one.replicas),
        )
        for one in message.assignments
    )
    place = _place(message.part) if message.HasField("part") else None
    epoch = values.number(message.highest_epoch, "highest_epoch")
    return domain.AssignmentsHeld(_cluster(message, event), _order(message), held, epoch, place)
