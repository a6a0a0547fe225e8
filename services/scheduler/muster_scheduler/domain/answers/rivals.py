"""Who would take a place before a workload that waits for it: those ahead of it in its project, and others that fit.

Whose turn it is between projects changes with every start and end: of others, whoever fits counts as coming first.
Called by endings.py, under a mark of the journal, once a place has been given back. Each rival is placed as the cycle
would place it, so that a place which is large enough for all of them is nobody's loss.
Holds: bounded by `_CLASSES` and `_PLACED`; it writes into the books what the caller takes back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from muster_scheduler.domain.asked.workloads import Workload
from muster_scheduler.domain.books.classes import Place
from muster_scheduler.domain.books.models import bar
from muster_scheduler.domain.books.waiting import Bucket
from muster_scheduler.domain.books.world import World, owner_of
from muster_scheduler.domain.placement.place import Budget, amount_before, clusters_for, place_gang

_CLASSES: Final = 64  # that wait in the pool, those of the workload's own project first
_PLACED: Final = 64  # workloads


def who_comes_first(world: World, workload: Workload, cluster: str, pool: str) -> list[Workload]:
    """Those who would have taken places of this pool, in order, where nothing is left for the workload; else nobody."""
    rivals: list[Workload] = []
    for other in _before(world, workload, pool):
        if len(rivals) < _PLACED and _place(world, other, cluster, pool):
            rivals.append(other)
    return [] if rivals and _place(world, workload, cluster, pool) else rivals


def _before(world: World, workload: Workload, pool: str) -> list[Workload]:
    """Who waits for the pool and does not stand behind it: its own project's in their order, then the others'."""
    waiting = world.waiting
    asking = [b for b in waiting.buckets.values() if pool in b.key.pools and waiting.first(b) is not None]
    asking.sort(key=lambda bucket: (bucket.key.project != workload.project, waiting.first(bucket)))
    found = [other for bucket in asking[:_CLASSES] for other in _ahead_in(world, bucket, workload)]
    return sorted(found, key=lambda other: (other.project != workload.project, _stands(other)))


def _ahead_in(world: World, bucket: Bucket, workload: Workload) -> Iterator[Workload]:
    """The first of a class, without those of the workload's own project that stand behind it."""
    own = bucket.key.project == workload.project
    for other in map(world.workloads.__getitem__, world.waiting.members(bucket.key, _PLACED)):
        if not own or _stands(other) < _stands(workload):
            yield other


def _stands(workload: Workload) -> Place:
    priority = workload.request.priority if workload.request else 0
    return Place(-priority, workload.submitted, workload.id)


def _place(world: World, workload: Workload, cluster: str, pool: str) -> bool:
    """Whether it found a place there, quotas regarded; it has taken it then."""
    request = workload.request
    if request is None or cluster not in clusters_for(world, workload, request, pool):
        return False
    if workload.not_before > world.now or workload.claim is not None:
        return False
    amount = amount_before(world, request, pool)
    if bar(world, workload, amount, pool) is not None:
        return False
    if place_gang(world, workload, request.roles, cluster, pool, Budget(2_000)) is None:
        return False
    world.queues.charge(owner_of(workload), pool, amount)
    return True
