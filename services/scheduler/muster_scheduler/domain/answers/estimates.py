"""When a waiting workload could start, as far as anybody knows when others end; and whose turn keeps it waiting.

Called by explain.py. Known ends are run-time limits, nodes that have to be empty and maintenance windows that close
(turning/foreseen.py); they are the latest moments at which others end, so what follows from them is the latest too.
What is likely follows from how long such work has run before (books/usual.py).
Holds: an estimate is said only where it follows from known ends, or from how such work ended; otherwise it says that
it is unknown, and why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from muster_kernel.lifecycle import ACTIVE
from muster_kernel.reasons import FOR_ROOM, WaitingReason
from muster_kernel.sentences import Reason
from muster_scheduler.domain.answers.attempts import Attempt, Way
from muster_scheduler.domain.answers.viewing import Viewer
from muster_scheduler.domain.answers.wording import span
from muster_scheduler.domain.asked.workloads import SECOND, Workload
from muster_scheduler.domain.books.usual import usual_end
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.placement.place import Budget
from muster_scheduler.domain.room.sites import Site, sites_of
from muster_scheduler.domain.turning.foreseen import foresee

_SITES: Final = 3
_ENOUGH: Final = "enough of what runs there has to end"
WITHOUT_ROOM: Final = FOR_ROOM - {WaitingReason.CLAIM}
"""What waits for these has no room in sight yet; who waits for leavers has."""


class Estimate(NamedTuple):
    """Microseconds since 1970: not before, not after; None: not known. basis: what it rests on, for people.

    likely: by when it will probably have started.
    """

    earliest: int | None
    latest: int | None
    basis: str
    likely: int | None = None


def estimate(world: World, workload: Workload, reason: Reason) -> Estimate | None:
    """When it could start; None where no passing of time lets it start."""
    match reason.code:
        case WaitingReason.BACKOFF:
            return Estimate(workload.not_before, None, "its pause is over then")
        case WaitingReason.CLAIM:
            return _once_they_left(world, workload)
        case code if code in WITHOUT_ROOM:
            return _foreseen(world, workload, code)
    return None


def _once_they_left(world: World, workload: Workload) -> Estimate:
    """By when the last of those who leave is ended; unknown once that is over and nobody has said that it is gone."""
    grace = world.limits.grace
    ends = [_told_to_go(world, leaver) + grace * SECOND for leaver in _awaited(world, workload)]
    late = [end for end in ends if end <= world.now]
    if not late:
        return Estimate(None, max(ends, default=world.now), f"who leaves is ended after {grace} s")
    who = f"{len(late)} of those who leave has" if len(late) == 1 else f"{len(late)} of those who leave have"
    since = span(world.now - min(late))
    return Estimate(None, None, f"{who} been due to be gone for {since}, and the cluster agent has not said so")


def _awaited(world: World, workload: Workload) -> Iterable[Workload]:
    """Who has to be gone before it starts: those whom its claim names, else all who leave where it may go."""
    if workload.claim is not None:
        return [world.workloads[each] for each in workload.claim.waits_for]
    return {each.id: each for site in islice(sites_of(world, workload), _SITES) for each in site.leaving}.values()


def _told_to_go(world: World, leaver: Workload) -> int:
    """Since when it, or what it gives up of itself, leaves; now, where nobody has noted it."""
    return (leaver.resized if leaver.phase in ACTIVE else leaver.withdrawn) or world.now


def _foreseen(world: World, workload: Workload, code: WaitingReason) -> Estimate:
    sites = list(islice(sites_of(world, workload), _SITES))
    latest = _soonest(workload, ((site, {}) for site in sites))
    closed = code is WaitingReason.NODES_UNAVAILABLE
    likely = _soonest(workload, ((site, usual) for site in sites if (usual := _usual_ends(site))))
    first = "its nodes are kept for it" if workload.reservation else "unless something else comes first"
    if latest is not None:
        enough = "nodes take new work again, or enough of what runs there has to end," if closed else _ENOUGH
        return Estimate(None, latest, f"{enough} by then, {first}", likely)
    if likely is not None:
        return Estimate(None, None, f"if what runs there takes as long as such work usually did, {first}", likely)
    if closed:
        return Estimate(None, None, "it is not known when the nodes that could hold it accept new work again")
    return Estimate(None, None, "too little is known of when what runs there ends: no run-time limits, no work like it")


def _soonest(workload: Workload, sites: Iterable[tuple[Site, dict[str, int]]]) -> int | None:
    """By when it fits at one of these sites, each with when workloads there will probably have ended."""
    found = (foresee(workload, site, Budget(), usual) for site, usual in sites)
    return min((each.until for each in found if each is not None and each.until), default=None)


def _usual_ends(site: Site) -> dict[str, int]:
    """When those who run there will have ended, if they take as long as such work usually did."""
    world = site.world
    there = (members for place, members in world.placed.items() if place[:2] == (site.cluster, site.pool))
    running = (world.workloads[name] for members in there for name in members) if world.usual else ()
    ends = ((w.id, usual_end(world.usual, w, world.now)) for w in running if w.active)
    return {name: end for name, end in ends if end is not None}


def kept_for(world: World, workload: Workload, viewer: Viewer) -> Iterator[Attempt]:
    """For whom nodes are kept in the pools that it asks for, since when, and by when that one will fit."""
    request = workload.request
    for (cluster, pool), other in sorted(world.reserved.items()):
        head = world.workloads[other]
        kept = head.reservation
        if kept is None or request is None or pool not in request.pools or other == workload.id:
            continue
        one = len(kept.nodes) == 1
        nodes = f"{len(kept.nodes)} {'node' if one else 'nodes'} of {pool} in {cluster} {'is' if one else 'are'} kept"
        until = f"; it fits there within {span(kept.until - world.now)}" if kept.until > world.now else ""
        whom = f"{viewer.name(head)} of {head.project}" if viewer.sees(head) else viewer.name(head)
        text = f"{nodes} for {whom}, for {span(world.now - kept.since)} now{until}"
        yield Attempt(Way.RESERVE, "reserved", text)
