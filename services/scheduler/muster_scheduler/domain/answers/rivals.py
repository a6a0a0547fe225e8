"""Who would take a place before a workload that waits for it: those ahead of it in its project, and others that fit.

Whose turn it is between projects changes with every start and end: of others, whoever fits counts as coming first.
Called by endings.py, under a mark of the journal, once a place has been given back. Each rival is placed as the cycle
would place it, so that a place which is large enough for all of them is nobody's loss.
Holds: bounded by `_CLASSES` and `_PLACED`; it writes into the books what the caller takes back.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nsmallest
from typing import Final

from muster_scheduler.domain.asked.workloads import Workload
from muster_scheduler.domain.books.buckets import Bucket
from muster_scheduler.domain.books.classes import ClassKey, Place
from muster_scheduler.domain.books.models import bar
from muster_scheduler.domain.books.world import World, owner_of
from muster_scheduler.domain.placement.place import Budget, amount_before, clusters_for, place_gang

_CLASSES: Final = 64  # that wait in the pool, those of the workload's own project first
_PLACED: Final = 64  # workloads


def who_comes_first(world: World, workload: Workload, cluster: str, pool: str) -> list[Workload]:
    """Those who would have taken places of this pool, in order, where nothing is left for the workload; else nobody."""
    rivals: list[Workload] = []
    full: set[ClassKey] = set()  # where one of a class finds no place, the others need not be tried
    for key, other in _before(world, workload, pool):
        if key in full or len(rivals) == _PLACED:
            continue
        if _place(world, other, cluster, pool):
            rivals.append(other)
        else:
            full.add(key)
    return [] if rivals and _place(world, workload, cluster, pool) else rivals


def _before(world: World, workload: Workload, pool: str) -> list[tuple[ClassKey, Workload]]:
    """Who waits for the pool and does not stand behind it: its own project's in their order, then the others'."""
    mine = workload.project
    firsts = ((world.waiting.first(each), each) for each in world.waiting.buckets.values() if pool in each.key.pools)
    own = _stands(workload)
    heads = [(b.key.project != mine, at, b) for at, b in firsts if at and (b.key.project != mine or at < own)]
    asking = [bucket for _, _, bucket in nsmallest(_CLASSES, heads, key=lambda head: head[:2])]
    found = [(bucket.key, other) for bucket in asking for other in _ahead_in(world, bucket, workload)]
    return sorted(found, key=lambda each: (each[1].project != mine, _stands(each[1])))


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
