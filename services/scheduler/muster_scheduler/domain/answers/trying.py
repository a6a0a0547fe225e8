"""Whether a request would find a place: on its nodes if they were idle, and on them as they are now.

Called by remedies.py and allowances.py, of requests that ask for something else than what was admitted, and by
growing.py of the next replica of what runs.
Holds: the state is as it was afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from muster_scheduler.domain.answers.next_replica import place_next
from muster_scheduler.domain.asked.workloads import Request, Workload
from muster_scheduler.domain.books.idle_trial import Trial
from muster_scheduler.domain.books.models import Bar, bar
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.placement.cluster_choice import able, clusters_for
from muster_scheduler.domain.placement.place import Budget, amount_before, place_gang
from muster_scheduler.domain.placement.trial import try_out


def asking(workload: Workload, request: Request) -> Workload:
    """The workload as if it asked for that."""
    return replace(workload, request=request)


@contextmanager
def taken_back(world: World) -> Iterator[None]:
    """What is written into the books meanwhile is taken back."""
    mark = world.journal.mark()
    try:
        yield
    finally:
        world.journal.rollback(mark)


def trials(world: World, workload: Workload, request: Request, pool: str) -> list[Trial | None]:
    """What would become of it in each cluster's part of the pool if the nodes there were idle; None: too large."""
    return [
        try_out(world, workload, request.roles, cluster, pool)
        for cluster in world.inventory.clusters_with(pool)
        if able(request, world.clusters.get(cluster))
    ]


def fits_idle(world: World, workload: Workload, request: Request, pool: str) -> bool:
    """Whether idle nodes of the pool are known to hold it."""
    return any(trial is not None and trial.fits for trial in trials(world, workload, request, pool))


def may_fit_idle(world: World, workload: Workload, request: Request, pool: str) -> bool:
    """The same, and where the pool is too large to try."""
    return any(trial is None or trial.fits for trial in trials(world, workload, request, pool))


def barred(world: World, workload: Workload, request: Request, pool: str) -> Bar | None:
    """The quota or limit that stands against it in the pool."""
    return bar(world, workload, amount_before(world, request, pool), pool)


def has_room(world: World, workload: Workload, request: Request, pool: str) -> bool:
    """Whether the gang could be placed in the pool this moment, quotas aside."""
    return any(
        has_room_in(world, workload, request, cluster, pool) for cluster in clusters_for(world, workload, request, pool)
    )


def has_room_in(world: World, workload: Workload, request: Request, cluster: str, pool: str) -> bool:
    """The same of one cluster's part of the pool; of what runs, whether its next replica could be placed."""
    with taken_back(world):
        if workload.active:
            return place_next(world, world.workloads[workload.id])
        return place_gang(world, workload, request.roles, cluster, pool, Budget()) is not None
