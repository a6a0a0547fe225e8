"""Every cell of the lifecycle's table, and what remembered wishes do."""

from __future__ import annotations

import itertools

import pytest

from muster_kernel.lifecycle import (
    ACTIVE,
    FINAL,
    IGNORED,
    REFUSED,
    REQUESTS,
    TABLE,
    DesiredPhase,
    LifecycleEvent,
    Moved,
    Phase,
    Verdict,
    step,
)

P = Phase
E = LifecycleEvent

# The table once more, written by hand from the contract: row by row what is neither ignored nor refused nor a stay.
MOVES = {
    P.CREATING: {E.ADMITTED: P.PENDING, E.REFUSED: P.FAILED, E.DELETE: P.DELETING},
    P.PENDING: {E.PLACED: P.INITIALIZING, E.SUSPEND: P.STOPPED, E.DELETE: P.DELETING},
    P.RESUMING: {E.PLACED: P.INITIALIZING, E.SUSPEND: P.STOPPED, E.DELETE: P.DELETING},
    P.INITIALIZING: {
        E.ASSIGNMENT_REFUSED: P.TERMINATING,
        E.ALL_READY: P.RUNNING,
        E.SOME_READY: P.DEGRADED,
        E.ALL_SUCCEEDED: P.COMPLETED,
        E.PREEMPTED: P.TERMINATING,
        E.GANG_RESTART: P.TERMINATING,
        E.BUDGET_SPENT: P.FAILED,
        E.LIMIT_REACHED: P.STOPPING,
        E.CLUSTER_SILENT: P.UNKNOWN,
        E.SUSPEND: P.STOPPING,
        E.DELETE: P.DELETING,
    },
    P.RUNNING: {
        E.SOME_LOST: P.DEGRADED,
        E.REVISION_STARTED: P.UPDATING,
        E.ALL_SUCCEEDED: P.COMPLETED,
        E.PREEMPTED: P.TERMINATING,
        E.GANG_RESTART: P.TERMINATING,
        E.BUDGET_SPENT: P.FAILED,
        E.LIMIT_REACHED: P.STOPPING,
        E.CLUSTER_SILENT: P.UNKNOWN,
        E.SUSPEND: P.STOPPING,
        E.DELETE: P.DELETING,
    },
    P.DEGRADED: {
        E.ALL_READY: P.RUNNING,
        E.REVISION_STARTED: P.UPDATING,
        E.ALL_SUCCEEDED: P.COMPLETED,
        E.PREEMPTED: P.TERMINATING,
        E.GANG_RESTART: P.TERMINATING,
        E.BUDGET_SPENT: P.FAILED,
        E.LIMIT_REACHED: P.STOPPING,
        E.CLUSTER_SILENT: P.UNKNOWN,
        E.SUSPEND: P.STOPPING,
        E.DELETE: P.DELETING,
    },
    P.UPDATING: {
        E.ALL_READY: P.RUNNING,
        E.ALL_SUCCEEDED: P.COMPLETED,
        E.PREEMPTED: P.TERMINATING,
        E.GANG_RESTART: P.TERMINATING,
        E.BUDGET_SPENT: P.FAILED,
        E.LIMIT_REACHED: P.STOPPING,
        E.CLUSTER_SILENT: P.UNKNOWN,
        E.SUSPEND: P.STOPPING,
        E.DELETE: P.DELETING,
    },
    P.TERMINATING: {
        E.ALL_GONE: P.PENDING,
        E.ALL_GONE_SAME_DEVICES: P.INITIALIZING,
        E.ALL_GONE_FOR_GOOD: P.FAILED,
        E.GIVEN_UP: P.PENDING,
        E.GIVEN_UP_FOR_GOOD: P.FAILED,
        E.SUSPEND: P.STOPPING,
        E.DELETE: P.DELETING,
    },
    P.STOPPING: {
        E.ALL_GONE: P.STOPPED,
        E.GIVEN_UP: P.STOPPED,
        E.GIVEN_UP_FOR_GOOD: P.STOPPED,
        E.ALL_SUCCEEDED: P.COMPLETED,
        E.DELETE: P.DELETING,
    },
    P.STOPPED: {E.RESUME: P.RESUMING, E.DELETE: P.DELETING},
    P.UNKNOWN: {
        E.ALL_READY: P.RUNNING,
        E.SOME_READY: P.DEGRADED,
        E.SOME_LOST: P.DEGRADED,
        E.NONE_READY: P.INITIALIZING,
        E.ALL_SUCCEEDED: P.COMPLETED,
        E.ASSIGNMENT_REFUSED: P.TERMINATING,
        E.GANG_RESTART: P.TERMINATING,
        E.BUDGET_SPENT: P.FAILED,
        E.GIVEN_UP: P.PENDING,
        E.GIVEN_UP_FOR_GOOD: P.FAILED,
    },
    P.COMPLETED: {E.AUTO_DELETE: P.DELETING, E.DELETE: P.DELETING},
    P.FAILED: {E.AUTO_DELETE: P.DELETING, E.DELETE: P.DELETING},
    P.DELETING: {E.ALL_GONE: P.DELETED, E.GIVEN_UP: P.DELETED, E.GIVEN_UP_FOR_GOOD: P.DELETED},
    P.DELETED: {},
}
REFUSING = {P.COMPLETED, P.FAILED, P.DELETING, P.DELETED}


def expected(phase: Phase, event: LifecycleEvent) -> Phase | Verdict:
    if event in MOVES[phase]:
        return MOVES[phase][event]
    if event not in REQUESTS:
        return IGNORED
    if event is E.DELETE:
        return phase
    return REFUSED if phase in REFUSING else phase


@pytest.mark.parametrize(("phase", "event"), list(itertools.product(Phase, LifecycleEvent)))
def test_every_cell(phase: Phase, event: LifecycleEvent) -> None:
    assert TABLE[phase, event] == expected(phase, event)


def test_the_table_is_total() -> None:
    assert set(TABLE) == set(itertools.product(Phase, LifecycleEvent))


@pytest.mark.parametrize("event", [e for e in LifecycleEvent if e not in {E.DELETE, E.AUTO_DELETE}])
@pytest.mark.parametrize("phase", sorted(FINAL))
def test_nothing_reopens_a_final_phase(phase: Phase, event: LifecycleEvent) -> None:
    assert isinstance(step(phase, event), Verdict)


@pytest.mark.parametrize("phase", sorted(ACTIVE))
def test_active_phases_take_every_ending(phase: Phase) -> None:
    assert step(phase, E.SUSPEND) == Moved((P.STOPPING,), DesiredPhase.STOPPED)
    assert step(phase, E.CLUSTER_SILENT) == Moved((P.UNKNOWN,), DesiredPhase.RUNNING)


def test_a_suspension_before_admission_is_remembered() -> None:
    asked = step(P.CREATING, E.SUSPEND)
    assert asked == Moved((), DesiredPhase.STOPPED)
    assert step(P.CREATING, E.ADMITTED, DesiredPhase.STOPPED) == Moved((P.PENDING, P.STOPPED), DesiredPhase.STOPPED)


def test_a_resume_while_stopping_is_remembered() -> None:
    assert step(P.STOPPING, E.RESUME, DesiredPhase.STOPPED) == Moved((), DesiredPhase.RUNNING)
    assert step(P.STOPPING, E.ALL_GONE, DesiredPhase.RUNNING) == Moved((P.STOPPED, P.RESUMING), DesiredPhase.RUNNING)


def test_a_silent_cluster_remembers_suspend_and_delete() -> None:
    assert step(P.UNKNOWN, E.SUSPEND) == Moved((), DesiredPhase.STOPPED)
    assert step(P.UNKNOWN, E.DELETE) == Moved((), DesiredPhase.DELETED)
    assert step(P.UNKNOWN, E.ALL_READY, DesiredPhase.STOPPED) == Moved((P.RUNNING, P.STOPPING), DesiredPhase.STOPPED)
    assert step(P.UNKNOWN, E.ALL_READY, DesiredPhase.DELETED) == Moved((P.RUNNING, P.DELETING), DesiredPhase.DELETED)
    assert step(P.UNKNOWN, E.RESUME, DesiredPhase.DELETED) == Moved((), DesiredPhase.DELETED)


def test_requests_may_be_repeated() -> None:
    assert step(P.STOPPED, E.SUSPEND, DesiredPhase.STOPPED) == Moved((), DesiredPhase.STOPPED)
    assert step(P.RUNNING, E.RESUME) == Moved((), DesiredPhase.RUNNING)
    assert step(P.DELETED, E.DELETE, DesiredPhase.DELETED) == Moved((), DesiredPhase.DELETED)
    assert step(P.COMPLETED, E.SUSPEND) is REFUSED


@pytest.mark.parametrize("desired", list(DesiredPhase))
@pytest.mark.parametrize(("phase", "event"), list(itertools.product(Phase, LifecycleEvent)))
def test_steps_end(phase: Phase, event: LifecycleEvent, desired: DesiredPhase) -> None:
    taken = step(phase, event, desired)
    if isinstance(taken, Moved):
        assert len(taken.path) <= 2
        assert len(set(taken.path)) == len(taken.path)
