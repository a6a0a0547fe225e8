"""Why a workload fits into none of its node pools, however idle they are: what no wait and no release ends.

Called by reasoning.py with what became of it in each pool imagined empty (trial.py).
Holds: what is said is true of every pool of the trials, and of the one that comes nearest in numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from muster_kernel.quantities import GPU
from muster_kernel.reasons import WaitingReason
from muster_kernel.sentences import Reason
from muster_scheduler.domain.asked.requests import STORAGE, Kind, Shape, charge_of, replica_count
from muster_scheduler.domain.asked.workloads import Request
from muster_scheduler.domain.books.idle_trial import Trial
from muster_scheduler.domain.fleet.nodes import Node

_NEAREST: Final = (
    WaitingReason.UNEVEN_GROUPS,
    WaitingReason.TOO_LARGE_FOR_DOMAIN,
    WaitingReason.TOO_FEW_DOMAINS,
)


def why_never(request: Request, charge: int, trials: Sequence[Trial], nodes: Sequence[Node]) -> Reason:
    """The reason, of the trials of all its pools; nodes: those of these pools.

    charge: what all of it costs in the cheapest of them, in 1/7,000 GPU.
    """
    apart = _apart([trial.apart for trial in trials])
    if apart is not None:
        return apart
    together = [trial for trial in trials if trial.short is None and trial.apart is None]
    if together:
        # Of all pools: one that has enough, but not the label of its level, is larger than those that are too small.
        most, room = max(trial.units for trial in trials), max(trial.room for trial in together)
        if any(trial.of_models and trial.room == room for trial in together):  # else another pool holds more, unsliced
            sliced = tuple(role for role in request.roles if role.shape.kind is Kind.MEMORY)
            return Reason(WaitingReason.ONE_MODEL, (replica_count(sliced), room))
        numbers = (replica_count(request.roles), charge, most, room)
        return Reason(WaitingReason.TOO_LARGE_TOGETHER, numbers)
    role = next((trial.short for trial in trials if trial.short is not None), None)
    same = [trial for trial in trials if trial.short == role]
    return _too_large(role.shape, same, nodes) if role else Reason(WaitingReason.NO_SUCH_NODE)


def _apart(found: Sequence[Reason | None]) -> Reason | None:
    """What a wish to run close together, or apart, makes impossible.

    Where no pool has the label only if that is so of all.
    """
    for code in _NEAREST:
        same = [reason for reason in found if reason is not None and reason.code is code]
        if same:
            return max(same, key=lambda reason: reason.numbers)
    return found[0] if all(reason is not None for reason in found) else None


def _too_large(shape: Shape, trials: Sequence[Trial], nodes: Sequence[Node]) -> Reason:
    """Of what one replica needs more than any node has; else of what no node has all at once."""
    devices = max(trial.devices for trial in trials)
    if devices < shape.devices and (devices or shape.kind in _CARDS):
        sliced = 0 if devices else sum(device.mig for node in nodes for device in node.devices)
        numbers = (charge_of(shape), sliced) if sliced else (shape.devices * GPU, devices * GPU)
        return Reason(WaitingReason.ALL_SLICED if sliced else WaitingReason.TOO_LARGE, numbers)
    cpu, memory = max(trial.cpu for trial in trials), max(trial.memory for trial in trials)
    if cpu < shape.cpu or memory < shape.memory:
        return Reason(WaitingReason.HOST_TOO_LARGE, (shape.cpu, shape.memory, cpu, memory))
    no_device = _no_slice(shape, trials) or _no_device(shape, nodes)
    return no_device or _no_resource(shape, nodes) or _not_beside(shape, trials)


_CARDS: Final = frozenset({Kind.WHOLE, Kind.PORTION})


def _no_slice(shape: Shape, trials: Sequence[Trial]) -> Reason | None:
    """That no slice has as much memory, where all of its pools give memory as slices."""
    slices = [trial.largest_slice for trial in trials if trial.largest_slice is not None]
    if shape.kind is not Kind.MEMORY or len(slices) < len(trials) or max(slices) >= shape.bytes:
        return None
    return Reason(WaitingReason.SLICE_TOO_SMALL, (shape.bytes, max(slices)))


def _no_device(shape: Shape, nodes: Sequence[Node]) -> Reason | None:
    """That no device of these nodes gives what is asked for of one, whatever its node has beside it."""
    devices = [device for node in nodes for device in node.devices]
    if shape.kind is Kind.MEMORY:
        largest = max((device.memory for device in devices if not device.mig), default=0)
        return Reason(WaitingReason.DEVICE_TOO_SMALL, (shape.bytes, largest)) if largest < shape.bytes else None
    sliced = [device.card for device in devices if device.mig]
    if shape.kind is not Kind.SLICE or any(card and card.profile(shape.profile) for card in sliced):
        return None
    return Reason(WaitingReason.NO_SUCH_SLICE, (len(devices), len(sliced)))


def _no_resource(shape: Shape, nodes: Sequence[Node]) -> Reason | None:
    """That no node has as much of a named resource."""
    for name, amount in shape.extra:
        most = max((node.extra.get(name, 0) for node in nodes), default=0)
        if most < amount:
            code = WaitingReason.STORAGE_TOO_LARGE if name == STORAGE else WaitingReason.RESOURCE_TOO_LARGE
            return Reason(code, (amount, most))
    return None


def _not_beside(shape: Shape, trials: Sequence[Trial]) -> Reason:
    """That every node lacks something, though each thing is on some node."""
    cpu, memory = max(trial.beside.cpu for trial in trials), max(trial.beside.memory for trial in trials)
    if not shape.devices or (cpu >= shape.cpu and memory >= shape.memory):
        return Reason(WaitingReason.NO_SUCH_NODE)
    return Reason(WaitingReason.NOT_ON_ONE_NODE, (shape.devices * GPU, shape.cpu, shape.memory, cpu, memory))
