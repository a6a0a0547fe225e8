"""Trainings that run for months: what counts against a limit is what happened in a row, not what happened long ago."""

from __future__ import annotations

import pytest

from muster_kernel.lifecycle import Phase
from muster_kernel.reasons import ChangeReason, FailureClass
from muster_scheduler.domain.asked.limits import FAULT_LIMIT, HEALTHY_AFTER, START_WINDOW
from muster_scheduler.domain.asked.workloads import SECOND, ReplicaState
from tests.support.fleets import Fleet, node, request

_HEALTHY = HEALTHY_AFTER // SECOND
_PAUSE = 400  # longer than the longest pause between two starts


def run(fleet: Fleet, seconds: int) -> None:
    """All replicas run for so long."""
    workload, now = fleet.workload(1), fleet.world.now
    for role, rank in sorted(workload.replicas):
        event = fleet.status(1, ReplicaState.READY, rank=rank, role_name=role)
        fleet.send(event._replace(status=event.status._replace(started=now)))
    assert workload.phase is Phase.RUNNING
    fleet.wait(seconds)


def fault(fleet: Fleet) -> None:
    """The node takes everything down; the workload starts again, if it may."""
    fleet.report(1, ReplicaState.FAILED, failure=FailureClass.INFRASTRUCTURE)
    fleet.gone(1)
    fleet.wait(_PAUSE)


def test_faults_with_long_runs_between_them_never_end_a_training() -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1, request(backoff_limit=0))
    for _ in range(3 * FAULT_LIMIT):
        run(fleet, _HEALTHY)
        fault(fleet)
        assert (workload.phase, workload.faults) == (Phase.INITIALIZING, 1)


def test_faults_after_short_runs_end_a_training() -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1, request(backoff_limit=0))
    for number in range(FAULT_LIMIT):
        run(fleet, _HEALTHY - 1)
        fault(fleet)
        assert (workload.phase, workload.faults) == (Phase.INITIALIZING, number + 1)
    run(fleet, _HEALTHY - 1)
    fault(fleet)
    assert (workload.phase, workload.reason) == (Phase.FAILED, ChangeReason.INFRASTRUCTURE_LIMIT)


def test_faults_of_long_ago_do_not_lengthen_the_pause() -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1)
    for _ in range(4):
        fault(fleet)
    run(fleet, _HEALTHY)
    fleet.report(1, ReplicaState.FAILED, failure=FailureClass.INFRASTRUCTURE)
    assert workload.not_before - fleet.world.now == 10 * SECOND
    assert workload.message.startswith(f"restarting (fault 1 of {FAULT_LIMIT} of the fleet, in 10 s)")


@pytest.mark.parametrize("seconds", [1, 30 * 24 * 3600])
def test_a_start_that_fails_after_a_run_is_tried_again(seconds: int) -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1)
    run(fleet, seconds)
    fault(fleet)
    fleet.wait(START_WINDOW // SECOND - _PAUSE)
    fleet.report(1, ReplicaState.FAILED, failure=FailureClass.START)
    fleet.gone(1)
    fleet.wait(_PAUSE)
    assert workload.phase is Phase.INITIALIZING, workload.message
    run(fleet, 1)


def test_starts_that_fail_for_long_after_a_run_end_a_training() -> None:
    fleet = Fleet(node("n1"))
    workload = fleet.submit(1)
    run(fleet, 30 * 24 * 3600)
    fault(fleet)
    for _ in range(2):
        fleet.report(1, ReplicaState.FAILED, failure=FailureClass.START)
        fleet.gone(1)
        fleet.wait(_PAUSE)
    fleet.report(1, ReplicaState.FAILED, failure=FailureClass.START)
    assert (workload.phase, workload.reason) == (Phase.FAILED, ChangeReason.START_FAILED)
