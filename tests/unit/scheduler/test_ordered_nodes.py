"""An operator's cordon or drain holds until it is taken back, whatever the agent reports, and over a rebuild."""

from __future__ import annotations

from typing import Any

import pytest

from muster_kernel.lifecycle import Phase
from muster_scheduler.adapters import rows
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.workloads import SECOND
from muster_scheduler.domain.fleet.nodes import NodeState
from muster_scheduler.domain.fleet.orders import Order, holding, obey
from tests.support.fleets import Fleet, node, request, role, whole

CORDON = Order(NodeState.CORDONED, "anna")


def ordered(fleet: Fleet, name: str, order: Order) -> None:
    fleet.send(events.NodeOrdered("c1", name, order))


def state_of(fleet: Fleet, name: str = "a") -> NodeState:
    found: NodeState = fleet.world.inventory.nodes["c1", name].state
    return found


def test_a_cordoned_node_takes_nothing_new_and_keeps_what_runs() -> None:
    fleet = Fleet(node("a", 2))
    fleet.submit(1, request(role(whole())))
    fleet.run(1)
    ordered(fleet, "a", CORDON)
    fleet.submit(2, request(role(whole())))
    assert fleet.workload(1).phase is Phase.RUNNING
    assert fleet.workload(2).phase is Phase.PENDING
    ordered(fleet, "a", Order())
    assert fleet.workload(2).replicas, "the node takes work again at once"


def test_reports_do_not_lift_an_order() -> None:
    fleet = Fleet(node("a", 2))
    ordered(fleet, "a", CORDON)
    fleet.inventory("c1", [node("a", 2)])
    assert state_of(fleet) is NodeState.CORDONED
    fleet.inventory("c1", [node("a", 2, state=NodeState.OUT_OF_SERVICE)])
    assert state_of(fleet) is NodeState.OUT_OF_SERVICE, "the agent knows that it is worse"
    fleet.inventory("c1", [node("a", 2)])
    assert state_of(fleet) is NodeState.CORDONED
    ordered(fleet, "a", Order())
    assert state_of(fleet) is NodeState.READY


def test_a_node_that_went_away_is_still_cordoned_when_it_is_back() -> None:
    fleet = Fleet(node("a", 2), node("b", 2))
    ordered(fleet, "a", CORDON)
    fleet.inventory("c1", [node("b", 2)])
    fleet.inventory("c1", [node("b", 2)])
    assert not fleet.world.inventory.nodes["c1", "a"].present
    fleet.inventory("c1", [node("a", 2), node("b", 2)])
    assert state_of(fleet) is NodeState.CORDONED
    fleet.inventory("c1", [node("b", 2)])
    ordered(fleet, "a", Order())
    assert ("c1", "a") not in fleet.world.inventory.nodes


def test_a_drain_moves_what_runs_by_its_deadline() -> None:
    fleet = Fleet(node("a", 1), node("b", 2))
    fleet.submit(1, request(role(whole())))
    fleet.run(1)
    (replica,) = fleet.workload(1).replicas.values()
    at = replica.node[1]
    ordered(fleet, at, Order(NodeState.DRAINING, "anna", fleet.now + 100 * SECOND))
    assert fleet.workload(1).phase is Phase.RUNNING
    fleet.wait(101)
    assert fleet.workload(1).phase is Phase.TERMINATING
    fleet.inventory("c1", [node("a", 1), node("b", 2)])
    assert state_of(fleet, at) is NodeState.DRAINING


def test_an_order_of_an_unknown_node_and_a_repeated_one_change_nothing() -> None:
    fleet = Fleet(node("a", 1))
    before = fleet.state.digest()
    ordered(fleet, "nowhere", CORDON)
    assert fleet.state.digest() == before
    ordered(fleet, "a", CORDON)
    cordoned = fleet.state.digest()
    assert cordoned != before
    ordered(fleet, "a", CORDON)
    assert fleet.state.digest() == cordoned


def test_an_aborted_order_leaves_no_trace() -> None:
    fleet = Fleet(node("a", 1))
    before = fleet.state.digest()
    fleet.state.begin(fleet.now)
    fleet.state.apply(events.NodeOrdered("c1", "a", CORDON))
    fleet.state.abort()
    assert fleet.state.digest() == before
    fleet.state.check()


@pytest.mark.parametrize("order", [CORDON, Order(NodeState.DRAINING, "anna", 7), Order()])
def test_an_order_is_in_the_row_of_its_node(order: Order) -> None:
    made = node("a", 1)
    obey(made, order)
    read = rows.to_node("c1", "a", rows.of_node(made))
    assert (read.state, read.drain_deadline) == (made.state, made.drain_deadline)
    obey(read, Order())
    assert (read.state, read.drain_deadline) == (NodeState.READY, 0), "what its agent said is still known"


def test_a_row_of_before_the_orders_is_read() -> None:
    body: Any = rows.of_node(node("a", 1))
    for field in ("said_state", "said_deadline", "ordered", "ordered_by", "ordered_deadline"):
        start = body.index(f',"{field}":')
        end = min(at for at in (body.find(",", start + 1), body.find("}", start)) if at > 0)
        body = body[:start] + body[end:]
    read = rows.to_node("c1", "a", body)
    assert (read.state, read.ordered, read.said_state) == (NodeState.READY, None, NodeState.READY)


def test_what_holds() -> None:
    there = node("a", 1, state=NodeState.NOT_READY)
    assert holding(there, CORDON).state is NodeState.NOT_READY
    assert holding(there, Order()).state is NodeState.NOT_READY
