"""What is left over in a pool follows every charge, release and undo, and leaves out what the asker may not use."""

from __future__ import annotations

import pytest

from muster_kernel.quantities import GPU
from muster_scheduler.domain.answers.explain import explain
from muster_scheduler.domain.asked.terms import Toleration
from muster_scheduler.domain.fleet.eligibility import ANY_NODE, Eligibility
from muster_scheduler.domain.fleet.leftover import Leftover
from muster_scheduler.domain.fleet.nodes import Node, NodeState
from tests.support.fleets import Fleet, device_memory, host, mig_slice, node, portion, request, role, whole

TAINT = (("team", "vision", "NoSchedule"),)


def left(fleet: Fleet, asked: Eligibility = ANY_NODE) -> int:
    capacity = fleet.world.inventory.capacity("c1", "default")
    assert capacity is not None
    total = capacity.leftover.of(asked, fleet.now)
    assert isinstance(total, int)
    return total


def tainted(name: str) -> Node:
    made = node(name, 8)
    made.taints = TAINT
    return made


def test_it_follows_placements_ends_and_aborts() -> None:
    fleet = Fleet(node("a", 8), node("b", 8), node("s", slots=4))
    assert left(fleet) == 20 * GPU
    fleet.submit(1, request(role(whole(3))))
    fleet.submit(2, request(role(portion(250), 2)))
    held = 3 * GPU + GPU // 2
    assert left(fleet) == 20 * GPU - held
    fleet.state.begin(fleet.now)
    fleet.state.apply(fleet.admitted(3, request(role(whole(4)))))
    fleet.state.propose()
    assert left(fleet) == 16 * GPU - held
    fleet.state.abort()
    assert left(fleet) == 20 * GPU - held
    fleet.run(1)
    fleet.finish(1)
    assert left(fleet) == 20 * GPU - GPU // 2


def test_it_counts_what_the_asker_may_use() -> None:
    fleet = Fleet(node("a", 8), tainted("b"), node("c", 8, state=NodeState.CORDONED))
    assert left(fleet) == 8 * GPU
    tolerant = Eligibility(tolerations=(Toleration("team", "vision", effect="NoSchedule"),))
    assert left(fleet, tolerant) == 16 * GPU
    assert left(fleet, Eligibility(types=frozenset({"H100"}))) == 0
    assert left(fleet, Eligibility(avoided=frozenset({("c1", "a")}))) == 0


def test_a_wrong_count_is_found() -> None:
    nodes = [node("a", 8)]
    kept = Leftover(nodes)
    kept.check()
    nodes[0].devices[0].healthy = False
    nodes[0].devices[0].tally()
    with pytest.raises(AssertionError, match="counted as left over"):
        kept.check()


def test_memory_requests_and_hosts_leave_what_is_left() -> None:
    fleet = Fleet(node("a", 1))
    fleet.submit(1, request(role(device_memory(40 << 30))))
    fleet.submit(2, request(role(host())))
    assert left(fleet) == GPU // 2


def test_slices_and_cards_are_counted_apart_and_slices_by_their_compute() -> None:
    fleet = Fleet(node("a", 1, mig=True), node("b", 2))
    fleet.submit(1, request(role(mig_slice("1g.20gb")), preemptible=False))
    capacity = fleet.world.inventory.capacity("c1", "default")
    assert capacity is not None
    assert capacity.leftover.of(ANY_NODE, fleet.now, sliced=True) == GPU * 6 // 7
    assert left(fleet) == 2 * GPU
    fleet.submit(2, request(role(mig_slice("7g.80gb"))))
    reason = explain(fleet.world, fleet.workload(2)).reason
    assert reason is not None
    assert reason.sentence() == "1 GPU is asked for and 6/7 is free in the pool"
