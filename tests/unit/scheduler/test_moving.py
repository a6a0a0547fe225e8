"""Consolidation: scattered work moves together, and everybody has a place before anybody moves."""

from __future__ import annotations

import pytest

from muster_kernel.lifecycle import Phase
from muster_kernel.quantities import GPU
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.limits import Limits
from muster_scheduler.domain.asked.workloads import SECOND, Workload
from muster_scheduler.domain.decisions import Claimed, Preempted
from muster_scheduler.domain.fleet.nodes import NodeState
from tests.support.fleets import Fleet, node, portion, request, role, whole, workload_id


def evictions(fleet: Fleet) -> list[str]:
    return [d.workload for d in fleet.decisions if isinstance(d, Preempted)]


def scattered(*, preemptible: bool = True, limits: Limits | None = None) -> Fleet:
    """Two nodes of four cards with two one-card workloads left on each."""
    fleet = Fleet(node("n1", 4), node("n2", 4), limits=limits)
    for number in range(1, 9):
        fleet.submit(number, request(preemptible=preemptible))
        fleet.run(number)
    by_node: dict[str, list[int]] = {}
    for number in range(1, 9):
        by_node.setdefault(where(fleet.workload(number)), []).append(number)
    for numbers in by_node.values():
        for number in numbers[:2]:
            fleet.finish(number)
    return fleet


def where(workload: Workload) -> str:
    (replica,) = workload.replicas.values()
    return replica.node[1]


def test_two_move_so_that_a_gang_finds_a_whole_node() -> None:
    fleet = scattered()
    held = fleet.world.queues.account("p", "default").allocated
    taker = fleet.submit(20, request(role(whole(4))))
    movers = [fleet.workload(int(each[-4:], 16)) for each in evictions(fleet)]
    assert len(movers) == 2
    assert fleet.world.queues.account("p", "default").allocated == held + 4 * GPU
    assert all(mover.claim is not None and taker.id not in mover.claim.waits_for for mover in movers)
    for mover in movers:
        assert mover.phase is Phase.TERMINATING
        fleet.gone(int(mover.id[-4:], 16))
    assert taker.phase is Phase.INITIALIZING
    assert [mover.phase for mover in movers] == [Phase.INITIALIZING] * 2
    assert {where(mover) for mover in movers} == {"n1", "n2"} - {where(taker)}
    assert {mover.attempt for mover in movers} == {2}
    assert not fleet.world.claims


def test_nobody_moves_who_may_not_be_interrupted() -> None:
    fleet = scattered(preemptible=False)
    fleet.submit(20, request(role(whole(4))))
    assert not evictions(fleet)


def test_nobody_moves_where_the_movers_would_have_no_place() -> None:
    fleet = scattered()
    fleet.submit(10, request(role(portion(900), size=2), preemptible=False))
    before = len([d for d in fleet.decisions if isinstance(d, Claimed)])
    waiting = fleet.submit(20, request(role(whole(4))))
    assert waiting.phase is Phase.PENDING
    assert not evictions(fleet)
    assert len([d for d in fleet.decisions if isinstance(d, Claimed)]) == before


def test_who_would_end_by_being_moved_stays() -> None:
    fleet = Fleet(node("n1", 2), node("n2", 2))
    for number in range(1, 5):
        fleet.submit(number, request(terminate_after_preemption=True))
    by_node = {where(fleet.workload(number)): number for number in range(1, 5)}
    for number in by_node.values():
        fleet.finish(number)
    fleet.submit(20, request(role(whole(2))))
    assert not evictions(fleet)


@pytest.mark.parametrize("intention", [events.DeletionRequested, events.SuspendRequested])
def test_a_mover_that_is_not_wanted_any_more_gives_its_new_place_up(intention: type) -> None:
    fleet = scattered()
    fleet.submit(20, request(role(whole(4))))
    first, second = evictions(fleet)
    fleet.send(intention("e", first))
    for mover in (first, second):
        fleet.gone(int(mover[-4:], 16))
    assert fleet.world.workloads[first].claim is None
    assert fleet.world.workloads[first].phase in {Phase.DELETED, Phase.STOPPED}
    assert fleet.world.workloads[second].phase is Phase.INITIALIZING
    assert fleet.workload(20).phase is Phase.INITIALIZING


def test_a_mover_whose_new_node_dies_waits_for_another() -> None:
    fleet = scattered()
    fleet.submit(20, request(role(whole(4))))
    first, second = evictions(fleet)
    claim = fleet.world.workloads[first].claim
    assert claim is not None
    home = claim.planned[0].node[1]
    states = {name: NodeState.NOT_READY if name == home else NodeState.READY for name in ("n1", "n2")}
    fleet.inventory("c1", [node(name, 4, state=state) for name, state in states.items()])
    for mover in (first, second):
        assert fleet.world.workloads[mover].claim is None
        fleet.gone(int(mover[-4:], 16))
    assert {fleet.world.workloads[mover].phase for mover in (first, second)} == {Phase.PENDING}
    assert workload_id(20) in fleet.world.workloads


def test_nobody_moves_before_it_has_run_its_minimum() -> None:
    fleet = scattered(limits=Limits(minimum_run=3600 * SECOND))
    taker = fleet.submit(20, request(role(whole(4))))
    assert (evictions(fleet), taker.phase) == ([], Phase.PENDING)
    fleet.wait(3600)
    assert len(evictions(fleet)) == 2
