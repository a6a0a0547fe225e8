"""After a release only those are tried again whom it could help, and everyone whom it helps is."""

from __future__ import annotations

from typing import Any

import pytest

from muster_kernel.lifecycle import Phase
from muster_scheduler.domain.turning import cycle
from tests.support.fleets import Fleet, node, portion, request, role, whole, workload_id


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
    assert tried == [workload_id(4)]
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
    reason = fleet.world.waiting.reason(workload_id(3))
    asked: list[str] = []
    monkeypatch.setattr(cycle, "make_room", lambda *more: asked.append("room"))
    fleet.finish(1)
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
