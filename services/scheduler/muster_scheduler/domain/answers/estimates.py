"""When a waiting workload could start, as far as anybody knows when others end; and whose turn keeps it waiting.

Called by explain.py. Known ends are run-time limits, nodes that have to be empty and maintenance windows that close
(turning/foreseen.py); they are the latest moments at which others end, so what follows from them is the latest too.
Holds: an estimate is said only where it follows from known ends; otherwise it says that it is unknown, and why.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from muster_kernel.reasons import Reason, WaitingReason
from muster_scheduler.domain.answers.attempts import Attempt, Way
from muster_scheduler.domain.answers.viewing import Viewer
from muster_scheduler.domain.answers.wording import span
from muster_scheduler.domain.asked.workloads import SECOND, Workload
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.placement.place import Budget
from muster_scheduler.domain.room.sites import sites_of
from muster_scheduler.domain.turning.foreseen import foresee

_SITES: Final = 3
FOR_ROOM: Final = frozenset(
    {
        WaitingReason.NO_CAPACITY,
        WaitingReason.NO_HOST_CAPACITY,
        WaitingReason.FRAGMENTED,
        WaitingReason.TOPOLOGY,
        WaitingReason.RESERVED,
    }
)


class Estimate(NamedTuple):
    """Microseconds since 1970: not before, not after; None: not known. basis: what it rests on, for people."""

    earliest: int | None
    latest: int | None
    basis: str


def estimate(world: World, workload: Workload, reason: Reason) -> Estimate | None:
    """When it could start; None where no passing of time lets it start."""
    grace = world.limits.grace
    match reason.code:
        case WaitingReason.BACKOFF:
            return Estimate(workload.not_before, None, "its pause is over then")
        case WaitingReason.CLAIM:
            return Estimate(None, world.now + grace * SECOND, f"who leaves is ended after {grace} s")
        case code if code in FOR_ROOM:
            return _foreseen(world, workload)
    return None


def _foreseen(world: World, workload: Workload) -> Estimate:
    sites = islice(sites_of(world, workload), _SITES)
    untils = [found.until for site in sites if (found := foresee(workload, site, Budget())) is not None]
    if not any(untils):
        return Estimate(None, None, "too little of what runs there has a run-time limit or another known end")
    first = "its nodes are kept for it" if workload.reservation else "unless something else comes first"
    latest = min(until for until in untils if until)
    return Estimate(None, latest, f"enough of what runs there has to end by then, {first}")


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
