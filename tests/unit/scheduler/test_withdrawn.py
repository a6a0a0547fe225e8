"""What is wanted no longer, or never can run, takes nothing of what others may have; and those are tried at once."""

from __future__ import annotations

import pytest

from muster_kernel.lifecycle import Phase
from muster_kernel.reasons import IN_VAIN, WaitingReason
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.workloads import Request
from muster_scheduler.domain.decisions import Preempted
from muster_scheduler.domain.shares.tree import Branch, fair_shares
from tests.support.fleets import Fleet, host, node, request, role, whole, workload_id


def full_of_q(limit: int | None = None) -> Fleet:
    """Eight GPUs, all held by q; with a limit of its department, eight more that nobody may use."""
    fleet = Fleet(node("n1", 8 if limit is None else 16), quota=0)
    if limit is not None:
        fleet.department("d", {"default": limit}, limit=limit)
    for name in ("q", "r"):
        fleet.project(name, {"default": 0})
    for each in range(1, 9):
        fleet.submit(each, project="q")
        fleet.run(each)
    return fleet


def full(*, wanted_by_third: Request) -> Fleet:
    """Eight GPUs, all held by q; then r wants four of its own, and p what it may."""
    fleet = full_of_q()
    for number in (20, 21):
        fleet.submit(number, wanted_by_third, project="r")
    for number in range(30, 34):
        fleet.submit(number)
    return fleet


def taken(fleet: Fleet) -> int:
    return sum(isinstance(each, Preempted) for each in fleet.decisions)


def told(fleet: Fleet, number: int) -> WaitingReason | None:
    reason = fleet.world.waiting.reason(workload_id(number))
    return reason.code if reason is not None else None


@pytest.mark.parametrize(
    "asked",
    [
        request(role(whole(2)), pools=("nowhere",)),
        request(role(whole(16))),
        request(role(whole(2)), clusters=("elsewhere",)),
    ],
    ids=["no such pool", "too large", "no such cluster"],
)
def test_what_can_never_run_takes_nothing_of_others_shares(asked: Request) -> None:
    fleet = full(wanted_by_third=asked)
    assert told(fleet, 20) in IN_VAIN
    assert taken(fleet) == 4, "p and q share eight GPUs"


def test_whose_share_rises_because_waiting_work_was_withdrawn_takes_at_once() -> None:
    fleet = full_of_q()
    stay = request(role(whole(8)))  # a gang that fits only where the whole node is free: it waits, and wants its share
    for number in (20, 21):
        fleet.submit(number, stay, project="r")
    for number in range(30, 34):
        fleet.submit(number)
    before = taken(fleet)
    assert before < 4
    for number in (20, 21):
        fleet.send(events.DeletionRequested(f"request-{number}", workload_id(number)))
    assert taken(fleet) == 4
    assert all(fleet.workload(number).phase is Phase.DELETED for number in (20, 21))


def test_who_waits_for_others_to_leave_is_told_so_no_longer_when_they_have() -> None:
    fleet = Fleet(node("n1", 2), quota=0)
    fleet.project("q", {"default": 0})
    for number in (1, 2):
        fleet.submit(number, project="q")
        fleet.run(number)
    fleet.submit(5, request(role(whole(), name="one"), preemptible=False))  # another queue, so that turns are taken
    for number in (10, 11):
        fleet.submit(number, project="q")
    fleet.send(events.DeletionRequested("request-1", workload_id(1)))
    assert told(fleet, 11) is WaitingReason.CLAIM
    fleet.gone(1, exit_code=0)
    assert fleet.workload(10).phase is Phase.INITIALIZING
    assert told(fleet, 11) is WaitingReason.NO_CAPACITY


def test_what_an_idle_project_deserves_lets_its_siblings_have_no_more_than_there_is() -> None:
    """16 GPUs. alpha deserves 100 and wants none: language (deserves 4, wants 16) and search (4, 8) share the 16."""
    tree = [
        Branch("department", deserved=None, weight=1),
        Branch("language", 0, 4, weight=1, request=16),
        Branch("search", 0, 4, weight=1, request=8),
        Branch("alpha", 0, 100, weight=1, request=0),
    ]
    assert [share.fair for share in fair_shares(16, tree)] == [16, 8, 8, 0]
    assert fair_shares(16, tree)[0].deserved == 108


def test_host_work_that_can_never_run_takes_nothing_either() -> None:
    fleet = full(wanted_by_third=request(role(host(cpu=10_000_000))))
    assert taken(fleet) == 4


def withdrawn_in(number: int, *, limit: int | None = None) -> Fleet:
    """Q holds eight GPUs, r waits for all of one node, p for a gang of four: as much as its share leaves."""
    fleet = full_of_q(limit)
    pools = ("default", "other") if number == 1 else ("default",)
    for each in range(20, 20 + number):
        fleet.submit(each, request(role(whole(8)), pools=pools), project="r")
    fleet.submit(30, request(role(whole(), 4)))
    return fleet


def test_what_a_cycle_finds_to_be_in_vain_helps_others_in_the_next_one() -> None:
    fleet = full_of_q()
    vain = request(role(whole(16)))
    together = [fleet.admitted(each, vain, project="r") for each in (20, 21)]
    fleet.send(*together, fleet.admitted(30, request(role(whole(), 4))))
    assert fleet.state.next_time() == fleet.now, "the next cycle is wanted at once"
    fleet.wait(0)
    assert taken(fleet) == 4


def test_who_is_placed_in_his_second_pool_wants_nothing_in_the_first() -> None:
    fleet = withdrawn_in(1)
    assert taken(fleet) < 4
    fleet.inventory("c1", (node("n1", 8), node("m1", 8, pool="other")))
    assert fleet.workload(20).pool == "other"
    fleet.wait(0)
    assert taken(fleet) == 4


def test_who_stands_below_a_limit_of_his_department_takes_what_a_sibling_wants_no_longer() -> None:
    fleet = withdrawn_in(2, limit=8)
    assert told(fleet, 30) is WaitingReason.OVER_LIMIT
    for number in (20, 21):
        fleet.send(events.DeletionRequested(f"request-{number}", workload_id(number)))
    assert taken(fleet) == 4
