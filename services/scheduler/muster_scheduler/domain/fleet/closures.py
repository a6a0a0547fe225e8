"""Nodes that take no new work for now, and why: what a cycle counts in its reason, and what is told of each of them.

Called by placement/reasoning.py when a class is blocked and by answers/closed.py; both ask it of the few nodes of a
pool that are anything but ready.
Holds: a node has a closure exactly where `excluded` says that it is unavailable or closes too soon, whatever else
would keep the workload out of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple

from muster_kernel.reasons import Constraint
from muster_scheduler.domain.fleet.eligibility import Eligibility, excluded, mismatch
from muster_scheduler.domain.fleet.nodes import Node, NodeState


class Cause(Enum):
    """Why a node takes no new work. LAYOUT: its MIG layout changes.

    GONE: nobody reports it, and something is charged to it still.
    """

    CORDONED = "cordoned"
    DRAINING = "draining"
    WINDOW = "window"
    NOT_READY = "not ready"
    OUT_OF_SERVICE = "out of service"
    LAYOUT = "layout"
    GONE = "gone"


class Closure(NamedTuple):
    """since, until: when it has to be empty, and when that is over (microseconds since 1970; 0: nobody has said)."""

    cause: Cause
    since: int = 0
    until: int = 0


_CLOSING: Final = frozenset({Constraint.NODE_UNAVAILABLE, Constraint.CLOSES_TOO_SOON})
_STATES: Final = {
    NodeState.CORDONED: Cause.CORDONED,
    NodeState.NOT_READY: Cause.NOT_READY,
    NodeState.OUT_OF_SERVICE: Cause.OUT_OF_SERVICE,
}


def closure_of(asked: Eligibility, node: Node, now: int) -> Closure | None:
    """Why the node takes nothing of this eligibility for now; None where it does, or never will."""
    if mismatch(asked, node) is not None or excluded(asked, node, now) not in _CLOSING:
        return None
    if not node.present:
        return Closure(Cause.GONE)
    if node.layout is not None:
        return Closure(Cause.LAYOUT)
    if node.state in _STATES:
        return Closure(_STATES[node.state])
    window = next(((start, end) for start, end in node.windows if end > now), None)
    if window is not None and (not node.draining or window[0] < node.drain_deadline):
        return Closure(Cause.WINDOW, *window)
    return Closure(Cause.DRAINING, node.drain_deadline)


def counted(closures: Iterable[Closure]) -> tuple[int, int, int]:
    """How many are cordoned, have to be empty by some time, and are not in service."""
    causes = [each.cause for each in closures]
    cordoned = causes.count(Cause.CORDONED)
    closing = sum(causes.count(each) for each in (Cause.DRAINING, Cause.WINDOW, Cause.LAYOUT))
    return cordoned, closing, len(causes) - cordoned - closing
