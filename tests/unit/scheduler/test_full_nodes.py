"""A node takes no more replicas than its limit of pods allows, in every way of placing, and `why` says so."""

from __future__ import annotations

import pytest

from muster_kernel.lifecycle import Phase
from muster_kernel.reasons import WaitingReason
from muster_kernel.sentences import Reason
from muster_scheduler.adapters import views
from muster_scheduler.adapters.rows import of_node, to_node
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.requests import Shape
from muster_scheduler.domain.asked.workloads import Stretch
from muster_scheduler.domain.books.pools import NodePool, Strategy
from muster_scheduler.domain.fleet.nodes import UNBOUNDED, Node
from tests.support.asking import why
from tests.support.fleets import Fleet, host, mig_slice, node, portion, request, role, whole

FULL = WaitingReason.REPLICAS_FULL


def limited(name: str, most: int, gpus: int = 8, **more: bool) -> Node:
    made = node(name, gpus, **more)  # type: ignore[arg-type]
    made.most_replicas = most
    return made


def reason(fleet: Fleet, number: int) -> Reason | None:
    found = fleet.world.waiting.reason(fleet.workload(number).id)
    assert found is None or isinstance(found, Reason)
    return found


@pytest.mark.parametrize("shape", [host(), whole(), portion(100), portion(100, 2), mig_slice("1g.10gb")])
@pytest.mark.parametrize("strategy", list(Strategy))
def test_replicas_of_every_kind_count(shape: Shape, strategy: Strategy) -> None:
    fleet = Fleet(limited("a", 2, mig=bool(shape.profile)))
    fleet.send(events.NodePoolChanged(NodePool(1, "c1", "default", 0, strategy, strategy)))
    for number in (1, 2, 3):
        fleet.submit(number, request(role(shape), preemptible=False))
    assert [bool(fleet.workload(number).replicas) for number in (1, 2, 3)] == [True, True, False]
    assert reason(fleet, 3) == Reason(FULL, (1,))
    fleet.finish(1)
    assert fleet.workload(3).replicas


def test_a_place_that_becomes_free_helps_whoever_waits_for_it() -> None:
    fleet = Fleet(limited("a", 1))
    fleet.submit(1, request(role(host()), preemptible=False))
    fleet.submit(2, request(role(whole())))
    fleet.submit(3, request(role(portion(500)), priority=90))
    assert [reason(fleet, number) for number in (2, 3)] == [Reason(FULL, (1,))] * 2
    fleet.finish(1)
    assert [bool(fleet.workload(number).replicas) for number in (2, 3)] == [False, True]


def test_many_that_come_at_once_stay_within_the_limit() -> None:
    fleet = Fleet(limited("a", 30), limited("b", 20))
    fleet.send(*(fleet.admitted(number, request(role(host(100, 0)))) for number in range(60)))
    nodes = fleet.world.inventory.nodes
    assert [len(nodes["c1", name].entries) for name in "ab"] == [30, 20]


def test_a_gang_is_spread_over_what_nodes_take() -> None:
    fleet = Fleet(limited("a", 3), limited("b", 2), node("c", 1))
    fleet.submit(1, request(role(whole(), 6)))
    assert sorted(r.node[1] for r in fleet.workload(1).replicas.values()) == [*"aaabbc"]
    fleet.submit(2, request(role(host(), 3), role(whole(), 1, "leader")))
    assert reason(fleet, 2) == Reason(FULL, (2,))


def test_a_gang_that_no_limits_allow_never_starts() -> None:
    fleet = Fleet(limited("a", 3), limited("b", 2))
    fleet.submit(1, request(role(host(), 6)))
    found = reason(fleet, 1)
    assert found is not None
    assert found.code is WaitingReason.TOO_LARGE_TOGETHER
    fleet.inventory("c1", [limited("a", 4), limited("b", 2)])
    assert fleet.workload(1).replicas


def test_an_elastic_gang_grows_to_the_limit() -> None:
    fleet = Fleet(limited("a", 3))
    gang = request(role(whole(), 2))._replace(stretch=Stretch("worker", 2, 6))
    fleet.submit(1, gang)
    fleet.run(1)
    fleet.wait(60)
    assert len(fleet.workload(1).replicas) == 3
    fleet.submit(2, request(role(host())))
    assert len(fleet.workload(1).leaving) == 1, "what it has beyond its minimum gives way for a place"


@pytest.mark.parametrize("shape", [host(), whole()])
def test_a_lower_priority_gives_its_place(shape: Shape) -> None:
    fleet = Fleet(limited("a", 1))
    fleet.submit(1, request(role(shape)))
    fleet.run(1)
    fleet.submit(2, request(role(whole()), priority=75))
    assert fleet.workload(1).phase is Phase.TERMINATING
    assert not fleet.workload(2).replicas
    fleet.gone(1)
    assert fleet.workload(2).replicas
    assert reason(fleet, 1) == Reason(FULL, (1,))


def test_another_queue_gives_its_place_back() -> None:
    fleet = Fleet(limited("a", 2), quota=1)
    fleet.project("q", {"default": 7})
    for number in (1, 2):
        fleet.submit(number, request(role(whole())))
        fleet.run(number)
    fleet.wait(100)
    fleet.submit(3, request(role(whole())), project="q")
    assert fleet.workload(3).claim is not None
    assert {fleet.workload(number).phase for number in (1, 2)} == {Phase.RUNNING, Phase.TERMINATING}


def test_more_pods_of_others_leave_less() -> None:
    fleet = Fleet(limited("a", 2))
    fleet.submit(1)
    fleet.inventory("c1", [limited("a", 0)])
    assert fleet.world.inventory.nodes["c1", "a"].free_replicas == -1
    assert fleet.workload(1).replicas, "what runs stays"
    fleet.submit(2)
    assert reason(fleet, 2) == Reason(FULL, (1,))
    fleet.inventory("c1", [limited("a", 2)])
    assert fleet.workload(2).replicas


def test_why_says_how_many_nodes_are_full_and_what_helps() -> None:
    fleet = Fleet(limited("a", 1), limited("b", 0), node("c", 0))
    fleet.submit(1, request(preemptible=False))
    fleet.submit(2)
    answer = why(fleet, 2)
    assert answer.reason == Reason(FULL, (2,))
    assert answer.reason.sentence() == "2 nodes have enough free for it, but may run no more pods"
    assert [(number, text) for _, number, text in answer.excluded] == [
        (2, "may run no more pods"),
        (1, "has no such GPU"),
    ]
    assert answer.nearest[:2] == ("a lacks a place for 1 more pod", "b lacks a place for 1 more pod")
    assert answer.unblockers == (
        "w1 (1 GPU, non-preemptible, Initializing) ended",
        "a or b allowed more pods (maxPods of the kubelet), or pods of others there ended",
    )
    fleet.inventory("c1", [limited("a", 1), limited("b", 1), node("c", 0)])
    assert fleet.workload(2).replicas, "what is said to help does"


def test_rows_keep_the_limit() -> None:
    assert to_node("c1", "a", of_node(limited("a", 7))).most_replicas == 7
    assert to_node("c1", "a", of_node(node("a", 1))).most_replicas == UNBOUNDED


def test_a_view_has_the_limit_of_a_node_that_has_one() -> None:
    fleet = Fleet(limited("a", 7), node("b", 1))
    fleet.submit(1, request(role(whole(8))))
    first, second = (views.node(fleet.world, each) for each in fleet.world.inventory.nodes.values())
    assert (first.most_replicas, first.replicas, second.HasField("most_replicas")) == (7, 1, False)
