"""Nodes that are kept for the first blocked workload of a pool, and from whom.

Called for every eligibility that placement and making room ask for (models.py), and by whatever ends a reservation.
Who is chosen and which nodes it gets is decided in turning/reservation.py. Reserved nodes are not usage: nothing is
charged for them, and the workload for which they are kept may start anywhere.
Holds: at most one reservation a (cluster, pool); what runs keeps its place and replaces what it loses; who may use
reserved nodes depends on the class of a workload, not on the workload, so that a blocked class stays one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from muster_kernel.lifecycle import WAITING
from muster_kernel.reasons import WaitingReason
from muster_kernel.sentences import Reason
from muster_scheduler.domain.asked.courses import Reservation
from muster_scheduler.domain.asked.quotas import NOTHING, Amount, Quota
from muster_scheduler.domain.asked.workloads import Request, Workload
from muster_scheduler.domain.books.buckets import Help
from muster_scheduler.domain.books.classes import ClassKey, alike
from muster_scheduler.domain.books.queues import Department
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.books.world import amount_of as held_of

Nodes = frozenset[tuple[str, str]]
_NONE: Final[Nodes] = frozenset()


def kept_from(world: World, workload: Workload, units: int, runs: int | None) -> Nodes:
    """The nodes that a waiting workload may not use because they are kept for another.

    units: what it asks for, in 1/7,000 GPU. runs: microseconds after which nothing of it is left; None: not known.
    """
    request = workload.request
    if not (world.reserved and world.limits.reserves) or request is None or workload.phase not in WAITING:
        return _NONE
    found: set[tuple[str, str]] = set()
    for (cluster, pool), other in world.reserved.items():
        kept = world.workloads[other].reservation
        if kept is None or pool not in request.pools or other == workload.id:
            continue
        if not _passes(world, workload, request, kept, other, units, runs):
            found.update((cluster, name) for name in kept.nodes)
    return frozenset(found)


def _passes(
    world: World, workload: Workload, request: Request, kept: Reservation, other: str, units: int, runs: int | None
) -> bool:
    """Whether a workload may use what is kept for another: it goes before that one, or does not delay it."""
    ends = runs is not None and world.now + runs <= kept.until
    if ends or _gives_way(world, workload, request, kept, other):
        return True
    head = world.workloads[other]
    if head.project == workload.project and alike(workload, head, by_user=head.project in world.waiting.limited):
        return True  # whoever of a class is first goes first: also one who came back to the queue, before the head
    if head.project == workload.project and head.request is not None and request.priority > head.request.priority:
        return True
    return kept.beyond and within(world, workload.project, kept.pool, amount_of(request, units))


def _gives_way(world: World, workload: Workload, request: Request, kept: Reservation, other: str) -> bool:
    """Whether the other may take this one's place as soon as it needs it, whatever anybody else holds by then."""
    head = world.workloads[other]
    asked = head.request
    if not request.preemptible or asked is None or head.project != workload.project or head.preempted_by:
        return False
    if asked.preemptible and asked.priority <= request.priority:
        return False
    settled = world.now + world.limits.minimum_run
    return not world.limits.minimum_run or settled <= kept.until


def within(world: World, project: str, pool: str, more: Amount) -> bool:
    """Whether the queues of a project would hold no more of a pool than they deserve, with so much more.

    What elastic gangs hold beyond their need is left out: they give it up for whoever deserves it.
    """
    books = world.queues
    department = books.department_of(project)
    held = books.account(project, pool).held
    if not _deserves(books.quota(project, pool), held, more):
        spare = _spare(world, pool, {project})
        if spare == NOTHING or not _deserves(books.quota(project, pool), held.plus(spare, -1), more):
            return False
    if department is None or pool not in department.quotas:
        return True
    held, over = books.department_account(department.name, pool).held, department.quotas[pool]
    return _deserves(over, held, more) or _deserves(over, held.plus(_spare_below(world, department, pool), -1), more)


def _spare_below(world: World, department: Department, pool: str) -> Amount:
    return _spare(world, pool, {p.name for p in world.queues.projects.values() if p.department == department.name})


def _spare(world: World, pool: str, projects: Collection[str]) -> Amount:
    """What elastic gangs of these projects hold in a pool beyond what they need."""
    gangs = (world.workloads[each] for each in world.elastic)
    here = (gang for gang in gangs if gang.pool == pool and gang.project in projects)
    return held_of(each.grant for gang in here for each in gang.surplus() if each.accounted)


def _deserves(quota: Quota, held: Amount, more: Amount) -> bool:
    lines = zip(quota.lines, held, more, strict=True)
    return all(not asks or line.deserved is None or has + asks <= line.deserved for line, has, asks in lines)


def amount_of(request: Request, units: int) -> Amount:
    """What a request asks for. units: its GPUs, in 1/7,000."""
    roles = request.roles
    cpu = sum(role.size * role.shape.cpu for role in roles)
    return Amount(units, cpu, sum(role.size * role.shape.memory for role in roles))


def keep(world: World, workload: Workload, kept: Reservation) -> None:
    """Keeps nodes for a workload."""
    before = workload.reservation
    reason = world.waiting.reason(workload.id)
    world.set(workload, reservation=kept)
    world.journal.put(world.reserved, (kept.cluster, kept.pool), workload.id)
    if before is not None and before != kept:
        _open(world, before)
    elif reason is not None and reason.code is WaitingReason.RESERVED:
        _open(world, kept)  # they were another's so far
    world.waiting.wake_where(kept.pool, _counts_on_others)


def _counts_on_others(_: ClassKey, reason: Reason) -> Help:
    """Who waits for others to leave may have to look elsewhere: what they leave is kept for another now."""
    return Help.ALL if reason.code is WaitingReason.CLAIM else Help.NONE


def let_go(world: World, workload: Workload) -> None:
    """Nothing is kept for the workload any more."""
    kept = workload.reservation
    if kept is None:
        return
    world.set(workload, reservation=None)
    world.journal.drop(world.reserved, (kept.cluster, kept.pool))
    world.crowded[kept.pool] = None
    _open(world, kept)


def _open(world: World, kept: Reservation) -> None:
    """Whoever could use these nodes, or make room on them, is tried again, as if they had been given back."""
    for name in kept.nodes:
        world.free("", kept.cluster, kept.pool, (kept.cluster, name))
