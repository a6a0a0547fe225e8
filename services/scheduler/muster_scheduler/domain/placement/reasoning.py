"""The one dominant reason for which a workload has no place, with its numbers.

Called by the cycle when a class is blocked. From what can never work to what only needs somebody to leave; counts per
node are not made here but when somebody asks (answers/explain.py).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from muster_kernel.quantities import GPU
from muster_kernel.reasons import Constraint, Unsupported, WaitingReason
from muster_kernel.sentences import Reason
from muster_scheduler.domain.asked.requests import Kind, Shape, replica_count, total_charge
from muster_scheduler.domain.asked.workloads import Request, Workload
from muster_scheduler.domain.books.capacity import Trial
from muster_scheduler.domain.books.eligible import eligibility_of
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.fleet.counts import counts_of
from muster_scheduler.domain.fleet.eligibility import Eligibility, mismatch
from muster_scheduler.domain.placement.gang import GangGround, by_columns, lacking, wish_of
from muster_scheduler.domain.placement.place import able, charge_before, mig_of, ready, unsupported
from muster_scheduler.domain.placement.trial import try_out


def why_not(world: World, workload: Workload) -> Reason:
    """The dominant reason for which an admitted workload with quota has no place now."""
    request = workload.request
    if request is None:
        return Reason(WaitingReason.NOT_EVALUATED)
    with_nodes = [c for pool in request.pools for c in world.inventory.clusters_with(pool)]
    if not with_nodes:
        return Reason(WaitingReason.NO_POOL)
    allowed = [c for c in with_nodes if not request.clusters or c in request.clusters]
    if not allowed:
        return Reason(WaitingReason.NO_CLUSTER)
    supporting = [c for c in allowed if able(request, world.clusters.get(c))]
    if not supporting:
        profiles = (known.profile for each in allowed if (known := world.clusters.get(each)) and known.profile)
        lacks = (lack for profile in profiles if (lack := unsupported(request, profile)) is not None)
        return Reason(WaitingReason.NOT_SUPPORTED, (len(set(allowed)), next(lacks, Unsupported.FIELDS)))
    return _not_eligible(world, workload, request) or _short_of_room(world, workload, request)


def _not_eligible(world: World, workload: Workload, request: Request) -> Reason | None:
    """Why no node of its pools is one that it may use, whatever is free: said of what keeps most of them out."""
    asked = eligibility_of(world.queues, workload, world.limits.grace)
    found: Counter[Constraint] = Counter()
    for cluster, pool in _pools_of(world, request):
        capacity = world.inventory.capacity(cluster, pool)
        for node in capacity.nodes if capacity else ():
            out = mismatch(asked, node)
            if out is None:  # as nearly always, of the first node: every head that finds no room comes by here
                return None
            found[out] += 1
    if not found:
        return None
    wrong, tainted = found[Constraint.WRONG_NODE_TYPE], found[Constraint.TAINTED]
    code = WaitingReason.WRONG_NODE_TYPE if wrong >= tainted else WaitingReason.NOT_TOLERATED
    return Reason(code, (max(wrong, tainted), wrong + tainted))


def _pools_of(world: World, request: Request) -> list[tuple[str, str]]:
    return [
        (cluster, pool)
        for pool in request.pools
        for cluster in world.inventory.clusters_with(pool)
        if able(request, world.clusters.get(cluster))
    ]


def _short_of_room(world: World, workload: Workload, request: Request) -> Reason:
    pools = _pools_of(world, request)
    asked = eligibility_of(world.queues, workload, world.limits.grace)
    wanted = min((charge_before(world, request, pool) for pool in request.pools), default=0)
    trials = [try_out(world, workload, request.roles, cluster, pool) for cluster, pool in pools]
    possible = [trial for trial in trials if trial is not None]
    if len(possible) == len(trials) and not any(trial.fits for trial in possible):
        return _never(world, request, possible, pools)
    open_pools = [(c, p) for c, p in pools if ready(world, world.clusters.get(c))]
    free = max((_free_units(world, asked, request, c, p) for c, p in open_pools), default=0)
    if not open_pools:
        closed = sum(len(capacity.nodes) for c, p in pools if (capacity := world.inventory.capacity(c, p)))
        return Reason(WaitingReason.NODES_UNAVAILABLE, (closed,))
    apart = lacking(workload, request.roles, _grounds(world, asked, request, open_pools))
    if apart is not None:
        return apart
    if not wanted or (free >= wanted and _devices_are_free(world, asked, request, open_pools)):
        return Reason(WaitingReason.NO_HOST_CAPACITY, (replica_count(request.roles),))
    if free >= wanted:
        return Reason(WaitingReason.FRAGMENTED, (wanted, free))
    return Reason(WaitingReason.NO_CAPACITY, (wanted, free))


def _devices_are_free(world: World, asked: Eligibility, request: Request, pools: list[tuple[str, str]]) -> bool:
    """Whether a pool has all devices of a gang of one role free, so that it is CPU or memory that lacks beside them."""
    roles = [role for role in request.roles if role.size]
    if len(roles) != 1:
        return False
    (role,) = roles
    cpu, memory = role.shape.cpu, role.shape.memory
    for cluster, pool in pools:
        capacity = world.inventory.capacity(cluster, pool)
        if capacity is None or not by_columns((role,), mig_of(world, cluster)):
            continue
        columns, usable = capacity.columns, capacity.usable.mask(asked, world.now)
        if not (usable & ((columns.cpu < cpu) | (columns.memory < memory))).any():
            continue  # as nearly always: every head that finds no room comes by here
        # Below 0 where others took more than there was: nothing fits there, though its devices are free.
        hosts = replace(columns, cpu=np.maximum(columns.cpu, 0), memory=np.maximum(columns.memory, 0))
        counts = counts_of(hosts, role.shape._replace(cpu=0, memory=0), role.size)
        if int(counts[usable].sum()) >= role.size:
            return True
    return False


def _grounds(world: World, asked: Eligibility, request: Request, pools: list[tuple[str, str]]) -> list[GangGround]:
    """Where a gang with a wish is looked for; nowhere where it has none."""
    wish = wish_of(request)
    return [
        GangGround(capacity, asked, wish, world.now, world.pools.named(cluster, pool))
        for cluster, pool in pools
        if wish.keys and (capacity := world.inventory.capacity(cluster, pool))
    ]


def _never(world: World, request: Request, trials: list[Trial], pools: list[tuple[str, str]]) -> Reason:
    """Why it fits into none of these pools even when they are idle: what is said is true of all of them."""
    apart = next((trial.apart for trial in trials if trial.apart is not None), None)
    if apart is not None:
        return apart
    together = [trial for trial in trials if trial.short is None]
    if together:
        most, room = max(trial.units for trial in together), max(trial.room for trial in together)
        numbers = (replica_count(request.roles), total_charge(request.roles), most, room)
        return Reason(WaitingReason.TOO_LARGE_TOGETHER, numbers)
    role = trials[0].short
    shape = role.shape if role else Shape()
    same = [trial for trial in trials if trial.short == role]
    devices = max(trial.devices for trial in same)
    if devices < shape.devices and (devices or shape.kind is Kind.WHOLE):
        return Reason(WaitingReason.TOO_LARGE, (shape.devices * GPU, devices * GPU))
    cpu, memory = max(trial.cpu for trial in same), max(trial.memory for trial in same)
    if cpu < shape.cpu or memory < shape.memory:
        return Reason(WaitingReason.HOST_TOO_LARGE, (shape.cpu, shape.memory, cpu, memory))
    return _no_device(world, shape, pools) or Reason(WaitingReason.NO_SUCH_NODE)


def _no_device(world: World, shape: Shape, pools: list[tuple[str, str]]) -> Reason | None:
    """That no device of these pools gives what is asked for of one, whatever its node has beside it."""
    nodes = (node for at in pools if (capacity := world.inventory.capacity(*at)) for node in capacity.nodes)
    devices = [device for node in nodes for device in node.devices]
    if shape.kind is Kind.MEMORY:
        largest = max((device.memory for device in devices if not device.mig), default=0)
        return Reason(WaitingReason.DEVICE_TOO_SMALL, (shape.bytes, largest)) if largest < shape.bytes else None
    sliced = [device.card for device in devices if device.mig]
    if shape.kind is not Kind.SLICE or any(card and card.profile(shape.profile) for card in sliced):
        return None
    return Reason(WaitingReason.NO_SUCH_SLICE, (len(devices), len(sliced)))


def _free_units(world: World, asked: Eligibility, request: Request, cluster: str, pool: str) -> int:
    """What is free there of what it asks for: cards, MIG slices, or both."""
    capacity = world.inventory.capacity(cluster, pool)
    if capacity is None:
        return 0
    kinds = {role.shape.kind is Kind.SLICE for role in request.roles if role.size and role.shape.kind is not Kind.NONE}
    return sum(capacity.leftover.of(asked, world.now, sliced=sliced) for sliced in sorted(kinds))
