"""Making room: who gives way, who does not, and what a claim is."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from muster_kernel.lifecycle import Phase
from muster_kernel.quantities import GPU
from muster_kernel.reasons import ChangeReason, WaitingReason
from muster_scheduler.adapters.workload_rows import of_workload, to_workload
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.requests import Shape
from muster_scheduler.domain.decisions import Claimed, Placed, Preempted, Release
from muster_scheduler.domain.fleet.nodes import NodeState
from muster_scheduler.domain.placement.place import Budget
from tests.support.fleets import Fleet, node, portion, request, role, whole, workload_id


def evictions(fleet: Fleet) -> list[str]:
    return [d.workload for d in fleet.decisions if isinstance(d, Preempted)]


def run_later(fleet: Fleet, numbers: Iterable[int], shape: Shape) -> None:
    """Single replicas that began a second after what runs already, and so have less to lose, some time ago."""
    fleet.wait(1)
    for number in numbers:
        fleet.submit(number, request(role(shape)))
        fleet.run(number)
    fleet.wait(100)


def test_the_higher_priority_takes_the_place_once_it_is_free() -> None:
    fleet = Fleet(node("n1", 1))
    low = fleet.submit(1)
    fleet.run(1)
    high = fleet.submit(2, request(priority=75))
    assert (low.phase, high.phase) == (Phase.TERMINATING, Phase.PENDING)
    assert high.claim is not None
    assert high.claim.waits_for == (low.id,)
    assert fleet.world.queues.account("p", "default").allocated == GPU
    fleet.gone(1)
    assert (low.phase, high.phase) == (Phase.PENDING, Phase.INITIALIZING)
    assert (low.attempt, low.ours) == (2, 1)
    fleet.finish(2)
    assert low.phase is Phase.INITIALIZING
    kinds = [type(d) for d in fleet.decisions if isinstance(d, Claimed | Preempted | Placed)]
    assert kinds == [Placed, Claimed, Preempted, Placed, Placed]


def test_equal_priority_and_other_projects_are_left_alone() -> None:
    fleet = Fleet(node("n1", 2))
    fleet.project("q", {"default": 10})
    fleet.submit(1)
    fleet.submit(2, request(priority=10), project="q")
    waiting = fleet.submit(3)
    assert waiting.phase is Phase.PENDING
    assert not evictions(fleet)


def test_non_preemptible_work_is_never_taken() -> None:
    fleet = Fleet(node("n1", 1))
    fleet.submit(1, request(preemptible=False))
    assert fleet.submit(2, request(priority=99)).phase is Phase.PENDING
    assert not evictions(fleet)


def test_non_preemptible_work_within_quota_takes_its_own_queue() -> None:
    fleet = Fleet(node("n1", 1))
    fleet.submit(1)
    fleet.submit(2, request(preemptible=False))
    assert evictions(fleet) == [workload_id(1)]


def test_nobody_is_evicted_where_that_would_not_help() -> None:
    fleet = Fleet(node("n1", 2))
    fleet.submit(1, request(preemptible=False))
    low = fleet.submit(2)
    assert fleet.submit(3, request(role(whole(2)), priority=75)).phase is Phase.PENDING
    assert low.phase is Phase.INITIALIZING
    assert not evictions(fleet)


def test_one_goes_and_not_ten() -> None:
    fleet = Fleet(node("n1", 8))
    for number in range(1, 9):
        fleet.submit(number)
        fleet.wait(1)
    fleet.submit(9, request(role(whole(2)), priority=75))
    assert sorted(evictions(fleet)) == [workload_id(7), workload_id(8)]


def test_one_card_is_emptied_and_not_the_one_that_many_share() -> None:
    fleet = Fleet(node("n1", 2))
    fleet.submit(1)
    fleet.run(1)
    run_later(fleet, range(2, 12), portion(90))
    fleet.submit(12, request(priority=75))
    assert evictions(fleet) == [workload_id(1)], "ten have less to lose each, but are ten"


def test_a_gang_is_one_interruption_beside_as_many_singles() -> None:
    fleet = Fleet(node("n1", 8))
    fleet.submit(1, request(role(whole(), 4)))
    fleet.run(1)
    run_later(fleet, range(2, 6), whole())
    fleet.submit(6, request(role(whole(4)), priority=75))
    assert evictions(fleet) == [workload_id(1)]


def test_fewer_interruptions_never_cost_a_higher_priority() -> None:
    fleet = Fleet(node("n1", 13))
    fleet.submit(1, request(role(whole(), 5), priority=60))
    fleet.submit(2, request(role(whole(), 4)))
    for number in (1, 2):
        fleet.run(number)
    run_later(fleet, range(3, 7), whole())
    fleet.submit(7, request(role(whole(4)), priority=75))
    assert evictions(fleet) == [workload_id(2)], "neither four singles nor the gang above it"


def test_the_reprieve_keeps_whoever_need_not_go() -> None:
    fleet = Fleet(node("n1", 4), node("n2", 4))
    fleet.submit(1, request(role(whole(4))))
    for number in (2, 3, 4, 5):
        fleet.submit(number)
    fleet.submit(6, request(role(whole(4)), priority=75))
    assert evictions(fleet) in ([workload_id(1)], [workload_id(n) for n in (5, 4, 3, 2)])
    assert len({fleet.workload(n).phase for n in range(2, 6)}) == 1


def test_who_leaves_anyway_is_waited_for() -> None:
    fleet = Fleet(node("n1", 2))
    first, second = fleet.submit(1), fleet.submit(2)
    fleet.send(events.SuspendRequested("e", first.id))
    high = fleet.submit(3, request(priority=75))
    assert high.phase is Phase.PENDING
    assert not evictions(fleet)
    assert fleet.world.waiting.reason(high.id).code is WaitingReason.CLAIM
    fleet.gone(1)
    assert high.phase is Phase.INITIALIZING
    assert second.phase is Phase.INITIALIZING


def test_nobody_is_evicted_in_one_cluster_where_somebody_leaves_another() -> None:
    fleet = Fleet(node("n1", 4, cluster="c1"), node("n2", 4, cluster="c2"), quota=4)
    fleet.project("q", {"default": 0})
    fleet.submit(1, request(role(whole(4)), clusters=("c2",)))
    fleet.run(1)
    for number in range(2, 6):
        fleet.submit(number, request(clusters=("c1",)), project="q")
        fleet.run(number)
    fleet.send(events.DeletionRequested("e", workload_id(1)))
    taker = fleet.submit(6)
    assert (evictions(fleet), fleet.world.waiting.reason(taker.id).code) == ([], WaitingReason.CLAIM)
    fleet.gone(1)
    assert (taker.phase, taker.cluster) == (Phase.INITIALIZING, "c2")


def test_a_claim_is_not_given_to_others() -> None:
    fleet = Fleet(node("n1", 2))
    fleet.submit(1)
    fleet.submit(2)
    high = fleet.submit(3, request(role(whole(2)), priority=75))
    late = fleet.submit(4)
    fleet.gone(1)
    assert (high.phase, late.phase) == (Phase.PENDING, Phase.PENDING)
    fleet.gone(2)
    assert (high.phase, late.phase) == (Phase.INITIALIZING, Phase.PENDING)


def test_a_claim_ends_with_its_taker() -> None:
    fleet = Fleet(node("n1", 1))
    low = fleet.submit(1)
    high = fleet.submit(2, request(priority=75))
    fleet.send(events.DeletionRequested("e", high.id))
    assert high.phase is Phase.DELETED
    fleet.gone(1)
    assert low.phase is Phase.INITIALIZING
    assert not fleet.world.claims


def test_a_claim_is_planned_anew_when_its_node_dies() -> None:
    fleet = Fleet(node("n1", 1), node("n2", 1))
    fleet.submit(1)
    fleet.submit(2)
    high = fleet.submit(3, request(priority=75))
    assert high.claim is not None
    (victim,) = evictions(fleet)
    dead = fleet.workload(1 if victim == workload_id(1) else 2).replicas["worker", 0].node[1]
    states = {name: NodeState.NOT_READY if name == dead else NodeState.READY for name in ("n1", "n2")}
    fleet.inventory("c1", [node(name, 1, state=state) for name, state in states.items()])
    assert high.claim is not None
    assert {planned.node[1] for planned in high.claim.planned} != {dead}
    assert len(evictions(fleet)) == 2


def test_preempted_for_good() -> None:
    fleet = Fleet(node("n1", 1))
    low = fleet.submit(1, request(terminate_after_preemption=True))
    fleet.submit(2, request(priority=75))
    assert isinstance(fleet.records(1)[-1], Release)
    fleet.gone(1)
    assert low.phase is Phase.FAILED
    assert low.reason is ChangeReason.TERMINATED_AFTER_PREEMPTION


@pytest.mark.parametrize(("limit", "survived"), [(0, 0), (2, 2), (None, 4)])
def test_a_workload_ends_with_the_preemption_above_its_limit(limit: int | None, survived: int) -> None:
    fleet = Fleet(node("n1", 1))
    low = fleet.submit(1, request(preemption_limit=limit))
    for number in range(survived + (limit is not None)):
        assert low.phase is Phase.INITIALIZING
        fleet.submit(number + 2, request(priority=75))
        fleet.gone(1)
        assert low.preemptions == number + 1
        if low.phase is Phase.PENDING:
            fleet.finish(number + 2)
    assert (low.phase is Phase.FAILED) is (limit is not None)


def test_a_waiting_gang_gets_room_from_what_was_placed_after_it() -> None:
    fleet = Fleet(node("n1", 2))
    fleet.submit(1, request(preemptible=False))
    gang = fleet.submit(2, request(role(whole(2)), priority=75))
    fleet.submit(3)
    fleet.finish(1)
    assert evictions(fleet) == [workload_id(3)]
    fleet.gone(3)
    assert gang.phase is Phase.INITIALIZING


def test_portions_give_way_to_a_whole_card() -> None:
    fleet = Fleet(node("n1", 1))
    for number in (1, 2):
        fleet.submit(number, request(role(portion(500))))
    high = fleet.submit(3, request(priority=75))
    assert sorted(evictions(fleet)) == [workload_id(1), workload_id(2)]
    fleet.gone(1)
    assert high.phase is Phase.PENDING
    fleet.gone(2)
    assert high.phase is Phase.INITIALIZING


def test_heads_that_are_refused_spend_the_budget_and_the_next_cycle_goes_on() -> None:
    fleet = Fleet(node("n1", 1))
    fleet.submit(1, request(role(whole(1)), preemptible=False))
    waiting = [fleet.admitted(number, request(role(whole(1, cpu=number)), preemptible=False)) for number in (2, 3, 4)]
    fleet.send(*waiting, budget=Budget(visits=1600))
    assert [fleet.world.waiting.reason(workload_id(number)) is None for number in (2, 3, 4)] == [False, False, True]
    fleet.send()
    assert fleet.world.waiting.reason(workload_id(4)) is not None


def test_evictions_have_a_budget_too() -> None:
    fleet = Fleet(node("n1", 4))
    for number in range(1, 5):
        fleet.submit(number)
    fleet.send(fleet.admitted(9, request(role(whole(4)), priority=75)), budget=Budget(evictions=0))
    assert not evictions(fleet)
    assert fleet.world.waiting.reason(workload_id(9)) is None
    fleet.send(budget=Budget(evictions=1))
    assert len(evictions(fleet)) == 4


def test_no_ping_pong() -> None:
    """With arrivals frozen the evictions end, whoever restarts meanwhile."""
    fleet = Fleet(node("n1", 2))
    for number, priority in enumerate((10, 20, 30, 40, 50, 60), 1):
        fleet.submit(number, request(priority=priority))
    for _ in range(20):
        for number in range(1, 7):
            if fleet.workload(number).phase is Phase.TERMINATING:
                fleet.gone(number)
    assert len(evictions(fleet)) == 4
    assert [fleet.workload(n).phase for n in (5, 6)] == [Phase.INITIALIZING] * 2


def test_the_preemptions_of_a_workload_outlive_the_scheduler() -> None:
    fleet = Fleet(node("n1", 1))
    low = fleet.submit(1, request(preemption_limit=2))
    fleet.submit(2, request(priority=75))
    fleet.gone(1)
    columns = {"id": low.id, "project": low.project, "name": low.name, "attempt": low.attempt}
    phases = {"phase": low.phase.value, "desired": low.desired.value}
    again, _ = to_workload({**columns, **phases, "body": of_workload(low)}, {})
    assert (again.preemptions, again.ours) == (1, 1)
