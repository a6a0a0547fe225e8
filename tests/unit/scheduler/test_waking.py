"""After a release only those are tried again whom it could help, and everyone whom it helps is."""

from __future__ import annotations

from typing import Any

import pytest

from muster_kernel.lifecycle import Phase
from muster_kernel.quantities import GPU
from muster_kernel.reasons import FailureClass, WaitingReason
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.quotas import Line, Quota, UserLimit
from muster_scheduler.domain.asked.rules import Rules
from muster_scheduler.domain.asked.workloads import ReplicaState
from muster_scheduler.domain.books.queues import Project
from muster_scheduler.domain.turning import cycle
from tests.support.fleets import Fleet, host, node, portion, request, role, whole, workload_id


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The workloads that the cycle looks at."""
    found: list[str] = []
    decide = cycle.decide

    def noting(world: Any, workload: Any, *more: Any) -> None:
        found.append(workload.id)
        decide(world, workload, *more)

    monkeypatch.setattr(cycle, "decide", noting)
    return found


def test_a_release_that_is_too_small_for_a_class_does_not_try_it(tried: list[str]) -> None:
    fleet = Fleet(node("n1", 4))
    fleet.submit(1, request(role(whole(1)), preemptible=False))
    fleet.run(1)
    fleet.submit(2, request(role(whole(3)), preemptible=False))
    fleet.run(2)
    fleet.submit(3, request(role(whole(3)), preemptible=False))
    fleet.submit(4, request(role(portion(500)), priority=90, preemptible=False))
    tried.clear()
    fleet.finish(1)
    assert set(tried) == {workload_id(4)}
    assert fleet.workload(4).phase is Phase.INITIALIZING
    assert fleet.workload(3).phase is Phase.PENDING


def test_releases_add_up_until_the_class_fits() -> None:
    fleet = Fleet(node("n1", 2))
    for number in (1, 2):
        fleet.submit(number, request(role(whole(1)), preemptible=False))
        fleet.run(number)
    fleet.submit(3, request(role(whole(2)), preemptible=False))
    fleet.finish(1)
    assert fleet.workload(3).phase is Phase.PENDING
    fleet.finish(2)
    assert fleet.workload(3).phase is Phase.INITIALIZING


def test_what_its_project_gives_back_tries_a_class_that_a_limit_stopped(tried: list[str]) -> None:
    fleet = Fleet(node("n1", 2), node("n2", 8), quota=1)
    fleet.project("q", {"default": 8}, department="e")
    fleet.submit(1, request(role(whole(1)), preemptible=False))
    fleet.run(1)
    fleet.submit(2, request(role(whole(1)), preemptible=False))
    fleet.submit(3, request(role(whole(1)), preemptible=False), project="q")
    fleet.run(3)
    assert fleet.workload(2).phase is Phase.PENDING
    tried.clear()
    fleet.finish(3)
    assert tried == []
    fleet.finish(1)
    assert fleet.workload(2).phase is Phase.INITIALIZING


def test_what_never_fits_is_not_tried_after_a_release(tried: list[str]) -> None:
    fleet = Fleet(node("n1", 2))
    fleet.submit(1, request(role(whole(1))))
    fleet.run(1)
    fleet.submit(2, request(role(whole(9))))
    tried.clear()
    fleet.finish(1)
    assert tried == []


def test_who_was_woken_for_a_place_that_another_one_took_asks_nobody_for_room_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fleet = Fleet(node("n1", 2))
    fleet.submit(1, request(role(whole(2)), preemptible=False))
    fleet.run(1)
    for number in (2, 3):
        fleet.submit(number, request(role(whole(number - 1), name=f"r{number}"), preemptible=False))
    asked: list[str] = []
    fleet.report(1, ReplicaState.SUCCEEDED, exit_code=0)
    monkeypatch.setattr(cycle, "make_room", lambda *more: asked.append("room"))
    reason = fleet.world.waiting.reason(workload_id(3))
    fleet.gone(1, exit_code=0)
    assert fleet.workload(2).phase is Phase.INITIALIZING
    assert fleet.workload(3).phase is Phase.PENDING
    assert asked == []
    assert reason is not None
    assert fleet.world.waiting.reason(workload_id(3)) == reason


def test_a_gang_is_not_tried_before_all_of_it_could_have_devices(tried: list[str]) -> None:
    fleet = Fleet(node("n1", 1), node("n2", 1))
    for number in (1, 2):
        fleet.submit(number, request(role(whole(1)), preemptible=False))
        fleet.run(number)
    fleet.submit(3, request(role(whole(1), 2), preemptible=False))
    tried.clear()
    fleet.finish(1)
    assert tried == []
    fleet.finish(2)
    assert fleet.workload(3).phase is Phase.INITIALIZING


def test_work_that_may_be_taken_back_wakes_what_may_not_whatever_its_priority(tried: list[str]) -> None:
    fleet = Fleet(node("n1", 4))
    fleet.submit(1, request(role(whole(2)), preemptible=False))
    fleet.submit(2, request(role(whole(3)), preemptible=False))
    tried.clear()
    assert fleet.submit(3, request(role(whole(1)), priority=90)).phase is Phase.INITIALIZING
    assert tried == [workload_id(3), workload_id(2)]


def test_a_release_wakes_who_fits_once_others_have_moved() -> None:
    fleet = Fleet(node("n1", 2), node("n2", 2))
    for number in (1, 2, 3, 4):
        fleet.submit(number, request(role(whole(1))))
        fleet.run(number)
    fleet.submit(5, request(role(whole(2))))
    fleet.finish(1)
    assert fleet.workload(5).claim is None
    fleet.finish(3)
    claim = fleet.workload(5).claim
    assert claim is not None
    assert len(claim.waits_for) == 1


def test_who_fits_once_somebody_has_left_is_tried_as_soon_as_he_begins_to(tried: list[str]) -> None:
    fleet = Fleet(node("n1", 2))
    fleet.submit(1, request(role(whole(2)), preemptible=False))
    fleet.run(1)
    fleet.submit(2, request(role(whole(2)), preemptible=False))
    tried.clear()
    fleet.report(1, ReplicaState.SUCCEEDED, exit_code=0)
    reason = fleet.world.waiting.reason(workload_id(2))
    assert tried == [workload_id(2)]
    assert reason is not None
    assert reason.code is WaitingReason.CLAIM


def test_who_lost_his_place_to_one_beyond_his_share_of_cpu_takes_it_back() -> None:
    fleet = Fleet(node("n1", 0, cpu=8_000))
    for name, deserved in (("p", 8_000), ("q", 0)):
        quota = Quota(0, None, 1000, Line(deserved, None, 1000))
        fleet.send(events.ProjectChanged(Project(name, "d", {"default": quota}, 0)))
    for number in (1, 2):
        fleet.submit(number, request(role(host(cpu=4_000)), preemptible=False))
        fleet.run(number)
    fleet.submit(9, request(role(host(cpu=8_000))))
    for number in (20, 21):
        fleet.submit(number, request(role(host(cpu=4_000))), project="q")
    fleet.finish(1)
    fleet.finish(2)
    assert fleet.workload(9).claim is not None


def test_a_release_tries_nobody_whom_neither_the_node_nor_who_is_beyond_his_share_could_help(tried: list[str]) -> None:
    fleet = Fleet(node("n1", 4), node("n2", 4), quota=4)
    fleet.project("q", {"default": 4}, department="e")
    fleet.submit(1, request(role(whole(1))))
    fleet.submit(2, request(role(whole(3))))
    fleet.submit(3, request(role(whole(4))), project="q")
    for number in (1, 2, 3):
        fleet.run(number)
    fleet.submit(4, request(role(whole(4))), project="q")
    tried.clear()
    fleet.finish(1)
    assert tried == []


def test_a_user_limit_over_all_pools_is_lifted_by_what_ends_in_another() -> None:
    fleet = Fleet(node("n1", 2), node("n2", 2, pool="other"))
    fleet.project("u", {"default": 4, "other": 4}, users=(UserLimit(gpu=GPU),))
    fleet.submit(1, project="u")
    fleet.run(1)
    fleet.submit(2, request(pools=("other",)), project="u")
    assert fleet.workload(2).phase is Phase.PENDING
    fleet.finish(1)
    assert fleet.workload(2).phase is Phase.INITIALIZING


def test_what_a_sibling_gives_back_lets_in_what_their_department_deserves() -> None:
    fleet = Fleet(node("n1", 8))
    fleet.department("dept", {"default": 2})
    for name in ("x", "y"):
        fleet.project(name, {"default": 2}, department="dept")
    for number in (1, 2):
        fleet.submit(number, request(preemptible=False), project=("x", "y")[number - 1])
        fleet.run(number)
    fleet.submit(3, request(preemptible=False), project="y")
    assert fleet.world.waiting.reason(workload_id(3)).code is WaitingReason.OVER_QUOTA
    fleet.finish(1)
    assert fleet.workload(3).phase is Phase.INITIALIZING


def failed(fleet: Fleet, number: int) -> None:
    fleet.report(number, ReplicaState.FAILED, exit_code=1, failure=FailureClass.EXIT)
    fleet.gone(number, exit_code=1)


@pytest.mark.parametrize("project", ["p", "q"])
def test_who_starts_again_after_a_pause_may_be_asked_to_leave_from_then_on(project: str) -> None:
    fleet = Fleet(node("n1", 1), quota=0)
    fleet.project("q", {"default": 1}, department="e")
    fleet.submit(1, request(role(whole(1)), priority=25))
    fleet.run(1)
    failed(fleet, 1)
    fleet.submit(2, request(role(whole(1)), priority=75), project=project)
    assert fleet.workload(2).claim is None, "who pauses is not there to be evicted"
    fleet.wait(10)
    assert fleet.workload(2).claim is not None


def test_whose_time_is_up_when_its_pause_ends_goes_in_the_same_cycle() -> None:
    fleet = Fleet(node("n1", 1))
    fleet.submit(1)
    fleet.run(1)
    fleet.wait(15)
    failed(fleet, 1)
    fleet.send(events.ProjectChanged(Project("p", "d", {"default": Quota(GPU)}, 0, Rules(training_time=20))))
    fleet.wait(10)
    assert fleet.workload(1).phase is Phase.STOPPING
