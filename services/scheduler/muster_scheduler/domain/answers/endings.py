"""Who would have to end for a workload to start: single ones where one is enough, else a set of which none could stay.

Called by explain.py for what waits for want of room. Each was taken away, the placement tried, and all put back; who
would take the place before it (rivals.py) is named, since an end alone helps those whose turn comes first.
Holds: the state is as it was afterwards; bounded by `_LOOKED_AT` workloads of a pool.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from muster_scheduler.domain.answers.rivals import taken_first
from muster_scheduler.domain.answers.trying import taken_back
from muster_scheduler.domain.answers.viewing import Viewer
from muster_scheduler.domain.answers.wording import gpus
from muster_scheduler.domain.asked.workloads import Request, Workload
from muster_scheduler.domain.books.world import World, amount_of, owner_of
from muster_scheduler.domain.placement.place import Budget, clusters_for, place_gang

_LISTED: Final = 3
_LOOKED_AT: Final = 64


def who_would_have_to_end(world: World, workload: Workload, request: Request, pool: str, viewer: Viewer) -> list[str]:
    """The smallest running workloads of which one is enough; where none is, a set."""
    found: list[str] = []
    sets: list[tuple[list[Workload], str]] = []
    for cluster in clusters_for(world, workload, request, pool):
        holding = _holding(world, cluster, pool, workload.id)
        enough = (each for each in holding if _fits_without(world, workload, request, cluster, pool, (each,)))
        for each, _ in zip(enough, range(_LISTED - len(found)), strict=False):
            first = _taken_by(world, workload, cluster, pool, (each,), viewer)
            found.append(f"{_told(each, viewer)} ended{first}")
        together = [] if found else _together(world, workload, request, cluster, pool, holding)
        sets += [(together, cluster)] if together else []
    if found or not sets:
        return found
    gone, cluster = min(sets, key=lambda each: (len(each[0]), sum(map(_held, each[0])), each[1]))
    held = sum(map(_held, gone))
    first = _taken_by(world, workload, cluster, pool, gone, viewer)
    return [f"{viewer.names(gone)} ended{f' ({gpus(held)} together)' if held else ''}{first}"]


def _taken_by(
    world: World, workload: Workload, cluster: str, pool: str, gone: Iterable[Workload], viewer: Viewer
) -> str:
    """That others would be in the way, where they would take the place of those who are gone before it."""
    with taken_back(world):
        _release(world, gone)
        return taken_first(world, workload, pool, [cluster], viewer)


def _holding(world: World, cluster: str, pool: str, but: str) -> list[Workload]:
    """Those who hold least, of all who hold something there."""
    there = [members for place, members in world.placed.items() if place[:2] == (cluster, pool)]
    holding = [world.workloads[each] for members in there for each in members if each != but]
    return sorted(holding, key=lambda other: (_held(other), other.id))[:_LOOKED_AT]


def _together(
    world: World, workload: Workload, request: Request, cluster: str, pool: str, holding: list[Workload]
) -> list[Workload]:
    """A set of which each is needed; empty where it would not fit even without all of them."""
    gone = sorted(holding, key=lambda other: (-_held(other), other.id))
    if not _fits_without(world, workload, request, cluster, pool, gone):
        return []
    for each in sorted(gone, key=lambda other: (_held(other), other.id)):
        fewer = [other for other in gone if other is not each]
        if _fits_without(world, workload, request, cluster, pool, fewer):
            gone = fewer
    return gone


def _fits_without(
    world: World, workload: Workload, request: Request, cluster: str, pool: str, others: Iterable[Workload]
) -> bool:
    mark = world.journal.mark()
    _release(world, others)
    fits = place_gang(world, workload, request.roles, cluster, pool, Budget(2_000)) is not None
    world.journal.rollback(mark)
    return fits


def _release(world: World, gone: Iterable[Workload]) -> None:
    for workload, replica in [(each, replica) for each in gone for replica in each.everyone()]:
        if replica.charged:
            world.inventory.release(replica.holder, replica.node)
        if replica.accounted:
            surplus = workload.beyond(replica.holder.role, replica.holder.rank)
            world.queues.charge(owner_of(workload, surplus=surplus), workload.pool, amount_of([replica.grant]), -1)


def _held(workload: Workload) -> int:
    return sum(replica.grant.charge for replica in workload.everyone())


def _told(other: Workload, viewer: Viewer) -> str:
    kind = "preemptible" if other.request and other.request.preemptible else "non-preemptible"
    held = f"{gpus(_held(other))}, " if _held(other) else ""  # it may be CPU and memory that are waited for
    return f"{viewer.name(other)} ({held}{kind}, {other.phase.value})"
