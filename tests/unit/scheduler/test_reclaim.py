"""Reclaim in the books: who takes from whom across projects and departments, and that it comes to an end."""

from __future__ import annotations

import pytest

from muster_kernel.lifecycle import Phase
from muster_kernel.quantities import GPU
from muster_kernel.reasons import WaitingReason
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.limits import Limits
from muster_scheduler.domain.asked.quotas import Line, Quota
from muster_scheduler.domain.asked.terms import Terms, Wish
from muster_scheduler.domain.asked.workloads import SECOND
from muster_scheduler.domain.books.queues import Project
from muster_scheduler.domain.decisions import Preempted
from tests.support.fleets import Fleet, host, node, portion, request, role, whole, workload_id


def evictions(fleet: Fleet) -> list[str]:
    return [d.workload for d in fleet.decisions if isinstance(d, Preempted)]


def two_projects(nodes: int = 2, *, taker: int = 8, victim: int = 0) -> Fleet:
    """Project q fills the nodes with one-GPU workloads, one a second; p deserves `taker` GPUs, q `victim`."""
    fleet = Fleet(*(node(f"n{number}", 4) for number in range(nodes)), quota=taker)
    fleet.project("q", {"default": victim})
    for number in range(1, 4 * nodes + 1):
        fleet.submit(number, project="q")
        fleet.run(number)
        fleet.wait(1)
    return fleet


def test_a_gang_below_its_share_takes_back_and_the_youngest_go() -> None:
    fleet = two_projects(3, taker=4)
    gang = fleet.submit(90, request(role(whole(1), size=4)))
    assert sorted(evictions(fleet)) == [workload_id(number) for number in (9, 10, 11, 12)]
    assert gang.claim is not None
    assert set(gang.claim.waits_for) == set(evictions(fleet))
    assert fleet.world.queues.account("q", "default").allocated == 8 * GPU
    assert fleet.world.queues.account("p", "default").allocated == 4 * GPU
    for number in (9, 10, 11, 12):
        fleet.gone(number)
    assert gang.phase is Phase.INITIALIZING
    assert [fleet.workload(number).phase for number in (9, 12)] == [Phase.PENDING] * 2


def test_nobody_ends_above_their_share_and_nobody_is_pushed_below() -> None:
    fleet = two_projects(2, taker=4, victim=4)
    for number in range(20, 24):
        fleet.submit(number)
    assert len(evictions(fleet)) == 4
    fleet.submit(24)
    assert len(evictions(fleet)) == 4
    assert fleet.workload(24).phase is Phase.PENDING


def test_of_many_equal_takers_as_many_are_let_in_as_others_have_to_lose() -> None:
    fleet = Fleet(node("n1", 8), quota=4)
    fleet.project("q", {"default": 7})
    for number in range(1, 9):
        fleet.submit(number, project="q")
    fleet.send(*(fleet.admitted(number) for number in range(20, 24)))
    assert len(evictions(fleet)) == 1  # q: 8 of 7


def test_an_indivisible_last_victim_may_go_below_while_the_taker_is_not_fuller() -> None:
    fleet = Fleet(node("n1", 8), quota=6)
    fleet.project("q", {"default": 2})
    fleet.submit(1, request(role(whole(4))), project="q")
    fleet.submit(2, request(role(whole(4))), project="q")
    fleet.submit(3, request(role(whole(2))))
    assert len(evictions(fleet)) == 1  # q: 8 of 2, then 4 of 2: nobody below
    fleet.gone(1 if evictions(fleet) == [workload_id(1)] else 2)
    fleet.submit(4, request(role(whole(4))))
    assert len(evictions(fleet)) == 1  # q would fall to 0 of 2 while p would have 6 of 6


def test_departments_are_judged_before_their_projects() -> None:
    fleet = Fleet(node("n1", 8), quota=0)
    fleet.department("d", {"default": 8})
    fleet.department("e", {"default": 0})
    fleet.project("a", {"default": 4}, department="d")
    fleet.project("b", {"default": 0}, department="d")
    fleet.project("c", {"default": 4}, department="e")
    for number in range(1, 5):
        fleet.submit(number, project="b")
    for number in range(5, 9):
        fleet.submit(number, project="c")
    for number in range(20, 24):
        fleet.submit(number, project="a")
    assert sorted(evictions(fleet)) == [workload_id(number) for number in range(1, 5)]


def test_non_preemptible_work_and_work_that_has_just_begun_stay() -> None:
    fleet = Fleet(node("n1", 2), quota=2)
    fleet.state.world.limits = Limits(minimum_run=60 * SECOND)
    fleet.project("q", {"default": 1})
    fleet.submit(1, request(preemptible=False), project="q")
    fleet.submit(2, project="q")
    taker = fleet.submit(3)
    assert not evictions(fleet)
    fleet.wait(59)
    assert not evictions(fleet)
    fleet.wait(2)
    assert evictions(fleet) == [workload_id(2)]
    assert taker.claim is not None


def taken_back() -> tuple[Fleet, int]:
    """Two projects with a card each: p's workload 3 took back what q had beyond its own. Whom it evicted is gone."""
    fleet = Fleet(node("n1", 2), quota=1)
    fleet.project("q", {"default": 1})
    fleet.submit(1, project="q")
    fleet.submit(2, project="q")
    fleet.submit(3)
    (victim,) = evictions(fleet)
    number = 1 if victim == workload_id(1) else 2
    fleet.gone(number)
    return fleet, number


def test_who_was_evicted_evicts_nobody_to_come_back() -> None:
    fleet, number = taken_back()
    fleet.project("p", {"default": 0})
    fleet.project("q", {"default": 2})
    assert fleet.workload(number).phase is Phase.PENDING
    assert evictions(fleet) == [workload_id(number)]
    fleet.finish(3)
    assert fleet.workload(number).phase is Phase.INITIALIZING
    assert not fleet.workload(number).preempted_by


def test_a_gang_that_must_stand_in_one_rack_empties_the_cheaper_rack() -> None:
    racks = {"n1": "a", "n2": "a", "n3": "b", "n4": "b"}
    nodes = [node(name, 4) for name in racks]
    for each in nodes:
        each.labels = (("rack", racks[each.name]),)
    fleet = Fleet(*nodes, quota=8)
    fleet.project("q", {"default": 0})
    wish = Terms(topology=Wish(required="rack"))
    for number, size in enumerate((8, 4, 1, 1, 1, 1), 1):
        fleet.submit(number, request(role(whole(1), size=size)), project="q")
        fleet.wait(1)
    gang = request(role(whole(4), size=2))._replace(terms=wish)
    taker = fleet.submit(20, gang)
    assert len(evictions(fleet)) == 1
    assert taker.claim is not None
    assert len({racks[planned.node[1]] for planned in taker.claim.planned}) == 1


def test_roles_of_different_shapes_get_room_together() -> None:
    fleet = two_projects(2, taker=8)
    roles = (role(host(cpu=60_500), name="launcher"), role(whole(2), size=2, name="worker"))
    gang = fleet.submit(90, request(*roles))
    assert gang.claim is not None
    assert {planned.role for planned in gang.claim.planned} == {"launcher", "worker"}
    assert 4 <= len(evictions(fleet)) <= 6


def test_portions_and_whole_cards_give_way_to_each_other() -> None:
    fleet = Fleet(node("n1", 2), quota=2)
    fleet.project("q", {"default": 0})
    for number in range(1, 5):
        fleet.submit(number, request(role(portion(500))), project="q")
    fleet.submit(20)
    assert len(evictions(fleet)) == 2
    fleet.submit(21, request(role(portion(500))))
    assert len(evictions(fleet)) == 3


@pytest.mark.parametrize("weight", [0, 1000])
def test_a_queue_without_deserved_quota_takes_only_what_its_weight_gives(weight: int) -> None:
    fleet = Fleet(node("n1", 2), quota=0)
    fleet.project("p", {"default": 0}, weight=weight)
    fleet.project("q", {"default": 0})
    fleet.submit(1, project="q")
    fleet.submit(2, project="q")
    fleet.submit(3)
    assert len(evictions(fleet)) == bool(weight)


def test_nothing_happens_where_no_room_can_be_made() -> None:
    fleet = two_projects(2, taker=8, victim=8)
    waiting = fleet.submit(90, request(role(whole(4), size=2)))
    assert waiting.phase is Phase.PENDING
    assert not evictions(fleet)
    assert all(fleet.workload(number).phase is Phase.RUNNING for number in range(1, 9))


def test_a_class_of_equal_takers_is_let_in_at_once_and_each_waits_for_its_own() -> None:
    fleet = Fleet(node("n1", 4), node("n2", 4), quota=6)
    fleet.project("q", {"default": 2})
    for number in range(1, 9):
        fleet.submit(number, project="q")
        fleet.wait(1)
    fleet.send(*(fleet.admitted(number) for number in range(20, 30)))
    claims = [fleet.workload(number).claim for number in range(20, 30)]
    assert [claim is not None for claim in claims] == [True] * 6 + [False] * 4
    assert sorted(evictions(fleet)) == [workload_id(number) for number in range(3, 9)]
    assert sorted(w for claim in claims if claim for w in claim.waits_for) == sorted(evictions(fleet))
    assert all(len(claim.waits_for) == 1 for claim in claims if claim)
    fleet.gone(3)
    assert [fleet.workload(number).phase for number in range(20, 26)].count(Phase.INITIALIZING) == 1


def test_limits_bound_how_many_of_a_class_are_let_in() -> None:
    fleet = Fleet(node("n1", 4), quota=0)
    fleet.project("p", {"default": 4}, limit=2)
    fleet.project("q", {"default": 0})
    for number in range(1, 5):
        fleet.submit(number, project="q")
    fleet.send(*(fleet.admitted(number) for number in range(20, 24)))
    assert len(evictions(fleet)) == 2
    assert fleet.world.queues.account("p", "default").allocated == 2 * GPU


def test_one_who_was_evicted_does_not_keep_its_equals_from_reclaiming() -> None:
    fleet, number = taken_back()
    fleet.project("q", {"default": 2})
    fleet.project("p", {"default": 0})
    fleet.submit(4, project="q")
    assert evictions(fleet) == [workload_id(number), workload_id(3)]


def test_a_resource_that_nodes_have_enough_of_is_no_bar_to_taking_another() -> None:
    fleet = Fleet(node("n1", 4), quota=0)
    cpu = Line(1_000, None)
    for name, gpus in (("p", 2), ("q", 0)):
        fleet.send(events.ProjectChanged(Project(name, "d", {"default": Quota(gpus * GPU, cpu=cpu)}, 0)))
    for number in range(1, 5):
        fleet.submit(number, project="q")
        fleet.run(number)
    fleet.submit(5, request(role(whole(cpu=30_000))))
    assert len(evictions(fleet)) == 1, "its CPU share is exceeded, but CPU is free: only GPUs are lacking"


def test_a_gang_that_asks_for_more_than_a_word_holds_waits_with_its_reason() -> None:
    fleet = two_projects(1, taker=8)
    gang = fleet.submit(90, request(role(host(memory=93 << 40), size=100_000)))
    reason = fleet.world.waiting.reason(gang.id)
    assert reason is not None
    assert reason.code is WaitingReason.HOST_TOO_LARGE
