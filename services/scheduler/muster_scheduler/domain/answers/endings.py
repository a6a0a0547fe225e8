"""Who would have to end for a workload to start: single ones where one is enough, else a set of which none could stay.

Called by explain.py for what waits for want of room. Each was taken away, the placement tried, and all put back.
Holds: the state is as it was afterwards; bounded by `_LOOKED_AT` workloads of a pool.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from muster_scheduler.domain.answers.viewing import Viewer
from muster_scheduler.domain.answers.wording import gpus
from muster_scheduler.domain.asked.workloads import Request, Workload
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.placement.place import Budget, clusters_for, place_gang

_LISTED: Final = 3
_LOOKED_AT: Final = 64


def who_would_have_to_end(world: World, workload: Workload, request: Request, pool: str, viewer: Viewer) -> list[str]:
    """The smallest running workloads of which one is enough; where none is, a set."""
    found: list[str] = []
    sets: list[list[Workload]] = []
    for cluster in clusters_for(world, workload, request, pool):
        holding = _holding(world, cluster, pool, workload.id)
        enough = (each for each in holding if _fits_without(world, workload, request, cluster, pool, (each,)))
        found += [f"{_told(each, viewer)} ended" for each, _ in zip(enough, range(_LISTED - len(found)), strict=False)]
        together = [] if found else _together(world, workload, request, cluster, pool, holding)
        sets += [together] if together else []
    if found or not sets:
        return found
    gone = min(sets, key=lambda each: (len(each), sum(map(_held, each))))
    held = sum(map(_held, gone))
    return [f"{viewer.names(gone)} ended{f' ({gpus(held)} together)' if held else ''}"]


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
    for replica in (each for other in others for each in other.everyone()):
        if replica.charged:
            world.inventory.release(replica.holder, replica.node)
    fits = place_gang(world, workload, request.roles, cluster, pool, Budget(2_000)) is not None
    world.journal.rollback(mark)
    return fits


def _held(workload: Workload) -> int:
    return sum(replica.grant.charge for replica in workload.everyone())


def _told(other: Workload, viewer: Viewer) -> str:
    kind = "preemptible" if other.request and other.request.preemptible else "non-preemptible"
    held = f"{gpus(_held(other))}, " if _held(other) else ""  # it may be CPU and memory that are waited for
    return f"{viewer.name(other)} ({held}{kind}, {other.phase.value})"
