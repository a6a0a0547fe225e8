"""Trainings that run for months: faults count against their limit only if no long run lies between them."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from muster_kernel.lifecycle import Phase
from muster_kernel.reasons import ChangeReason, FailureClass
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.limits import FAULT_LIMIT, START_WINDOW, STEADY_AFTER
from muster_scheduler.domain.asked.workloads import SECOND, ReplicaState, Trials, Workload
from tests.support.fleets import Fleet, node, request, role, whole

_STEADY = STEADY_AFTER // SECOND
_PAUSE = 400  # longer than the longest pause between two starts
_DEAD = 1000  # until a node that died is given up, and more


def run(fleet: Fleet, seconds: int) -> None:
    """All replicas run for so long."""
    fleet.report(1, ReplicaState.READY)
    assert fleet.workload(1).phase is Phase.RUNNING
    fleet.wait(seconds)


def fault(fleet: Fleet, failure: FailureClass = FailureClass.INFRASTRUCTURE) -> None:
    """The fleet takes everything down; the workload starts again, if it may."""
    fleet.report(1, ReplicaState.FAILED, failure=failure)
    fleet.gone(1)
    fleet.wait(_PAUSE)


def test_faults_with_long_runs_between_them_never_end_a_training() -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1, request(backoff_limit=0))
    for _ in range(3 * FAULT_LIMIT):
        run(fleet, _STEADY)
        fault(fleet)
        assert (workload.phase, workload.faults) == (Phase.INITIALIZING, 1)


@pytest.mark.parametrize("seconds", [1, _DEAD, _STEADY - 1])
def test_faults_after_short_runs_end_a_training(seconds: int) -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1, request(backoff_limit=0))
    for number in range(FAULT_LIMIT):
        run(fleet, seconds)
        fault(fleet)
        assert (workload.phase, workload.faults) == (Phase.INITIALIZING, number + 1)
    run(fleet, seconds)
    fault(fleet)
    assert (workload.phase, workload.reason) == (Phase.FAILED, ChangeReason.INFRASTRUCTURE_LIMIT)


def failed_start(fleet: Fleet) -> None:
    """The start deadline passes; the workload starts again, if it may."""
    fleet.wait(START_WINDOW // SECOND + 1)
    fault(fleet, FailureClass.START)


def test_a_workload_that_never_ran_ends_with_the_first_start_that_takes_too_long() -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1, request(backoff_limit=0))
    failed_start(fleet)
    assert (workload.phase, workload.reason) == (Phase.FAILED, ChangeReason.START_FAILED)


def test_a_failed_start_of_a_workload_that_has_run_is_a_fault_of_the_fleet() -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1, request(backoff_limit=0))
    fleet.report(1, ReplicaState.READY, started=fleet.world.now)
    fleet.wait(_STEADY)
    fault(fleet)
    for number in range(2, FAULT_LIMIT + 1):
        failed_start(fleet)
        assert (workload.phase, workload.faults) == (Phase.INITIALIZING, number)
    failed_start(fleet)
    assert (workload.phase, workload.reason) == (Phase.FAILED, ChangeReason.INFRASTRUCTURE_LIMIT)


def test_faults_of_long_ago_do_not_lengthen_the_pause() -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1)
    for _ in range(4):
        fault(fleet)
    run(fleet, _STEADY)
    fleet.report(1, ReplicaState.FAILED, failure=FailureClass.INFRASTRUCTURE)
    assert workload.not_before - fleet.world.now == 10 * SECOND
    assert workload.message.startswith(f"restarting (fault 1 of {FAULT_LIMIT} of the fleet, in 10 s)")


@pytest.mark.parametrize(("seconds", "left"), [(_STEADY, 0), (60, 3)])
def test_a_long_run_that_is_suspended_leaves_earlier_faults_behind(seconds: int, left: int) -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1)
    for _ in range(3):
        fault(fleet)
    run(fleet, seconds)
    fleet.send(events.SuspendRequested("e1", workload.id))
    fleet.gone(1)
    assert (workload.phase, workload.faults) == (Phase.STOPPED, left)


def trials(fleet: Fleet, count: int) -> Workload:
    """A series that runs so many trials at once."""
    workload = fleet.submit(1, request(role(whole()))._replace(trials=Trials(100, count)))
    fleet.report(1, ReplicaState.READY)
    return workload


def lose_trials(fleet: Fleet, ranks: Iterable[int]) -> None:
    """A node takes these trials down, one after the other; those that may start again do so."""
    for rank in ranks:
        k = fleet.workload(1).replicas["worker", rank].holder.k
        fleet.send(fleet.status(1, ReplicaState.FAILED, rank=rank, failure=FailureClass.INFRASTRUCTURE))
        fleet.send(fleet.status(1, None, rank=rank, failure=FailureClass.INFRASTRUCTURE, gone=True, k=k))
        fleet.wait(1)
    fleet.wait(_PAUSE)


def test_faults_of_many_trials_never_end_their_series() -> None:
    fleet = Fleet(node("n1", 2 * FAULT_LIMIT))
    workload = trials(fleet, 2 * FAULT_LIMIT)
    for _ in range(2):
        lose_trials(fleet, range(2 * FAULT_LIMIT))
    assert (workload.phase, len(workload.replicas)) == (Phase.RUNNING, 2 * FAULT_LIMIT)


def test_a_trial_that_meets_an_eleventh_fault_ends_its_series() -> None:
    fleet = Fleet(node("n1", 2))
    workload = trials(fleet, 2)
    for number in range(FAULT_LIMIT):
        lose_trials(fleet, [0])
        assert (workload.phase, workload.trial_faults) == (Phase.RUNNING, ((0, number + 1),))
    lose_trials(fleet, [0])
    assert (workload.phase, workload.reason) == (Phase.FAILED, ChangeReason.INFRASTRUCTURE_LIMIT)


def test_a_trial_that_is_done_leaves_its_faults_behind() -> None:
    fleet = Fleet(node("n1", 2))
    workload = trials(fleet, 2)
    lose_trials(fleet, [0, 1])
    fleet.send(fleet.status(1, ReplicaState.SUCCEEDED, rank=0))
    fleet.send(fleet.status(1, None, rank=0, gone=True))
    assert workload.trial_faults == ((1, 1),)
