"""What people read of a replica that ended, and of a workload in which one rests before it starts again.

Called by reports (gangs), trials and services. Gangs change their phase when they rest; services and trials go on with
the others, or with none at all, so what is told of them changes within the phase.
Holds: what is told is part of the workload's course, so a rebuild tells the same; a failure of the classes `FLEETS`
is a fault of the fleet or of Muster itself, and is never taken from the budget that the user gave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from muster_kernel.lifecycle import ACTIVE, LifecycleEvent, Phase
from muster_kernel.reasons import ChangeReason, FailureClass
from muster_scheduler.domain.asked.limits import STEADY_AFTER
from muster_scheduler.domain.asked.workloads import SECOND, Replica, ReplicaState, Workload
from muster_scheduler.domain.books.course import advance
from muster_scheduler.domain.books.world import World

LONGEST: Final = 1024
FLEETS: Final = frozenset({FailureClass.INFRASTRUCTURE, FailureClass.OURS, FailureClass.NONE})
_COMING: Final = frozenset({ReplicaState.ASSIGNED, ReplicaState.CREATED, ReplicaState.STARTING})


def how_it_ended(replica: Replica) -> str:
    """The replica, its exit code and class of failure, and what its agent said beside them."""
    who, news = f"{replica.holder.role}-{replica.holder.rank}", replica.news
    ended = f"exited with {news.exit_code}" if news.exit_code is not None else "failed"
    kind = f" ({news.failure.value})" if news.failure is not FailureClass.NONE else ""
    said = f": {news.message}" if news.message else ""
    return f"{who} {ended}{kind}{said}"[:LONGEST]


def ran_for(replica: Replica, now: int) -> int:
    """How long its command has run, up to its end, in microseconds; 0 where it never started."""
    return (replica.news.finished or now) - replica.news.started if replica.news.started else 0


def faults_in_a_row(before: int, lasted: int) -> int:
    """Return the number of faults of the fleet in a row, with the one that has just ended a run.

    A run of STEADY_AFTER begins a new row: a large training meets a fault every few hours, for months. before: those
    counted so far. lasted: how long the run held its place, in microseconds.
    """
    return 1 if lasted >= STEADY_AFTER else before + 1


def restarting(which: str, pause: int, text: str) -> str:
    """That a workload starts again: after which failure, in how many microseconds, and how the last start ended."""
    return f"restarting ({which}, in {pause // SECOND} s): {text}"[:LONGEST]


def tell_pause(world: World, workload: Workload, replica: Replica, who: str, pause: int) -> None:
    """Says that the replica, known to people as `who`, starts again after a pause in microseconds."""
    if workload.phase not in ACTIVE:
        return
    after = f" after a pause of {pause // SECOND} s" if pause else ""
    text = f"{who} starts again{after}: {how_it_ended(replica)}"
    world.set(workload, reason=ChangeReason.RESTART, message=text[:LONGEST])


def pause_is_so(workload: Workload, replaced: Iterable[tuple[str, int]], who: Callable[[str, int], str]) -> bool:
    """Whether a pause is told of a replica that still rests, or starts: one that runs or is silent does neither.

    replaced: role and rank of those that failed and are wanted; who: what people were told that one of them is.
    """
    if workload.reason is not ChangeReason.RESTART:
        return False
    for role, rank in replaced:
        again = workload.replicas.get((role, rank))
        if (again is None or again.state in _COMING) and workload.message.startswith(f"{who(role, rank)} "):
            return True
    return False


def tell_ready(world: World, workload: Workload, message: str = "") -> None:
    """It runs as it should; one that runs already no longer speaks of a pause, or of another size."""
    reason = ChangeReason.ALL_READY
    if advance(world, workload, LifecycleEvent.ALL_READY, reason, message) is None:
        return
    if workload.phase is Phase.RUNNING and (workload.reason, workload.message) != (reason, message):
        world.set(workload, reason=reason, message=message)
