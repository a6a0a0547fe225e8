"""Trainings that run for months: faults count against their limit only if no long run lies between them."""

from __future__ import annotations

import pytest

from muster_kernel.lifecycle import Phase
from muster_kernel.reasons import ChangeReason, FailureClass
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.limits import FAULT_LIMIT, STEADY_AFTER
from muster_scheduler.domain.asked.workloads import SECOND, ReplicaState
from tests.support.fleets import Fleet, node, request

_STEADY = STEADY_AFTER // SECOND
_PAUSE = 400  # longer than the longest pause between two starts
_DEAD = 1000  # until a node that died is given up, and more


def run(fleet: Fleet, seconds: int) -> None:
    """All replicas run for so long."""
    fleet.report(1, ReplicaState.READY)
    assert fleet.workload(1).phase is Phase.RUNNING
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
