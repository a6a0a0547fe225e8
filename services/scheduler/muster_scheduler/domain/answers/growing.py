"""Why what runs has no more replicas: trials below their parallelism, elastic gangs below their most, services in need.

Called by explain.py, when somebody asks, of what does not wait. The question is the next replica, where its workload
runs: what stands against it is found as for a workload that waits, beside what holds elastic gangs back alone.
Holds: the state is as it was afterwards; what is said to help has been tried and taken back.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from muster_kernel.reasons import FOR_ROOM, IN_VAIN, WaitingReason
from muster_kernel.sentences import Reason
from muster_scheduler.domain.answers.allowances import allowances
from muster_scheduler.domain.answers.closed import limited, opened
from muster_scheduler.domain.answers.endings import who_would_have_to_end
from muster_scheduler.domain.answers.next_replica import (
    NextReplica,
    Size,
    asking_for_next,
    is_elastic,
    place_next,
    size_of,
)
from muster_scheduler.domain.answers.permitting import allowing
from muster_scheduler.domain.answers.trying import asking, barred, has_room, taken_back
from muster_scheduler.domain.answers.unhealthy import healthy_again
from muster_scheduler.domain.answers.viewing import Viewer
from muster_scheduler.domain.asked.terms import HOST_LABEL, Wish
from muster_scheduler.domain.asked.workloads import SECOND, ReplicaState, Request, Workload
from muster_scheduler.domain.books.times import grows_again_at
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.life import elastic
from muster_scheduler.domain.placement.cluster_choice import ready
from muster_scheduler.domain.placement.gang import wish_of
from muster_scheduler.domain.placement.reasoning import why_not

_OF_THE_MOMENT: Final = FOR_ROOM | {WaitingReason.NOT_EVALUATED}


class HeldBack(StrEnum):
    """What keeps a workload that runs from one more replica and keeps nobody from a start."""

    BACKOFF = "Backoff"  # of this replica alone
    FAULTS = "FaultLimit"
    NOT_WHOLE = "NotWhole"
    OTHERS_WAIT = "OthersWait"
    CALM = "GrowsLater"
    UPDATE = "Update"


class Growth(NamedTuple):
    """has: its replicas, of the `wanted` that it would have. code, text: why the next one is not there.

    asked: it, as if it asked for that one alone. helps: what would give it one more.
    before: replicas that a service which is updated still has of the revision before; `has` does not count them.
    """

    has: int
    wanted: int
    code: str
    text: str
    asked: Workload
    helps: tuple[str, ...] = ()
    before: int = 0


def growth_of(world: World, workload: Workload, viewer: Viewer) -> Growth | None:
    """How far what runs is from all that it would have; None where it has all, or is no such workload."""
    size, request = size_of(workload, world.now), workload.request
    if size is None or size.next is None or request is None:
        return None
    asked = asking_for_next(workload, request, size.next)
    alone = asked.request or request
    before = len(workload.rolling)
    held = _failed(world, workload, size.next)
    if held is not None:
        return Growth(size.has, size.wanted, *held, asked, before=before)
    reason = _reason(world, asked, alone, size)
    held = _updated(world, workload, reason) or _held_for_now(world, workload, reason)
    if held is not None:
        return Growth(size.has, size.wanted, *held, asked, before=before)
    helps = () if _pressed(world, workload) else _helps(world, asked, alone, viewer, reason)
    text = reason.sentence(department=viewer.sees_department(world.queues.department_name(workload.project)))
    return Growth(size.has, size.wanted, reason.code.value, text, asked, helps, before)


def _failed(world: World, workload: Workload, following: NextReplica) -> tuple[str, str] | None:
    """That earlier ends of its replicas keep the next one away."""
    left = following.not_before - world.now
    if left > 0:
        return HeldBack.BACKOFF, f"the pause after its last end or refusal, {_seconds(left)} s left"
    left = grows_again_at(workload) - world.now
    if left > 0:
        faults = f"{workload.faults} faults of the fleet in a row"
        return HeldBack.FAULTS, f"{faults}: it grows after an hour without one, {_seconds(left)} s left"
    return None


def _reason(world: World, asked: Workload, alone: Request, size: Size) -> Reason:
    """What stands against the next replica: what nothing helps, then quotas and limits, then room."""
    lacking = _lacking(world, asked, alone, size)
    if lacking.code in IN_VAIN:
        return lacking
    bar = barred(world, asked, alone, asked.pool)
    return bar.reason if bar is not None else lacking


def _lacking(world: World, asked: Workload, alone: Request, size: Size) -> Reason:
    """Why there is no room for it; NOT_EVALUATED where there is."""
    if has_room(world, asked, alone, asked.pool):
        return Reason(WaitingReason.NOT_EVALUATED)
    wish = wish_of(world.workloads[asked.id].request)
    if not wish.anywhere and _has_room_anywhere(world, asked, alone):
        if wish.strictly_apart and wish.apart is not None:
            return Reason(WaitingReason.APART, (size.has + 1, size.has, int(wish.apart.key == HOST_LABEL)))
        return Reason(WaitingReason.TOPOLOGY, (1, 0, 0))
    return why_not(world, asked)


def _has_room_anywhere(world: World, asked: Workload, alone: Request) -> bool:
    """Whether it would have room if it could stand anywhere in its pool."""
    loose = asking(asked, alone._replace(terms=alone.terms._replace(topology=Wish(), together=None)))
    with taken_back(world):
        return place_next(world, loose)


def _updated(world: World, workload: Workload, reason: Reason) -> tuple[str, str] | None:
    """That its own update makes the room, or the quota, that its next replica lacks: nobody else has to end."""
    if not workload.rolling or reason.code in IN_VAIN or not ready(world, world.clusters.get(workload.cluster)):
        return None
    return HeldBack.UPDATE, "its update: where a new replica finds no place, one of the revision before leaves for it"


def _held_for_now(world: World, workload: Workload, reason: Reason) -> tuple[str, str] | None:
    """What keeps an elastic gang from growing beside room and quota."""
    if not is_elastic(workload) or reason.code not in _OF_THE_MOMENT:
        return None
    others, pool = _pressed(world, workload), workload.pool
    if others:
        who = "1 workload that waits" if others == 1 else f"{others} workloads that wait"
        return HeldBack.OTHERS_WAIT, f"{who} for room in node pool {pool}: it grows only while none waits"
    if not elastic.undisturbed(workload):
        running = sum(1 for each in workload.replicas.values() if each.state is ReplicaState.READY and not each.gone)
        return (
            HeldBack.NOT_WHOLE,
            f"its own replicas: {running} of {len(workload.replicas)} run, and it grows once all do",
        )
    left = (workload.calm_since or world.now) + world.limits.grow_after - world.now
    if left <= 0:
        return None
    calm = f"{_seconds(world.limits.grow_after)} s of calm: it grows once nobody has waited for room for so long"
    return HeldBack.CALM, f"{calm}, {_seconds(left)} s left"


def _pressed(world: World, workload: Workload) -> int:
    """How many come before whatever an elastic gang could do without; before others nobody does."""
    return elastic.pressing(world, workload.pool) if is_elastic(workload) else 0


def _seconds(micros: int) -> int:
    return -(-micros // SECOND)


def _helps(world: World, asked: Workload, alone: Request, viewer: Viewer, reason: Reason) -> tuple[str, ...]:
    """What would give it one more replica; nothing where only another request would."""
    pool = asked.pool
    if reason.code is WaitingReason.WRONG_NODE_TYPE:
        return tuple(allowing(world, asked, alone, viewer))
    if reason.code not in FOR_ROOM:
        told = allowances(world, asked, alone, pool, viewer) if reason.code not in IN_VAIN else ""
        return (told,) if told else ()
    found = who_would_have_to_end(world, asked, alone, pool, viewer)
    found += opened(world, asked, alone, pool, viewer)
    found += limited(world, asked, alone, pool, viewer)
    anywhere = wish_of(world.workloads[asked.id].request).anywhere
    found += healthy_again(world, asked, alone, pool) if anywhere else []
    return tuple(found)
