"""Who else would take what a workload needs that runs and would grow: others that grow, and who waits.

Services and series of trials take room before anybody who waits, in the order of their ids; elastic gangs come after
everybody, the one with the least surplus first. Each rival is tried alone, as rivals.py does it.
Called by rivals.py, once the books are as if what is told had been done.
Holds: the state is as it was afterwards; at most `_LOOKED_AT` of a kind are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nsmallest
from itertools import islice
from typing import Final

from muster_scheduler.domain.answers.next_replica import asking_for_next, is_elastic, place_next, size_of
from muster_scheduler.domain.answers.trying import taken_back
from muster_scheduler.domain.asked.workloads import Workload
from muster_scheduler.domain.books.models import bar
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.placement.place import amount_before

_LOOKED_AT: Final = 64


def grown_first(world: World, workload: Workload, *, room: bool = True) -> list[Workload]:
    """Those that no quota bars from one more replica, or from a start, in that pool, and who come before it.

    room: only those of others that grow for which there is room as well.
    """
    workload = world.workloads[workload.id]  # what is asked for may be its next replica alone
    others = list(islice(_growing_before(world, workload), _LOOKED_AT))
    growing = [other for other in others if _would_grow(world, other, room=room)]
    return [*growing, *(_waiting(world, workload) if is_elastic(workload) else ())]


def _growing_before(world: World, workload: Workload) -> Iterator[Workload]:
    """Of those that grow in its pool, who comes before it."""
    own = _turn(workload)
    for each in sorted({*world.hungry, *world.elastic}):
        other = world.workloads[each]
        if other.pool == workload.pool and _turn(other) < own:
            yield other


def _turn(workload: Workload) -> tuple[int, int, int, str]:
    if not is_elastic(workload):
        return 0, 0, 0, workload.id
    return 1, len(workload.surplus()), workload.submitted, workload.id


def _would_grow(world: World, other: Workload, *, room: bool) -> bool:
    size, request = size_of(other, world.now), other.request
    if size is None or size.next is None or request is None or size.next.not_before > world.now:
        return False
    asked = asking_for_next(other, request, size.next)
    if asked.request is None or bar(world, asked, amount_before(world, asked.request, other.pool), other.pool):
        return False
    with taken_back(world):
        return not room or place_next(world, other)


def _waiting(world: World, workload: Workload) -> Iterator[Workload]:
    """Who waits for the pool and is barred from it by no quota.

    In its own department whatever bars them: what the gang can do without may be what they lack.
    """
    pool, department = workload.pool, world.queues.department_name(workload.project)
    there = (each for each in world.waiting.buckets.values() if pool in each.key.pools)
    heads = ((at, each.key) for each in there if (at := world.waiting.first(each)) is not None)
    for _, key in nsmallest(_LOOKED_AT, heads):
        members = [world.workloads[each] for each in world.waiting.members(key, _LOOKED_AT + 1)]
        project, request = key.project, members[0].request
        own = project == workload.project or bool(department and department == world.queues.department_name(project))
        if request is not None and (own or not bar(world, members[0], amount_before(world, request, pool), pool)):
            yield from members
