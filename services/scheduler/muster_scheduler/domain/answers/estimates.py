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
    grace = world.limits.grace
    match reason.code:
        case WaitingReason.BACKOFF:
            return Estimate(workload.not_before, None, "its pause is over then")
        case WaitingReason.CLAIM:
            return Estimate(None, world.now + grace * SECOND, f"who leaves is ended after {grace} s")
        case code if code in WITHOUT_ROOM:
            return _foreseen(world, workload, code)
    return None


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
        return Estimate(None, None, "nobody has said when the nodes that could hold it take new work again")
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
