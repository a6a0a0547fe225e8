"""Who would have to end for a workload to start: single ones where one is enough, else a set of which none could stay.

Called by explain.py for what waits for want of room. Each was taken away, the placement tried, and all put back; who
would take the place before it (rivals.py) is named, since an end alone helps those whose turn comes first.
Holds: the state is as it was afterwards; of a pool, singly and together, `_LOOKED_AT` workloads are looked at.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from heapq import nsmallest
from itertools import islice
from typing import Final

from muster_scheduler.domain.answers.rivals import taken_first
from muster_scheduler.domain.answers.trying import has_room, has_room_in, taken_back
from muster_scheduler.domain.answers.viewing import Viewer
from muster_scheduler.domain.answers.wording import gpus
from muster_scheduler.domain.asked.requests import Grant
from muster_scheduler.domain.asked.workloads import Request, Workload
from muster_scheduler.domain.books.models import asked_of
from muster_scheduler.domain.books.world import World, amount_of, owner_of
from muster_scheduler.domain.fleet.eligibility import excluded
from muster_scheduler.domain.placement.cluster_choice import clusters_for
from muster_scheduler.domain.placement.place import amount_before, mig_of
from muster_scheduler.domain.placement.slicing import fit_there
from muster_scheduler.domain.placement.trial import emptied

_LISTED: Final = 3
_LOOKED_AT: Final = 64
_LARGE: Final = 16  # of these, where there are more


def who_would_have_to_end(world: World, workload: Workload, request: Request, pool: str, viewer: Viewer) -> list[str]:
    """The smallest running workloads of which one is enough; where none is, a set.

    Behind what is kept for others no end helps: then these are named as well.
    """
    found = _who(world, workload, request, pool, viewer, ())
    kept = [world.workloads[head] for (_, at), head in sorted(world.reserved.items()) if at == pool]
    if found or not kept or workload in kept:
        return found
    with taken_back(world):
        for at in [at for at in world.reserved if at[1] == pool]:
            world.journal.drop(world.reserved, at)
        if has_room(world, workload, request, pool):
            clusters = clusters_for(world, workload, request, pool)
            return [taken_first(world, workload, pool, clusters, viewer, kept).removeprefix(", and ")]
        return _who(world, workload, request, pool, viewer, kept)


def _who(
    world: World, workload: Workload, request: Request, pool: str, viewer: Viewer, kept: Sequence[Workload]
) -> list[str]:
    single: list[tuple[Workload, str]] = []
    sets: list[tuple[list[Workload], str]] = []
    for cluster in clusters_for(world, workload, request, pool):
        holding = _holding(world, cluster, pool, workload.id)
        looked_at = holding if len(holding) <= _LOOKED_AT else [*holding[: _LOOKED_AT - _LARGE], *holding[-_LARGE:]]
        enough = (each for each in looked_at if _fits_without(world, workload, request, cluster, pool, (each,)))
        single += [(each, cluster) for each in islice(enough, _LISTED)]
        together = [] if single else _together(world, workload, request, cluster, pool, holding)
        sets += [(together, cluster)] if together else []
    if single:
        smallest = nsmallest(_LISTED, single, key=lambda each: (_held(each[0]), each[0].id))
        firsts = (_taken_by(world, workload, cluster, pool, (each,), viewer, kept) for each, cluster in smallest)
        return [f"{_told(each, viewer)} ended{first}" for (each, _), first in zip(smallest, firsts, strict=True)]
    if not sets:
        return []
    gone, cluster = min(sets, key=lambda each: (len(each[0]), sum(map(_held, each[0])), each[1]))
    held = sum(map(_held, gone)) if all(map(viewer.sees, gone)) else 0  # less his own, it is what others hold
    first = _taken_by(world, workload, cluster, pool, gone, viewer, kept)
    return [f"{viewer.names(gone)} ended{f' ({gpus(held)} together)' if held else ''}{first}"]


def _taken_by(
    world: World,
    workload: Workload,
    cluster: str,
    pool: str,
    gone: Iterable[Workload],
    viewer: Viewer,
    kept: Sequence[Workload],
) -> str:
    """That others would be in the way, where they would take the place of those who are gone before it."""
    with taken_back(world):
        _release(world, gone)
        return taken_first(world, workload, pool, [cluster], viewer, kept)


def _holding(world: World, cluster: str, pool: str, but: str) -> list[Workload]:
    """Who holds something on the nodes there, the smallest first, whenever these came into the pool.

    Without those whose place is another's once they are gone.
    """
    capacity = world.inventory.capacity(cluster, pool)
    there = {holder.workload for node in (capacity.nodes if capacity else ()) for holder in node.entries}
    claims = (world.workloads[each].claim for each in world.claims)
    leaving = {each for claim in claims if claim for each in claim.waits_for}
    holding = [found for each in there - leaving - {but} if (found := world.workloads[each]).everyone()]
    return sorted(holding, key=lambda other: (_held(other), other.id))


def _together(
    world: World, workload: Workload, request: Request, cluster: str, pool: str, holding: list[Workload]
) -> list[Workload]:
    """A set of which each is needed; empty where it would not fit even without all who are looked at."""
    if len(holding) > _LOOKED_AT:
        holding = _on_cheapest(world, workload, request, cluster, pool, holding)
    gone = sorted(holding, key=lambda other: (-_held(other), other.id))
    if not _fits_without(world, workload, request, cluster, pool, gone):
        return []
    for each in sorted(gone, key=lambda other: (_held(other), other.id)):
        fewer = [other for other in gone if other is not each]
        if _fits_without(world, workload, request, cluster, pool, fewer):
            gone = fewer
    return gone


def _on_cheapest(
    world: World, workload: Workload, request: Request, cluster: str, pool: str, holding: list[Workload]
) -> list[Workload]:
    """All who are on as many nodes as it takes, those first whose workloads hold least: of many small ones, a few."""
    there: dict[tuple[str, str], dict[str, Workload]] = {}
    for each in holding:
        for replica in each.everyone():
            there.setdefault(replica.node, {})[each.id] = each
    asked, mig = asked_of(world, workload, amount_before(world, request, pool).gpu), mig_of(world, cluster)
    shapes = [role.shape for role in request.roles if role.size]
    nodes = [
        node
        for node in map(world.inventory.nodes.__getitem__, there)
        if excluded(asked, node, world.now) is None
        and any(isinstance(fit_there(world, emptied(node), shape, mig), Grant) for shape in shapes)
    ]
    nodes.sort(key=lambda node: (sum(map(_held, there[node.key].values())), node.key))
    steps: list[dict[str, Workload]] = [{}]
    for node in nodes:
        more = steps[-1] | there[node.key]
        steps += [more] if len(more) <= _LOOKED_AT else []
    at = bisect_left(
        steps, True, key=lambda gone: _fits_without(world, workload, request, cluster, pool, gone.values())
    )
    return list(steps[min(at, len(steps) - 1)].values())


def _fits_without(
    world: World, workload: Workload, request: Request, cluster: str, pool: str, others: Iterable[Workload]
) -> bool:
    with taken_back(world):
        _release(world, others)
        return has_room_in(world, workload, request, cluster, pool)


def _release(world: World, gone: Iterable[Workload]) -> None:
    gone = list(gone)
    for each in gone:  # nor does it grow any more
        world.journal.drop(world.hungry, each.id)
        world.journal.drop(world.elastic, each.id)
    for workload, replica in [(each, replica) for each in gone for replica in each.everyone()]:
        if replica.charged:
            world.inventory.release(replica.holder, replica.node)
        if replica.accounted:
            surplus = workload.beyond(replica.holder.role, replica.holder.rank)
            world.queues.charge(owner_of(workload, surplus=surplus), workload.pool, amount_of([replica.grant]), -1)


def _held(workload: Workload) -> int:
    return sum(replica.grant.charge for replica in workload.everyone())


def _told(other: Workload, viewer: Viewer) -> str:
    if not viewer.sees(other):
        return viewer.name(other)
    kind = "preemptible" if other.request and other.request.preemptible else "non-preemptible"
    held = f"{gpus(_held(other))}, " if _held(other) else ""  # it may be CPU and memory that are waited for
    return f"{viewer.name(other)} ({held}{kind}, {other.phase.value})"
