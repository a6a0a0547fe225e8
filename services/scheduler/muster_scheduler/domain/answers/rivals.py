"""Who would take a place before a workload that waits for it: those ahead of it in its project, and others that could.

Whose turn it is between projects changes with every start and end: of others, whoever could take the place counts as
coming first. Each rival is tried alone, since who of them is first is not known, and the next takes the place where
one is gone; a place that is large enough for all of them is nobody's loss.
Called by endings.py, allowances.py and raising.py, once the books are as if what they tell had been done.
Holds: bounded by `_CLASSES`, `_MEMBERS`, `_TRIED` and `_WORK`; the state is as it was afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import nsmallest
from typing import Final

from muster_scheduler.domain.answers.attempts import attempts
from muster_scheduler.domain.answers.growers import grown_first
from muster_scheduler.domain.answers.trying import taken_back
from muster_scheduler.domain.answers.viewing import Viewer
from muster_scheduler.domain.asked.quotas import Amount, Level
from muster_scheduler.domain.asked.workloads import Request, Workload
from muster_scheduler.domain.books.buckets import Bucket
from muster_scheduler.domain.books.classes import Place
from muster_scheduler.domain.books.models import bar, beyond_limits
from muster_scheduler.domain.books.world import World, owner_of
from muster_scheduler.domain.placement.cluster_choice import clusters_for
from muster_scheduler.domain.placement.place import Budget, amount_before, place_gang

_CLASSES: Final = 64  # that wait in the pool, those of the workload's own project first
_MEMBERS: Final = 64  # who are named; of more it is said that there are more
_TRIED: Final = 8  # classes for which it is tried to make room; of any more it is taken for granted
_WORK: Final = 16_000  # replicas that are looked at to try it; each try looks at all that run in the pool


def taken_first(
    world: World, workload: Workload, pool: str, clusters: Sequence[str], viewer: Viewer, kept: Sequence[Workload] = ()
) -> str:
    """That others did not take the place first, where they would.

    clusters: where there is one for the workload. kept: for whom nodes are kept, so that they come first.
    """
    if workload.active:
        return first_in_words(grown_first(world, workload), viewer)
    found, makers = _who_could(world, workload, pool, clusters)
    if any(each.reservation for each in (*found, *makers)):  # whom these hold back comes next
        with taken_back(world):
            for at in [at for at in world.reserved if at[1] == pool]:
                world.journal.drop(world.reserved, at)
            found, makers = _who_could(world, workload, pool, clusters)
    if not (makers or kept) and any(_all_served(world, workload, found, pool, cluster) for cluster in clusters):
        return ""
    return first_in_words([*kept, *(each for each in [*found, *makers] if each not in kept)], viewer)


def own_first(world: World, workload: Workload, pool: str, viewer: Viewer) -> str:
    """The same of all who are ahead of it in its own project and whom no quota or limit bars from the pool."""
    if workload.active:
        return first_in_words(grown_first(world, workload, room=False), viewer)
    own = [bucket for bucket in _before(world, workload, pool) if bucket.key.project == workload.project]
    heads = [(bucket, _head(world, bucket)) for bucket in own]
    free = [b for b, head in heads if _is_free(world, head, pool) or _would_displace(world, head, pool)]
    return first_in_words(_in_order(world, workload, free), viewer)


def own_user_first(world: World, workload: Workload, pool: str, viewer: Viewer) -> str:
    """The same of all of its own user who are ahead of it there, whatever bars them: an end may give that back."""
    own = [bucket for bucket in _before(world, workload, pool) if bucket.key.project == workload.project]
    return first_in_words([w for w in _in_order(world, workload, own) if w.owner == workload.owner], viewer)


def first_in_words(rivals: list[Workload], viewer: Viewer) -> str:
    """That these did not take the place first; empty where there is nobody."""
    if len(rivals) > _MEMBERS:
        return ", and none of those who come before it took the place first"
    return f", and {viewer.names(rivals)} did not take the place first" if rivals else ""


def _who_could(
    world: World, workload: Workload, pool: str, clusters: Sequence[str]
) -> tuple[list[Workload], list[Workload]]:
    """Who waits for the pool, does not stand behind the workload and could have a place there if nobody else came.

    First those who fit, then those for whom others would move or leave.
    """
    found: list[Bucket] = []
    makers: list[Bucket] = []
    tries = _tries(world, pool)
    for bucket in _before(world, workload, pool):
        head = _head(world, bucket)
        if not _is_free(world, head, pool):
            makers += [bucket] if _would_displace(world, head, pool) else []
        elif any(_fits(world, head, pool, cluster) for cluster in clusters):
            found.append(bucket)
        elif not head.preempted_by:
            tries -= 1
            if tries < 0 or any(not each.lack for each in attempts(world, head, [pool])):
                makers.append(bucket)
    return _in_order(world, workload, found), _in_order(world, workload, makers)


def _tries(world: World, pool: str) -> int:
    """For how many classes it is tried to make room: the more runs there, the fewer, as each line tries anew."""
    there = (world.workloads[each] for at, members in world.placed.items() if at[1] == pool for each in members)
    return min(_TRIED, _WORK // max(1, sum(len(each.replicas) for each in there)))


def _before(world: World, workload: Workload, pool: str) -> list[Bucket]:
    """The classes of which some wait for the pool and do not stand behind it, its own project's first."""
    mine = workload.project
    firsts = ((world.waiting.first(each), each) for each in world.waiting.buckets.values() if pool in each.key.pools)
    own = _stands(workload)
    heads = [(b.key.project != mine, at, b) for at, b in firsts if at and (b.key.project != mine or at < own)]
    return [bucket for _, _, bucket in nsmallest(_CLASSES, heads, key=lambda head: head[:2])]


def _in_order(world: World, workload: Workload, buckets: list[Bucket]) -> list[Workload]:
    found = [other for bucket in buckets for other in _ahead_in(world, bucket, workload)]
    return sorted(found, key=lambda each: (each.project != workload.project, _stands(each)))


def _ahead_in(world: World, bucket: Bucket, workload: Workload) -> Iterator[Workload]:
    """The first of a class, without those of the workload's own project that stand behind it."""
    own = bucket.key.project == workload.project
    for other in map(world.workloads.__getitem__, world.waiting.members(bucket.key, _MEMBERS + 1)):
        if not own or _stands(other) < _stands(workload):
            yield other


def _head(world: World, bucket: Bucket) -> Workload:
    (first,) = world.waiting.members(bucket.key, 1)
    return world.workloads[first]


def _stands(workload: Workload) -> Place:
    priority = workload.request.priority if workload.request else 0
    return Place(-priority, workload.submitted, workload.id)


def _is_free(world: World, workload: Workload, pool: str) -> bool:
    """Whether neither a quota nor its own course keeps it from the pool."""
    request = workload.request
    if request is None or workload.not_before > world.now or workload.claim is not None:
        return False
    return bar(world, workload, amount_before(world, request, pool), pool) is None


def _would_displace(world: World, workload: Workload, pool: str) -> bool:
    """Whether it is over limits alone, and below these runs preemptible work that could give back as much."""
    request = workload.request
    if request is None or workload.not_before > world.now or workload.claim is not None or workload.preempted_by:
        return False
    excess = beyond_limits(world, workload, amount_before(world, request, pool), pool) or {}
    if request.preemptible and Level.DEPARTMENT not in excess and not _outranks(world, workload, request, pool):
        return False
    return bool(excess) and all(
        over <= held - bound
        for level, amount in excess.items()
        for over, held, bound in zip(amount, *_account(world, workload, pool, level), strict=True)
    )


def _outranks(world: World, workload: Workload, request: Request, pool: str) -> bool:
    """Whether work of its own project runs in the pool that ranks below it."""
    own = (members for (_, at, project), members in world.placed.items() if (at, project) == (pool, workload.project))
    running = (world.workloads[each].request for members in own for each in members)
    return any(each is not None and each.priority < request.priority for each in running)


def _account(world: World, workload: Workload, pool: str, level: Level) -> tuple[Amount, Amount]:
    """What its project or department holds in the pool, and how much of that nobody may take back."""
    department = world.queues.department_of(workload.project)
    if level is Level.PROJECT or department is None:
        account = world.queues.account(workload.project, pool)
    else:
        account = world.queues.department_account(department.name, pool)
    return account.held, account.bound


def _fits(world: World, workload: Workload, pool: str, cluster: str) -> bool:
    with taken_back(world):
        return _place(world, workload, pool, cluster)


def _all_served(world: World, workload: Workload, rivals: list[Workload], pool: str, cluster: str) -> bool:
    """Whether there is a place for it beside them: those of its own project come in their order, others in any.

    Who comes too late for a place then is no loss, if it is preemptible: it takes nothing of those ahead of it. What
    is not preemptible may have any preemptible work of its project leave.
    """
    if len(rivals) > _MEMBERS:
        return False
    in_order = all(each.project == workload.project for each in rivals)
    with taken_back(world):
        for each in rivals:
            waits = in_order and each.request is not None and each.request.preemptible
            if not _place(world, each, pool, cluster) and not waits:
                return False
        return _place(world, workload, pool, cluster)


def _place(world: World, workload: Workload, pool: str, cluster: str) -> bool:
    """Whether it found a place there; it has taken it then."""
    request = workload.request
    if request is None or cluster not in clusters_for(world, workload, request, pool):
        return False
    amount = amount_before(world, request, pool)
    if bar(world, workload, amount, pool) is not None:
        return False
    if place_gang(world, workload, request.roles, cluster, pool, Budget(2_000)) is None:
        return False
    world.queues.charge(owner_of(workload), pool, amount)
    for at in [at for at, head in world.reserved.items() if head == workload.id]:  # it is where it was to be
        world.journal.drop(world.reserved, at)
    return True
