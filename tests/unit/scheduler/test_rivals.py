"""Who would take a place first is named with what would let a workload start."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from muster_scheduler.domain.answers import rivals
from muster_scheduler.domain.answers.attempts import Attempt, attempts
from muster_scheduler.domain.answers.explain import explain
from muster_scheduler.domain.answers.viewing import EVERYONE, Viewer
from muster_scheduler.domain.asked.workloads import Workload
from muster_scheduler.domain.books.world import World
from tests.support.asking import why
from tests.support.fleets import Fleet, node, request, role, whole


def test_who_would_take_the_place_first_is_said() -> None:
    fleet = Fleet(node("n1", 4), quota=4)
    fleet.submit(1, request(preemptible=False))
    fleet.submit(2, request(role(whole(3)), preemptible=False))
    fleet.submit(3, request(role(whole(4)), priority=60))
    fleet.submit(4, request(role(whole(2)), priority=60))
    fleet.submit(5, request(role(whole(2))))
    fleet.submit(6, request(role(whole(1))))
    held = "(3 GPUs, non-preemptible, Initializing) ended"
    assert f"w2 {held}, and w4 did not take the place first" in why(fleet, 5).unblockers
    assert f"w2 {held}" in why(fleet, 6).unblockers, "one GPU is left beside the one that is ahead"
    fleet.finish(2)
    assert [bool(fleet.workload(number).replicas) for number in (3, 4, 5, 6)] == [False, True, False, True]


def test_who_would_displace_those_that_take_the_place_is_said() -> None:
    fleet = Fleet(node("n1", 4))
    fleet.project("p", {"default": 8})
    fleet.submit(1, request(role(whole(4)), preemptible=False))
    fleet.submit(2, request(role(whole(1)), priority=100))
    fleet.submit(3, request(role(whole(4)), priority=75, preemptible=False))
    fleet.submit(4, request(role(whole(2))))
    told = "w1 (4 GPUs, non-preemptible, Initializing) ended, and w2 and w3 did not take the place first"
    assert why(fleet, 4).unblockers == (told,), "beside w2 alone there is room for w4, and w3 is too late for a place"
    fleet.finish(1)
    assert fleet.workload(3).claim is not None, "it has w2 leave, and all of the node then"
    assert not fleet.workload(4).replicas


def test_what_is_kept_for_a_rival_is_others_once_it_has_its_place() -> None:
    fleet = Fleet(node("n1", 4), node("n2", 2), quota=8)
    fleet.project("q", {"default": 8})
    for number, size in ((1, 4), (2, 2)):
        fleet.submit(number, request(role(whole(size)), preemptible=False), project="q")
    for number, size, priority in ((3, 3, 100), (4, 1, 100), (5, 1, 50)):
        fleet.submit(number, request(role(whole(size)), priority=priority))
    assert fleet.world.reserved == {("c1", "default"): fleet.workload(3).id}
    told = "w1 (4 GPUs, non-preemptible, Initializing) ended, and w3 and w4 did not take the place first"
    assert told in why(fleet, 5).unblockers
    fleet.finish(1)
    assert [bool(fleet.workload(number).replicas) for number in (3, 4, 5)] == [True, True, False]


def test_who_could_take_the_place_in_another_project_is_said_unless_a_quota_stops_it() -> None:
    fleet = Fleet(node("n1", 2), quota=2)
    fleet.project("b", {"default": 0}, limit=0)
    fleet.project("c", {"default": 0})
    fleet.submit(1, request(role(whole(2)), preemptible=False))
    for number, project in ((2, "b"), (3, "c")):
        fleet.submit(number, request(role(whole(2))), project=project)
    fleet.submit(4, request(role(whole(2)), preemptible=False))
    assert why(fleet, 4).unblockers == ("p deserved 4 GPUs in node pool default, and there was room",)
    fleet.submit(5, request(role(whole(2)), priority=60))
    told = "w1 (2 GPUs, non-preemptible, Initializing) ended, and w3 did not take the place first"
    assert why(fleet, 5).unblockers[0] == told


def test_many_classes_behind_it_hide_nobody_who_comes_first() -> None:
    fleet = Fleet(node("n1", 1), quota=1)
    fleet.project("b", {"default": 0})
    fleet.submit(1, request(preemptible=False))
    fleet.submit(2, request(role(whole(1)), priority=60))
    behind = [fleet.admitted(number, request(role(whole(1, cpu=1_000 + number)))) for number in range(10, 90)]
    fleet.send(*behind, fleet.admitted(3, project="b"))
    assert why(fleet, 2).unblockers[0].endswith("ended, and w3 did not take the place first")


def test_nobody_is_named_to_whom_may_not_see_them() -> None:
    fleet = Fleet(node("n1", 4), quota=4)
    fleet.project("b", {"default": 3})
    fleet.submit(1, request(role(whole(1)), preemptible=False))
    fleet.submit(2, request(role(whole(3)), preemptible=False), project="b")
    fleet.submit(3, request(role(whole(2)), preemptible=False))
    told = explain(fleet.world, fleet.workload(3), Viewer(frozenset({"p"}))).unblockers
    assert told[0] == "a workload of another project ended", "what it holds is not told either"
    assert why(fleet, 3).unblockers[0] == "w2 (3 GPUs, non-preemptible, Initializing) ended"


def test_of_a_set_only_those_are_named_whom_one_may_see() -> None:
    fleet = Fleet(node("n1", 2))
    fleet.project("b", {"default": 0})
    fleet.submit(1)
    fleet.submit(2, project="b")
    one, two = fleet.workload(1), fleet.workload(2)
    assert EVERYONE.names([one, two]) == "w1 and w2"
    assert Viewer(frozenset({"b"})).names([one, two]) == "w2 and 1 more"
    assert Viewer(frozenset()).names([one, two]) == "2 workloads of other projects"
    assert Viewer(frozenset()).names([two]) == "1 workload of other projects"
    assert EVERYONE.names([one] * 8) == "w1, w1, w1, w1, w1, w1 and 2 more"


def test_of_a_larger_quota_it_is_said_who_of_its_project_would_take_it_first() -> None:
    fleet = Fleet(node("n1", 8), quota=0)
    for number in (1, 2, 3):
        fleet.submit(number, request(preemptible=False))
    told = "p deserved 1 GPU in node pool default, and w1 and w2 did not take the place first"
    assert told in why(fleet, 3).unblockers
    fleet.project("p", {"default": 1})
    assert [bool(fleet.workload(number).replicas) for number in (1, 2, 3)] == [True, False, False]


def test_whoever_is_ahead_is_named_where_others_would_have_to_leave() -> None:
    fleet = Fleet(node("n1", 2), quota=0)
    fleet.project("b", {"default": 0})
    for number in (1, 2):
        fleet.submit(number, project="b")
    for number in (3, 4):
        fleet.submit(number, request(preemptible=False))
    (told,) = why(fleet, 4).unblockers
    assert told == (
        "p deserved 1 GPU in node pool default (1 workload of other projects would leave for it),"
        " and w3 did not take the place first"
    )


def test_another_projects_larger_workload_is_named_that_fits_only_before_those_of_its_own() -> None:
    fleet = Fleet(node("n1", 4), quota=4)
    fleet.project("b", {"default": 0})
    fleet.submit(1, request(role(whole(4)), preemptible=False))
    fleet.submit(2, request(role(whole(4))), project="b")
    fleet.submit(3, request(role(whole(1))))
    fleet.submit(4, request(role(whole(1))))
    told = why(fleet, 4).unblockers[0]
    assert told.endswith("ended, and w3 and w2 did not take the place first")


def test_behind_what_is_kept_for_another_both_are_said() -> None:
    fleet = Fleet(node("n1", 4), quota=8)
    fleet.project("b", {"default": 0})
    fleet.submit(1, request(role(whole(2)), preemptible=False))
    fleet.submit(2, request(role(whole(4))))
    assert fleet.workload(2).reservation is not None
    fleet.submit(3, request(role(whole(3))), project="b")
    fleet.submit(4, request(role(whole(1))), project="b")
    ended = "w1 (2 GPUs, non-preemptible, Initializing) ended"
    assert why(fleet, 3).unblockers[0] == f"{ended}, and w2 did not take the place first"
    assert why(fleet, 4).unblockers[0] == "w2 did not take the place first"
    fleet.finish(1)
    assert fleet.workload(2).replicas


def test_very_many_who_come_first_are_not_counted() -> None:
    fleet = Fleet(node("n1", 1), quota=1)
    fleet.project("b", {"default": 0})
    fleet.submit(1, request(preemptible=False))
    fleet.submit(2, request(role(whole(1)), priority=60))
    fleet.send(*(fleet.admitted(number, project="b") for number in range(10, 80)))
    told = why(fleet, 2).unblockers[0]
    assert told.endswith("ended, and none of those who come before it took the place first")


@pytest.mark.parametrize(("work", "searches"), [(1_000, 5), (19, 2), (7, 0)])
def test_the_more_runs_the_fewer_are_tried_to_make_room_for(
    monkeypatch: pytest.MonkeyPatch, work: int, searches: int
) -> None:
    tried: list[str] = []

    def counting(world: World, head: Workload, pools: Sequence[str]) -> tuple[Attempt, ...]:
        tried.append(head.id)
        return attempts(world, head, pools)

    fleet = Fleet(node("n1", 8), quota=8)
    fleet.project("b", {"default": 0})
    fleet.send(*(fleet.admitted(number, request(preemptible=False)) for number in range(1, 9)))
    waiting = [request(role(whole(4, cpu=1_000 + number))) for number in range(5)]
    fleet.send(*(fleet.admitted(20 + number, each, project="b") for number, each in enumerate(waiting)))
    fleet.submit(40, project="b")
    monkeypatch.setattr(rivals, "attempts", counting)
    monkeypatch.setattr(rivals, "_WORK", work)
    told = rivals.taken_first(fleet.world, fleet.workload(40), "default", ["c1"], EVERYONE)
    assert len(tried) == searches
    assert told.count("w2") == 5 - searches, "of those who were not tried it is taken for granted"
