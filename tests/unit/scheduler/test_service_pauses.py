"""The pause before a replica of a service starts again: only failures of its command make it longer."""

from __future__ import annotations

import pytest

from muster_kernel.reasons import FailureClass
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.limits import BACKOFF_LONGEST
from muster_scheduler.domain.asked.workloads import SECOND, ReplicaState, Request, WorkloadKind
from tests.support.fleets import Fleet, node, request, role, whole


def service() -> Request:
    return request(role(whole(1), 1), kind=WorkloadKind.INFERENCE, preemptible=False)


def begun() -> Fleet:
    """A service of one replica."""
    fleet = Fleet(node("n1"))
    fleet.submit(1, service())
    return fleet


def pause_after(fleet: Fleet, failure: FailureClass, *, ran: int, exit_code: int | None = None) -> int:
    """Seconds until the replica, which serves for `ran` seconds and then ends like this, starts again; waits for it."""
    workload = fleet.workload(1)
    started = fleet.state.world.now
    fleet.send(serving(fleet, started=started))
    fleet.wait(ran)
    fleet.send(fleet.status(1, None, exit_code=exit_code, failure=failure, gone=True))
    pause = (workload.replacements["worker", 0][1] - fleet.state.world.now) // SECOND
    fleet.wait(max(1, pause))
    return pause


def serving(fleet: Fleet, *, started: int) -> events.ReplicaReported:
    """READY, with the time of its start."""
    event = fleet.status(1, ReplicaState.READY)
    return event._replace(status=event.status._replace(started=started))


@pytest.mark.parametrize("failure", [FailureClass.OURS, FailureClass.INFRASTRUCTURE])
def test_who_is_taken_down_starts_again_at_once_however_often(failure: FailureClass) -> None:
    fleet = begun()
    assert [pause_after(fleet, failure, ran=90) for _ in range(12)] == [0] * 12
    assert pause_after(fleet, FailureClass.EXIT, ran=90, exit_code=1) == 10, "the first failure of its own"


def test_who_is_taken_down_right_after_its_start_rests_a_little_each_time() -> None:
    fleet = begun()
    assert [pause_after(fleet, FailureClass.INFRASTRUCTURE, ran=5) for _ in range(5)] == [10] * 5


def test_failures_of_the_command_make_the_pause_longer_and_being_taken_down_does_not_forgive_them() -> None:
    fleet = begun()
    assert [pause_after(fleet, FailureClass.EXIT, ran=90, exit_code=1) for _ in range(3)] == [10, 20, 40]
    assert pause_after(fleet, FailureClass.OURS, ran=90) == 0
    assert pause_after(fleet, FailureClass.EXIT, ran=90, exit_code=1) == 80
    assert pause_after(fleet, FailureClass.NONE, ran=90, exit_code=0) == 160, "a server that ends has failed"
    assert pause_after(fleet, FailureClass.EXIT, ran=90, exit_code=1) * SECOND <= BACKOFF_LONGEST


@pytest.mark.parametrize("failure", [FailureClass.EXIT, FailureClass.OURS])
def test_ten_minutes_leave_earlier_failures_behind(failure: FailureClass) -> None:
    fleet = begun()
    assert [pause_after(fleet, FailureClass.EXIT, ran=30, exit_code=1) for _ in range(4)] == [10, 20, 40, 80]
    pause_after(fleet, failure, ran=600, exit_code=1 if failure is FailureClass.EXIT else None)
    expected = 20 if failure is FailureClass.EXIT else 10
    assert pause_after(fleet, FailureClass.EXIT, ran=30, exit_code=1) == expected
