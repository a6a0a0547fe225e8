"""What operators order of nodes: cordoned or draining until they say otherwise, whatever the agent reports.

Called where a report or an order comes in. Holds: an order outlives reports, restarts and the node's absence; it never
opens a node that its agent says is not ready or out of service.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from muster_scheduler.domain.fleet.nodes import Node, NodeState

ORDERS: Final = frozenset({NodeState.CORDONED, NodeState.DRAINING})
_IN_SERVICE: Final = frozenset({NodeState.READY, *ORDERS})


class Order(NamedTuple):
    """state: CORDONED, DRAINING, or None for none. deadline: with DRAINING, when it has to be empty (microseconds)."""

    state: NodeState | None = None
    by: str = ""
    deadline: int = 0


class Holding(NamedTuple):
    """The state of a node that holds, and its deadline; the fields of `Node`."""

    state: NodeState
    drain_deadline: int


def order_of(node: Node) -> Order:
    """What was ordered of a node."""
    return Order(node.ordered, node.ordered_by, node.ordered_deadline)


def holding(node: Node, order: Order) -> Holding:
    """What holds for a node under an order: the order where the node is in service, else what its agent says."""
    said = node.said_state or NodeState.NOT_READY
    if order.state is None or said not in _IN_SERVICE:
        return Holding(said, node.said_deadline)
    return Holding(order.state, order.deadline if order.state is NodeState.DRAINING else 0)


def obey(node: Node, order: Order) -> None:
    """Puts an order on a node that is in no books yet, such as one that was just reported."""
    node.ordered, node.ordered_by, node.ordered_deadline = order
    node.state, node.drain_deadline = holding(node, order)
