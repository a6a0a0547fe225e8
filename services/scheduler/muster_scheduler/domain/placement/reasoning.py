"""The one dominant reason for which a workload has no place, with its numbers.

Called by the cycle when a class is blocked. From what can never work to what only needs somebody to leave; counts per
node are not made here but when somebody asks (answers/explain.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from muster_kernel.reasons import Constraint, Unsupported, WaitingReason
from muster_kernel.sentences import Reason
from muster_scheduler.domain.asked.requests import Grant, Kind, Role, replica_count
from muster_scheduler.domain.asked.workloads import Request, Workload
from muster_scheduler.domain.books.capacity import Capacity
from muster_scheduler.domain.books.eligible import eligibility_of
from muster_scheduler.domain.books.models import bar, closed_models
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.fleet.closures import Closure, closure_of, counted
from muster_scheduler.domain.fleet.columns import Bools, Columns
from muster_scheduler.domain.fleet.counts import counts_of
from muster_scheduler.domain.fleet.eligibility import Eligibility, excluded, mismatch
from muster_scheduler.domain.fleet.nodes import UNBOUNDED, Node
from muster_scheduler.domain.placement.cluster_choice import able, ready, unsupported
from muster_scheduler.domain.placement.gang import GangGround, by_columns, lacking, wish_of
from muster_scheduler.domain.placement.never import why_never
from muster_scheduler.domain.placement.place import amount_before, mig_of
from muster_scheduler.domain.placement.slicing import Roles, charge_there, fit_there, ways
from muster_scheduler.domain.placement.trial import try_out

_OF_CLUSTERS: Final = frozenset({WaitingReason.NO_POOL, WaitingReason.NO_CLUSTER, WaitingReason.NOT_SUPPORTED})
"""Reasons that lie with the clusters that are left, where others might do but for a workload's data."""


def why_not(world: World, workload: Workload) -> Reason:
    """The dominant reason for which an admitted workload with quota has no place now."""
    request = workload.request
    if request is None:
        return Reason(WaitingReason.NOT_EVALUATED)
    reason = _why_not(world, workload, request)
    if request.data is not None and reason.code in _OF_CLUSTERS:
        return Reason(WaitingReason.DATA_ELSEWHERE)
    return reason


def _why_not(world: World, workload: Workload, request: Request) -> Reason:
    with_nodes = [c for pool in request.pools for c in world.inventory.clusters_with(pool)]
    if not with_nodes:
        return Reason(WaitingReason.NO_POOL)
    allowed = [c for c in with_nodes if request.may_use(c)]
    if not allowed:
        return Reason(WaitingReason.NO_CLUSTER)
    supporting = [c for c in allowed if able(request, world.clusters.get(c))]
    if not supporting:
        return _no_cluster_able(world, request, allowed)
    return _not_eligible(world, workload, request) or _short_of_room(world, workload, request)


def _no_cluster_able(world: World, request: Request, allowed: Sequence[str]) -> Reason:
    """Why none of the clusters that it may use can run it, whatever is free there."""
    known = [found for each in dict.fromkeys(allowed) if (found := world.clusters.get(each)) and found.profile]
    lacks = {each.id: unsupported(request, each.profile) for each in known if each.profile is not None}
    if any(lacks[each.id] is None for each in known):  # so it is the objects that it mounts
        elsewhere = any(each.names_objects and not each.missing_of(request.mounts) for each in known)
        return Reason(WaitingReason.DATA_ELSEWHERE if elsewhere else WaitingReason.DATA_MISSING)
    lack = next((each for each in lacks.values() if each is not None), Unsupported.FIELDS)
    return Reason(WaitingReason.NOT_SUPPORTED, (len(set(allowed)), lack))


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
    trials = [try_out(world, workload, request.roles, cluster, pool) for cluster, pool in pools]
    known = [trial for trial in trials if trial is not None]
    if len(known) == len(trials) and not any(trial.fits for trial in known):
        charge = min((_charge(world, request, at) for at in pools), default=0)
        return why_never(request, charge, known, [node for at in pools for node in _nodes_of(world, at)])
    possible = [at for at, trial in zip(pools, trials, strict=True) if trial is None or trial.fits]
    bars = _bars(world, workload, request)
    open_pools = [at for at in possible if bars.get(at[1]) is None]
    if not open_pools:  # it is too large for the others
        barred = bars.get(possible[0][1])
        if barred is not None:
            return barred
    return _unable_now(world, workload, request, open_pools)


def _bars(world: World, workload: Workload, request: Request) -> dict[str, Reason | None]:
    """By node pool the quota or limit that stands against it there; of a single one it is known that none does."""
    if len(request.pools) == 1:
        return {}
    found = ((pool, bar(world, workload, amount_before(world, request, pool), pool)) for pool in request.pools)
    return {pool: barred.reason if barred else None for pool, barred in found}


def _unable_now(world: World, workload: Workload, request: Request, pools: list[tuple[str, str]]) -> Reason:
    """What lacks in pools that would hold it if they were idle, and where no quota stands against it."""
    asked = eligibility_of(world.queues, workload, world.limits.grace)
    charges = {at: _charge(world, request, at) for at in pools}
    open_pools = [(c, p) for c, p in pools if ready(world, world.clusters.get(c))]
    if not open_pools:
        return Reason(WaitingReason.NODES_UNAVAILABLE, (0, 0, 0, sum(len(_nodes_of(world, at)) for at in pools)))
    refused = _refused(world, workload, asked, open_pools)
    if refused is not None:
        return refused
    used_up = closed_models(world, workload, min(charges.values()))
    asked = asked._replace(closed=frozenset(each.model for each in used_up)) if used_up else asked
    amounts = [(charges[at], _free_units(world, asked, request, at)) for at in open_pools]
    wanted, free = min(amounts, key=lambda each: each[0] - each[1])  # of the pool that comes nearest
    apart = lacking(workload, _grounds(world, asked, request, open_pools))
    if apart is not None:
        return apart
    closed = _closed(world, asked, request, open_pools)
    if closed is not None:
        return closed
    full = _full_of_replicas(world, asked, request, open_pools)
    if full is not None:
        return full
    if not wanted or (free >= wanted and _devices_are_free(world, asked, request, open_pools)):
        return Reason(WaitingReason.NO_HOST_CAPACITY, (replica_count(request.roles),))
    if free >= wanted:
        return Reason(WaitingReason.FRAGMENTED, (wanted, free))
    return Reason(WaitingReason.NO_CAPACITY, (wanted, free))


def _refused(world: World, workload: Workload, asked: Eligibility, pools: list[tuple[str, str]]) -> Reason | None:
    """That agents refused it on every node that it may use: it is no room that lacks, and none is kept for it."""
    if not workload.avoid:
        return None
    anywhere = asked._replace(avoided=frozenset())
    nodes = [node for at in pools for node in _nodes_of(world, at) if excluded(anywhere, node, world.now) is None]
    left = any(excluded(asked, node, world.now) is None for node in nodes)
    return Reason(WaitingReason.REFUSED, (len(nodes),)) if nodes and not left else None


def _as_placed(world: World, request: Request, at: tuple[str, str]) -> Roles:
    """Its roles as that pool places them: with the cheapest slices, where it gives memory as slices."""
    return next(iter(ways(world, request.roles, *at)), request.roles)


def _charge(world: World, request: Request, at: tuple[str, str]) -> int:
    return charge_there(world, _as_placed(world, request, at), *at)


def _nodes_of(world: World, at: tuple[str, str]) -> Sequence[Node]:
    capacity = world.inventory.capacity(*at)
    return capacity.nodes if capacity else ()


def _closed(world: World, asked: Eligibility, request: Request, pools: list[tuple[str, str]]) -> Reason | None:
    """That it is nodes which take no new work for now that lack: a pool would hold it with them."""
    for cluster, pool in pools:
        capacity = world.inventory.capacity(cluster, pool)
        shut = closures(capacity, asked, world.now) if capacity else {}
        if capacity is None or not shut:
            continue  # as nearly always: every head that finds no room comes by here
        mig = mig_of(world, cluster)
        roles = [role for role in _as_placed(world, request, (cluster, pool)) if role.size]
        there = {n: [fit_there(world, capacity.nodes[n], role.shape, mig) for role in roles] for n in shut}
        holding = {n for n, found in there.items() if any(isinstance(each, Grant) for each in found)}
        if holding and (not by_columns(tuple(roles), mig) or _hold(capacity, asked, roles, holding, world.now)):
            return Reason(WaitingReason.NODES_UNAVAILABLE, (*counted(shut[n] for n in sorted(holding)), 0))
    return None


def _full_of_replicas(
    world: World, asked: Eligibility, request: Request, pools: list[tuple[str, str]]
) -> Reason | None:
    """That a pool would hold it if its nodes took more replicas than their limits allow."""
    for cluster, pool in pools:
        capacity = world.inventory.capacity(cluster, pool)
        if capacity is None:
            continue
        columns, usable = capacity.columns, capacity.usable.mask(asked, world.now)
        limited = usable & (columns.replicas < replica_count(request.roles))
        if not limited.any():
            continue  # as nearly always: every head that finds no room comes by here
        mig = mig_of(world, cluster)
        roles = tuple(role for role in _as_placed(world, request, (cluster, pool)) if role.size)
        if by_columns(roles, mig):
            full = _limited_to(columns, usable, roles)
        else:
            nodes = [capacity.nodes[n] for n in np.flatnonzero(limited)]
            found = ({fit_there(world, node, role.shape, mig) for role in roles} for node in nodes)
            full = sum(1 for outcomes in found if Constraint.REPLICAS_FULL in outcomes)
        if full:
            return Reason(WaitingReason.REPLICAS_FULL, (full,))
    return None


def _limited_to(columns: Columns, usable: Bools, roles: Roles) -> int:
    """How many nodes could take more replicas but for their limits, where these alone keep the roles out; else 0."""
    boundless = replace(columns, replicas=np.full_like(columns.replicas, UNBOUNDED))
    places = np.where(usable & columns.open, np.maximum(columns.replicas, 0), 0)
    short, full = int(places.sum()) < sum(role.size for role in roles), np.zeros(len(columns), np.bool_)
    for role in roles:
        otherwise, now = (np.where(usable, counts_of(each, role.shape, role.size), 0) for each in (boundless, columns))
        if int(otherwise.sum()) < role.size:
            return 0
        short = short or int(now.sum()) < role.size
        full |= otherwise > now
    return int(full.sum()) if short else 0


def closures(capacity: Capacity, asked: Eligibility, now: int) -> dict[int, Closure]:
    """The nodes of a pool, by ordinal, that take no new work for now and would be such as it may use."""
    found = ((n, closure_of(asked, capacity.nodes[n], now)) for n in capacity.usable.special)
    return {n: closure for n, closure in found if closure is not None}


def _hold(capacity: Capacity, asked: Eligibility, roles: list[Role], closed: set[int], now: int) -> bool:
    """Whether the nodes that it may use hold each of its roles together with these closed ones."""
    mask = capacity.usable.mask(asked, now)
    mask[sorted(closed)] = True
    columns = replace(capacity.columns, open=mask)
    return all(int(counts_of(columns, role.shape, role.size).sum()) >= role.size for role in roles)


def _devices_are_free(world: World, asked: Eligibility, request: Request, pools: list[tuple[str, str]]) -> bool:
    """Whether a pool has all devices of a gang of one role free, so that it is CPU or memory that lacks beside them."""
    if sum(1 for role in request.roles if role.size) != 1:
        return False
    for cluster, pool in pools:
        (role,) = (role for role in _as_placed(world, request, (cluster, pool)) if role.size)
        cpu, memory = role.shape.cpu, role.shape.memory
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


def _grounds(
    world: World, asked: Eligibility, request: Request, pools: list[tuple[str, str]]
) -> list[tuple[Roles, GangGround]]:
    """As what a gang with a wish is placed, and where it is looked for; nowhere where it has none."""
    wish, nodes = wish_of(request), world.inventory.nodes
    return [
        (way, GangGround(capacity, asked, wish, world.now, world.pools.named(*at), nodes))
        for at in pools
        if not wish.anywhere and (capacity := world.inventory.capacity(*at))
        for way in ways(world, request.roles, *at)
    ]


def _free_units(world: World, asked: Eligibility, request: Request, at: tuple[str, str]) -> int:
    """What is free there of what it asks for: cards, MIG slices, or both."""
    capacity = world.inventory.capacity(*at)
    if capacity is None:
        return 0
    placed = [role for role in _as_placed(world, request, at) if role.size]
    kinds = {role.shape.kind is Kind.SLICE for role in placed if role.shape.kind is not Kind.NONE}
    return sum(capacity.leftover.of(asked, world.now, sliced=sliced) for sliced in sorted(kinds))
