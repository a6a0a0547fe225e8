"""Whether a shape fits on a node, and which of its devices it would hold there. Changes nothing.

Called by placement for a replica that is placed by itself, and by explanations.
Holds: what it gives is free, and what it refuses is refused for the first constraint in the order cpu, memory, named
resources, devices, replicas.
"""

from __future__ import annotations

from typing import Final

from muster_kernel.mig import best_start, compute_of
from muster_kernel.quantities import GPU, MILLI, UNITS_PER_SEVENTH
from muster_kernel.reasons import Constraint
from muster_scheduler.domain.asked.requests import Grant, Kind, Shape, Share, charge_of
from muster_scheduler.domain.fleet.nodes import Device, Mig, Mode, Node


def fit(node: Node, shape: Shape, mig: Mig = Mig.NONE) -> Grant | Constraint:
    """What a replica of `shape` would hold on `node`, or the first constraint that keeps it out.

    Devices: the tightest shared card that is large enough, else an idle one; ties go to the lowest slot.
    """
    if node.free_cpu < shape.cpu:
        return Constraint.CPU
    if node.free_memory < shape.memory:
        return Constraint.MEMORY
    if any(node.free_extra(name) < amount for name, amount in shape.extra):
        return Constraint.RESOURCE
    found = _devices(node, shape, mig)
    if isinstance(found, Constraint):
        return found
    if node.free_replicas < 1:
        return Constraint.REPLICAS_FULL
    return found._replace(extra=shape.extra) if shape.extra else found


def _devices(node: Node, shape: Shape, mig: Mig) -> Grant | Constraint:
    match shape.kind:
        case Kind.NONE:
            return Grant(shape.cpu, shape.memory)
        case Kind.WHOLE:
            return _whole(node, shape)
        case Kind.PORTION | Kind.MEMORY:
            return _shared(node, shape)
        case Kind.SLICE:
            return _sliced(node, shape, mig)


def _whole(node: Node, shape: Shape) -> Grant | Constraint:
    charge = shape.devices * GPU
    if node.slots:
        if node.free_slots < shape.devices:
            return Constraint.NO_IDLE_GPU if node.free_slots == 0 else Constraint.TOO_FEW_GPUS
        return Grant(shape.cpu, shape.memory, (), shape.devices, charge)
    shares: list[Share] = []
    for device in node.devices:
        if device.whole_free:
            shares.append(Share(device.uuid, Kind.WHOLE, MILLI, device.memory))
            if len(shares) == shape.devices:
                return Grant(shape.cpu, shape.memory, tuple(shares), 0, charge)
    if not node.devices:
        return Constraint.NO_GPU
    return Constraint.TOO_FEW_GPUS if shares else Constraint.NO_IDLE_GPU


def _shared(node: Node, shape: Shape) -> Grant | Constraint:
    if not node.devices:
        return Constraint.NO_GPU
    fitting: list[tuple[int, int, Share, int]] = []
    large_enough = False
    for device in node.devices:
        if device.mig:
            continue
        milli, amount = _amounts(device, shape)
        large_enough = large_enough or amount <= device.memory
        if device.mode not in _SHAREABLE or device.free_milli < milli or device.free_bytes < amount:
            continue
        if shape.kind is Kind.MEMORY and not device.memory:
            continue
        left = device.free_bytes - amount if shape.kind is Kind.MEMORY else device.free_milli - milli
        # An idle card is the last choice: sharing it would break a whole one.
        tightness = left + (_IDLE_LAST if device.mode is Mode.IDLE else 0)
        fitting.append((tightness, device.slot, Share(device.uuid, shape.kind, milli, amount), device.memory))
    if len(fitting) < shape.devices:
        if not large_enough and shape.kind is Kind.MEMORY:
            return Constraint.DEVICE_TOO_SMALL
        return Constraint.NO_PORTION if shape.kind is Kind.PORTION else Constraint.NO_DEVICE_MEMORY
    fitting.sort()
    chosen = fitting[: shape.devices]
    one = shape._replace(devices=1)
    charge = sum(charge_of(one, memory) for _, _, _, memory in chosen)
    return Grant(shape.cpu, shape.memory, tuple(share for _, _, share, _ in chosen), 0, charge)


_SHAREABLE: Final = frozenset({Mode.IDLE, Mode.SHARED})
_IDLE_LAST: Final = 1 << 60


def _amounts(device: Device, shape: Shape) -> tuple[int, int]:
    """Milli-GPU and bytes that the shape takes of this device. A portion takes its part of the memory, rounded down."""
    if shape.kind is Kind.MEMORY:
        return 0, shape.bytes
    return shape.milli, shape.milli * device.memory // MILLI


def _sliced(node: Node, shape: Shape, mig: Mig) -> Grant | Constraint:
    found: list[Share] = []
    for device in sorted(node.devices, key=lambda d: (not d.entries, d.slot)):
        share = _slice_of(device, shape.profile, mig)
        if share is not None:
            found.append(share)
            if len(found) == shape.devices:
                charge = shape.devices * compute_of(shape.profile) * UNITS_PER_SEVENTH
                return Grant(shape.cpu, shape.memory, tuple(found), 0, charge)
    return Constraint.NO_SLICE if any(device.mig for device in node.devices) else Constraint.NO_GPU


def _slice_of(device: Device, name: str, mig: Mig) -> Share | None:
    if not device.mig or device.mode not in {Mode.IDLE, Mode.SLICED}:
        return None
    card = device.card
    profile = card.profile(name) if card else None
    if mig is Mig.STATIC:
        for existing, start in sorted(device.layout):
            if existing == name and not device.slice_taken(existing, start):
                mask = profile.mask(start) if profile and start in profile.starts else 0
                return Share(device.uuid, Kind.SLICE, profile=name, start=start, mask=mask)
        return None
    if mig is Mig.NONE or card is None or profile is None:
        return None
    present = sum(1 for share in device.entries.values() if share.profile == name)
    at = best_start(card, profile, device.mask, present)
    return None if at is None else Share(device.uuid, Kind.SLICE, profile=name, start=at, mask=profile.mask(at))
