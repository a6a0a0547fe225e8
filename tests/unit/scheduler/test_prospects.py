"""What if: the answer is what the scheduler would do, and asking leaves no trace."""

from __future__ import annotations

from muster_kernel.quantities import GPU
from muster_kernel.reasons import WaitingReason
from muster_scheduler.domain.answers.prospects import Outlook, Part, what_if
from muster_scheduler.domain.asked.workloads import Stretch
from tests.support.fleets import Fleet, node, request, role, whole, workload_id


def busy() -> Fleet:
    """Two nodes of 8 cards: one full of low-priority work, the other half full."""
    fleet = Fleet(node("a", 8), node("b", 8))
    fleet.submit(1, request(role(whole(8)), priority=10))
    fleet.submit(2, request(role(whole(4)), priority=60))
    return fleet


def test_what_fits_would_start_there() -> None:
    fleet = busy()
    before = fleet.state.digest()
    answer = what_if(fleet.state, [fleet.admitted(9, request(role(whole(2), 2)))], fleet.now)
    (prospect,) = answer.prospects
    assert (prospect.outlook, prospect.cluster, prospect.pool) == (Outlook.STARTS, "c1", "default")
    assert prospect.parts == (Part("b", 2, 4 * GPU),)
    assert (answer.displaced, answer.unfinished) == ((), False)
    assert fleet.state.digest() == before
    fleet.state.check()
    assert workload_id(9) not in fleet.world.workloads


def test_what_takes_the_place_of_others_says_whose() -> None:
    fleet = busy()
    before = fleet.state.digest()
    answer = what_if(fleet.state, [fleet.admitted(9, request(role(whole(8)), priority=90))], fleet.now)
    (prospect,) = answer.prospects
    assert prospect.outlook is Outlook.STARTS_AFTER
    assert prospect.parts == (Part("a", 1, 8 * GPU),)
    assert prospect.waits_for == (workload_id(1),)
    (victim,) = answer.displaced
    assert (victim.name, victim.project, victim.charge, victim.by) == ("w1", "p", 8 * GPU, workload_id(9))
    assert fleet.state.digest() == before
    assert fleet.workload(1).active


def test_what_would_wait_says_why_and_what_would_help() -> None:
    fleet = busy()
    (prospect,) = what_if(fleet.state, [fleet.admitted(9, request(role(whole(6)), priority=10))], fleet.now).prospects
    assert prospect.outlook is Outlook.WAITS
    assert prospect.explanation is not None
    assert prospect.explanation.reason is not None
    assert prospect.explanation.reason.code is WaitingReason.NO_CAPACITY
    assert any("ended" in each for each in prospect.explanation.unblockers)
    never = what_if(fleet.state, [fleet.admitted(9, request(role(whole(9))))], fleet.now).prospects[0]
    assert never.explanation is not None
    assert never.explanation.reason is not None
    assert never.explanation.reason.code is WaitingReason.TOO_LARGE


def test_what_an_elastic_gang_would_do_without_is_told() -> None:
    fleet = Fleet(node("a", 8))
    fleet.submit(1, request(role(whole(1), 2))._replace(stretch=Stretch("worker", 2, 8), spec=b""))
    fleet.run(1)
    fleet.wait(30)
    fleet.run(1)
    assert len(fleet.workload(1).replicas) == 8
    before = fleet.state.digest()
    answer = what_if(fleet.state, [fleet.admitted(9, request(role(whole(1), 6)))], fleet.now)
    assert answer.prospects[0].outlook is Outlook.STARTS_AFTER
    (gang,) = answer.displaced
    assert (gang.name, gang.given_up, gang.replicas, gang.charge, gang.by) == ("w1", 6, 8, 6 * GPU, workload_id(9))
    assert fleet.state.digest() == before
    whole_gang = what_if(fleet.state, [fleet.admitted(9, request(role(whole(8)), priority=90))], fleet.now)
    assert [(each.name, each.given_up, each.charge) for each in whole_gang.displaced] == [("w1", 0, 8 * GPU)]


def test_what_moves_for_it_is_told_to_move() -> None:
    fleet = Fleet(node("a", 4), node("b", 4))
    fleet.submit(1, request(role(whole(3))))
    fleet.submit(2, request(role(whole(3))))
    fleet.submit(3, request(role(whole(1))))
    fleet.submit(4, request(role(whole(1))))
    for number in (1, 4):
        fleet.run(number)
        fleet.finish(number)
    fleet.run(2)
    fleet.run(3)
    assert fleet.workload(2).replicas["worker", 0].node != fleet.workload(3).replicas["worker", 0].node
    answer = what_if(fleet.state, [fleet.admitted(9, request(role(whole(4))))], fleet.now)
    assert answer.prospects[0].outlook is Outlook.STARTS_AFTER
    assert [(each.name, each.moves) for each in answer.displaced] == [("w3", True)]


def test_several_are_tried_together_in_their_order() -> None:
    fleet = busy()
    asked = [fleet.admitted(n, request(role(whole(4)), priority=10)) for n in (8, 9)]
    first, second = what_if(fleet.state, asked, fleet.now).prospects
    assert (first.outlook, second.outlook) == (Outlook.STARTS, Outlook.WAITS)
    assert (first.workload.name, second.workload.name) == ("w8", "w9")


def test_a_spent_budget_is_told() -> None:
    fleet = busy()
    assert what_if(fleet.state, [fleet.admitted(9)], fleet.now, cycles=1).unfinished


def test_a_project_that_is_not_known_is_told() -> None:
    fleet = busy()
    (prospect,) = what_if(fleet.state, [fleet.admitted(9, project="nobody")], fleet.now).prospects
    assert prospect.explanation is not None
    assert prospect.explanation.reason is not None
    assert prospect.explanation.reason.code is WaitingReason.NO_PROJECT
