"""Clusters and nodes as users see them."""

from __future__ import annotations

from typing import Final

from muster.api.v1 import fleet_pb2 as fleet_api_pb2
from muster.fleet.v1 import fleet_pb2
from muster_kernel.mig import compute_of
from muster_scheduler.adapters.encoding import timestamp
from muster_scheduler.domain.asked.quarantine import Quarantined
from muster_scheduler.domain.asked.workloads import Workload
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.fleet.clusters import Profile, Standing
from muster_scheduler.domain.fleet.layouts import LayoutChange
from muster_scheduler.domain.fleet.nodes import UNBOUNDED, Device, Mig, Mode, Node
from muster_scheduler.domain.fleet.slots import is_slot

_STANDINGS: Final = {
    Standing.REGISTERED: fleet_pb2.CLUSTER_STATE_REGISTERED,
    Standing.READY: fleet_pb2.CLUSTER_STATE_READY,
    Standing.STALE: fleet_pb2.CLUSTER_STATE_STALE,
    Standing.UNKNOWN: fleet_pb2.CLUSTER_STATE_UNKNOWN,
}
_MIG: Final = {
    Mig.NONE: fleet_pb2.MIG_SUPPORT_NONE,
    Mig.STATIC: fleet_pb2.MIG_SUPPORT_STATIC,
    Mig.DYNAMIC: fleet_pb2.MIG_SUPPORT_DYNAMIC,
}
_WHOLE: Final = 1000
_MIG_MODE: Final = "mig"
SEVENTHS: Final = 7  # of the compute of a card in MIG mode
_MOST_SLICES: Final = 8


def quarantined(workload: Workload, found: Quarantined) -> fleet_api_pb2.QuarantinedWorkload:
    """Return a workload that is set aside."""
    return fleet_api_pb2.QuarantinedWorkload(
        workload_id=workload.id,
        name=workload.name,
        project=workload.project,
        error=found.error,
        trace=found.trace,
        at=timestamp(found.at),
    )


def quarantined_place(found: Quarantined) -> fleet_api_pb2.QuarantinedWorkload:
    """Return a node pool or cluster that is set aside."""
    kind, _, name = found.workload.partition("/")
    return fleet_api_pb2.QuarantinedWorkload(
        workload_id=found.workload,
        place=f"{'node pool' if kind == 'pool' else kind} {name}",
        error=found.error,
        trace=found.trace,
        at=timestamp(found.at),
    )


def cluster(world: World, cluster_id: str) -> fleet_pb2.Cluster:
    """Return a cluster in its current state."""
    known = world.clusters[cluster_id]
    nodes = list(world.inventory.in_cluster(cluster_id))
    view = fleet_pb2.Cluster(
        id=cluster_id,
        state=_STANDINGS[known.standing(world.now, world.limits.stale_after)],
        agent_instance=known.instance,
        nodes=len(nodes),
        devices=sum(n.slots or len(n.devices) for n in nodes),
        free_devices=sum(_free(n) for n in nodes) / _WHOLE,
        mig_devices=sum(device.mig for n in nodes for device in n.devices),
        lost_timeout_seconds=known.lost_timeout,
        dead_man_seconds=known.dead_man,
        released_after_seconds=known.released_after,
        agent_version=known.version,
        issue=known.unfit,
    )
    if known.profile is not None:
        view.profile.CopyFrom(_profile(known.profile))
        view.profile.names_objects = known.names_objects
    if known.instance:
        view.heard_at.CopyFrom(timestamp(known.fresh))
    return view


def _profile(profile: Profile) -> fleet_pb2.ClusterProfile:
    anonymous = fleet_pb2.DEVICE_IDENTITY_ANONYMOUS
    return fleet_pb2.ClusterProfile(
        backend=profile.backend,
        identity=anonymous if profile.anonymous else fleet_pb2.DEVICE_IDENTITY_UUID,
        portions=profile.portions,
        memory_requests=profile.memory_requests,
        memory_isolation=profile.memory_isolation,
        mig=_MIG[profile.mig],
        ignored_fields=profile.ignored_fields,
        refused_fields=profile.refused_fields,
        service_types=profile.service_types,
        request_gateway=profile.request_gateway,
        confinement=profile.confinement,
    )


def held(world: World, cluster_id: str) -> int:
    """Return the number of replicas that hold something in a cluster."""
    return sum(len(node.entries) for node in world.inventory.in_cluster(cluster_id))


def _free(node: Node) -> int:
    """Return the free milli-GPU of a node."""
    if node.slots:
        return node.free_slots * _WHOLE
    return sum(_free_of(device) for device in node.devices)


def _free_of(device: Device) -> int:
    """Return the free milli-GPU of a card. If portions and memory requests share it, the scarcer of the two counts.

    A card in MIG mode has none: it gives only slices, and would look like a free GPU.
    """
    if in_mig(device) or device.mode in {Mode.UNHEALTHY, Mode.FOREIGN, Mode.WHOLE}:
        return 0
    by_bytes = device.free_bytes * _WHOLE // device.memory if device.memory else _WHOLE
    return max(0, min(device.free_milli, by_bytes)) if device.entries else _WHOLE


def in_mig(device: Device) -> bool:
    """Return whether a card gives only slices."""
    return device.mig or device.mode is Mode.SLICED


def _free_bytes_of(device: Device) -> int:
    if device.mode is Mode.SLICED:
        return device.memory * _free_slices(device) // _slices(device)
    return max(0, device.free_bytes)


def _slices(device: Device) -> int:
    return device.card.slices if device.card else _MOST_SLICES


def _free_slices(device: Device) -> int:
    return _slices(device) - device.mask.bit_count()


def node(world: World, of: Node) -> fleet_pb2.NodeView:
    """Return a node with its devices and the workloads that hold them."""
    state = of.state.value if of.present else "NOT_READY"
    view = fleet_pb2.NodeView(
        cluster=of.cluster,
        name=of.name,
        pool=of.pool,
        state=fleet_pb2.NodeState.Value(f"NODE_STATE_{state}"),
        cpu_milli=of.cpu,
        free_cpu_milli=max(0, of.free_cpu),
        memory_bytes=of.memory,
        free_memory_bytes=max(0, of.free_memory),
        devices=_anonymous(world, of) if of.slots else _devices(world, of),
        taints=[fleet_pb2.Taint(key=key, value=value, effect=effect) for key, value, effect in of.taints],
        ordered_by=of.ordered_by,
        layout_failure=of.layout_failure,
        replicas=len(of.entries),
    )
    if of.most_replicas < UNBOUNDED:
        view.most_replicas = of.most_replicas
    if of.layout is not None:
        view.layout.CopyFrom(_layout(of.layout))
    if of.ordered is not None:
        view.ordered = fleet_pb2.NodeState.Value(f"NODE_STATE_{of.ordered.value}")
    if of.draining:
        view.drain_deadline.FromMicroseconds(of.drain_deadline)
    return view


def _layout(change: LayoutChange) -> fleet_pb2.LayoutChange:
    at = timestamp(change.revision)
    return fleet_pb2.LayoutChange(config=change.config, by=change.by, at=at, applying=change.applying)


def _devices(world: World, of: Node) -> list[fleet_pb2.DeviceUse]:
    """Return the devices by name; those of slot groups have none, and are numbered."""
    return [
        _device(world, f"{of.name}/{number}" if is_slot(device.uuid) else device.uuid, device)
        for number, device in enumerate(of.devices)
    ]


def _device(world: World, name: str, device: Device) -> fleet_pb2.DeviceUse:
    holders = sorted({holder.workload for holder in device.entries})
    made = fleet_pb2.DeviceUse(
        uuid=name,
        model=device.model,
        mode=_mode(device),
        free_milli=_free_of(device),
        free_memory_bytes=_free_bytes_of(device),
        workloads=[_name(world, holder) for holder in holders],
    )
    if in_mig(device):
        made.slices.extend(_slices_of(device))
        made.free_sevenths = max(0, _free_sevenths(device))
    return made


def _mode(device: Device) -> str:
    return _MIG_MODE if in_mig(device) and device.mode in {Mode.IDLE, Mode.SLICED} else device.mode.value


def _slices_of(device: Device) -> list[fleet_pb2.SliceUse]:
    """Return the slices of the layout and the slices that are held, ordered by their start."""
    held = {(share.start, share.profile) for share in device.entries.values() if share.profile}
    there = held | {(start, profile) for profile, start in device.layout}
    return [
        fleet_pb2.SliceUse(profile=profile, start=start, held=(start, profile) in held)
        for start, profile in sorted(there)
    ]


def _free_sevenths(device: Device) -> int:
    if device.mode not in {Mode.IDLE, Mode.SLICED}:
        return 0
    return SEVENTHS - sum(compute_of(share.profile) for share in device.entries.values() if share.profile)


def _anonymous(world: World, of: Node) -> list[fleet_pb2.DeviceUse]:
    """Return anonymous slots. The slot of each workload is not known, so only the numbers are right."""
    names = [_name(world, holder.workload) for holder, grant in sorted(of.entries.items()) for _ in range(grant.slots)]
    made = []
    for slot in range(of.slots):
        mode, workloads = Mode.IDLE, []
        if slot < len(names):
            mode, workloads = Mode.WHOLE, [names[slot]]
        elif slot >= of.slots - of.foreign_slots:
            mode = Mode.FOREIGN
        free = _WHOLE if mode is Mode.IDLE else 0
        use = fleet_pb2.DeviceUse(
            uuid=f"{of.name}/{slot}", model=of.slot_model, mode=mode.value, free_milli=free, workloads=workloads
        )
        made.append(use)
    return made


def _name(world: World, workload_id: str) -> str:
    workload = world.workloads.get(workload_id)
    return workload.name if workload is not None and workload.name else workload_id
