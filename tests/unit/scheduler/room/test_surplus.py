"""What elastic gangs give up where that alone is not enough: nothing on nodes that do not help, no more than helps."""

from __future__ import annotations

import pytest

from muster_kernel.lifecycle import Phase
from muster_scheduler.domain.asked.workloads import Request, Stretch
from tests.support.fleets import Fleet, node, request, role, whole, workload_id


def elastic(least: int, most: int) -> Request:
    """A gang of `least` replicas of one card each that uses up to `most`."""
    return request(role(whole(), least))._replace(stretch=Stretch("worker", least, most))


def start(fleet: Fleet, number: int, asked: Request, project: str) -> None:
    """Submits it, and lets it grow as far as it can."""
    fleet.submit(number, asked, project=project)
    fleet.run(number)
    if asked.stretch is not None:
        fleet.wait(31)
        fleet.run(number)


def crowd(*cards: int, deserved: int = 100) -> Fleet:
    """A fleet of two projects: `rich` deserves so much, `poor` nothing."""
    fleet = Fleet(*(node(chr(ord("a") + at), number) for at, number in enumerate(cards)), quota=0)
    fleet.project("poor", {"default": 0})
    fleet.project("rich", {"default": deserved})
    return fleet


def given_up(fleet: Fleet, number: int) -> list[int]:
    return sorted(holder.rank for holder in fleet.workload(number).leaving)


def evicted(fleet: Fleet, *numbers: int) -> list[int]:
    return [number for number in numbers if fleet.workload(number).phase is Phase.TERMINATING]


def test_a_gang_on_nodes_that_do_not_help_keeps_its_surplus() -> None:
    fleet = crowd(4, 4, 1, 1, 1, 1)
    start(fleet, 1, elastic(1, 4), "poor")
    start(fleet, 2, request(role(whole(2))), "poor")
    start(fleet, 3, request(role(whole(2))), "poor")
    start(fleet, 4, elastic(2, 4), "poor")
    fleet.submit(9, request(role(whole(2), 3)), project="rich")
    assert (given_up(fleet, 1), given_up(fleet, 4), evicted(fleet, 2, 3)) == ([], [2, 3], [2, 3])
    claim = fleet.workload(9).claim
    assert claim is not None
    assert set(claim.waits_for) == {workload_id(2), workload_id(3), workload_id(4)}


def test_no_more_than_is_needed_on_the_node_that_helps() -> None:
    fleet = crowd(1, 4, 4)
    start(fleet, 2, request(role(whole(2))), "poor")
    start(fleet, 3, request(role(whole(2))), "poor")
    start(fleet, 1, elastic(1, 5), "poor")
    assert given_up(fleet, 1) == []
    fleet.submit(9, request(role(whole(3), 2)), project="rich")
    assert (given_up(fleet, 1), evicted(fleet, 2, 3)) == ([2, 3, 4], [2, 3])


@pytest.mark.parametrize(("deserved", "ranks"), [(4, [1, 2, 3]), (5, [2, 3]), (6, [3]), (7, [])])
def test_what_its_own_project_may_not_hold_beside_it_is_given_up_wherever_it_runs(
    deserved: int, ranks: list[int]
) -> None:
    """The place is where others are; the right to take it is there only once its queue holds less."""
    fleet = crowd(4, 1, 1, 1, 1, deserved=deserved)
    start(fleet, 1, elastic(1, 4), "rich")
    start(fleet, 2, request(role(whole(2))), "poor")
    start(fleet, 3, request(role(whole(2))), "poor")
    fleet.submit(9, request(role(whole(3))), project="rich")
    assert (given_up(fleet, 1), evicted(fleet, 2, 3)) == (ranks, [2, 3])
    assert fleet.workload(9).claim is not None


def test_several_who_are_let_in_at_once_get_what_all_of_them_need() -> None:
    fleet = crowd(1, 1, 1, 1, 3, 3)
    gangs, singles = (1, 4, 5), (2, 3)
    for number in gangs:
        fleet.submit(number, elastic(1, 2), project="poor")
    for number in singles:
        fleet.submit(number, request(role(whole(2))), project="poor")
    for number in (*gangs, *singles):
        fleet.run(number)
    fleet.wait(31)
    grown = {number: fleet.workload(number).replicas["worker", 1].node[1] for number in gangs}
    fleet.send(*(fleet.admitted(number, request(role(whole(3))), project="rich") for number in (8, 9)))
    assert grown == {1: "e", 4: "f", 5: "d"}
    assert [given_up(fleet, number) for number in gangs] == [[1], [1], []]
    assert evicted(fleet, *gangs, *singles) == [2, 3]
    assert all(fleet.workload(number).claim is not None for number in (8, 9))


def test_who_can_move_to_what_a_gang_gives_up_moves_at_once() -> None:
    """Room for the ninth is there without what the third gives up; a place for the first is not."""
    fleet = crowd(4)
    start(fleet, 1, request(role(whole(2))), "poor")
    fleet.inventory("c1", [node("a", 4), node("c", 1)])
    start(fleet, 2, elastic(1, 3), "poor")
    fleet.inventory("c1", [node("a", 4), node("b", 2), node("c", 1), node("d", 1)])
    start(fleet, 3, elastic(1, 3), "poor")
    fleet.submit(9, request(role(whole(4)), preemptible=False), project="rich")
    assert (given_up(fleet, 2), given_up(fleet, 3), evicted(fleet, 1)) == ([1, 2], [1, 2], [1])
    claim = fleet.workload(1).claim
    assert claim is not None
    assert [planned.node for planned in claim.planned] == [("c1", "b")]


def test_a_gang_that_has_to_leave_gives_nothing_up_before() -> None:
    fleet = crowd(4)
    start(fleet, 1, elastic(2, 4), "poor")
    fleet.submit(9, request(role(whole(4))), project="rich")
    assert evicted(fleet, 1) == [1]
    assert given_up(fleet, 1) == []
