"""The next replica of what runs and would take more: a service, a series of trials, an elastic gang.

Called by growing.py, which tells why it is not there, and by trying.py: room for such a workload is room for it.
Holds: it is looked for exactly as the cycle does that would add it, beside the replicas that are there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from muster_kernel.lifecycle import ACTIVE
from muster_scheduler.domain.asked.requests import Role
from muster_scheduler.domain.asked.workloads import Request, Workload
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.life import elastic, service, trials
from muster_scheduler.domain.placement.place import Budget, place_replica


class NextReplica(NamedTuple):
    """role: with all of its replicas. not_before: until when it rests after a failure, microseconds since 1970."""

    role: Role
    rank: int
    k: int = 0
    not_before: int = 0


class Size(NamedTuple):
    """How many replicas a workload has of how many that it would have now; the next of those that it lacks."""

    has: int
    wanted: int
    next: NextReplica | None = None


def size_of(workload: Workload, now: int) -> Size | None:
    """Of what runs and comes replica by replica; None of everything else. now: microseconds since 1970."""
    request = workload.request
    if request is None or workload.phase not in ACTIVE:
        return None
    if request.stretch is not None:
        return _stretched(workload, request)
    if not workload.independent:
        return None
    wanted = _wanted(workload, request)
    missing = [_next(workload, *each) for each in wanted if (each[0].name, each[1]) not in workload.replicas]
    first = min(missing, key=lambda each: max(each.not_before, now), default=None)
    return Size(len(wanted) - len(missing), len(wanted), first)


def is_elastic(workload: Workload) -> bool:
    """Whether it grows only while nobody waits."""
    return workload.request is not None and workload.request.stretch is not None


def asking_for_next(workload: Workload, request: Request, following: NextReplica) -> Workload:
    """The workload as if it asked for that one replica, where it runs. Groups are left out: one replica is none."""
    topology = request.terms.topology._replace(group="", group_size=0)
    alone = request._replace(
        roles=(following.role._replace(size=1),),
        pools=(workload.pool,),
        clusters=(workload.cluster,),
        preemptible=request.preemptible or request.stretch is not None,  # what a gang can do without is
        terms=request.terms._replace(topology=topology),
        trials=None,
        stretch=None,
    )
    return replace(workload, request=alone)


def place_next(world: World, workload: Workload) -> bool:
    """Whether the next replica of what runs has room, which is taken; quotas aside.

    workload: itself, or as if it asked for something else: whose turn is next is found in the books.
    """
    size = size_of(world.workloads[workload.id], world.now)
    if size is None or size.next is None:
        return False
    role, rank, k, _ = size.next
    return place_replica(world, workload, role, rank, k, Budget()) is not None


def _wanted(workload: Workload, request: Request) -> list[tuple[Role, int]]:
    if request.trials is not None:
        return [(request.roles[0], index) for index in trials.wanted(workload, request.trials)]
    return [(role, index) for role in service.wanted(workload) for index in range(role.size)]


def _next(workload: Workload, role: Role, rank: int) -> NextReplica:
    k, not_before = workload.replacements.get((role.name, rank), (0, 0))
    return NextReplica(role, rank, k, not_before)


def _stretched(workload: Workload, request: Request) -> Size:
    role, rank = elastic.stretched(workload), elastic.missing(workload)
    most = sum(each.size for each in request.roles) + workload.surplus_wanted
    return Size(len(workload.replicas), most, _next(workload, role, rank) if role and rank is not None else None)
