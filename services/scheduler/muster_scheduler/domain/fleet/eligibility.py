"""Which nodes may take a workload, whatever they have free: types, taints, terms, and nodes that are soon to be empty.

Called by placement for every node that it looks at, by the columns as a mask a class, and by explanations.
Holds: the answer depends on the eligibility (what the workload, its project and its department say), the node as
reported, and the time, and on nothing that anybody holds; two workloads of equal eligibility may use the same nodes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from muster_kernel.reasons import Constraint
from muster_scheduler.domain.asked.terms import RELUCTANT, REPELLING, Toleration
from muster_scheduler.domain.asked.workloads import SECOND
from muster_scheduler.domain.fleet.nodes import Node

MAINTENANCE_NOTICE: Final = 6 * 3600 * SECOND  # so long before a window only what ends before it is placed
TYPE_LABEL: Final = "run.ai/type"


class Eligibility(NamedTuple):
    """What nodes are held against. `runs`: microseconds after which nothing of it is left, None: unknown.

    avoided: nodes that refused it lately, and clusters with an empty name in place of a node's.
    """

    types: frozenset[str] | None = None
    tolerations: tuple[Toleration, ...] = ()
    runs: int | None = None
    avoided: frozenset[tuple[str, str]] = frozenset()
    closed: frozenset[str] = frozenset()  # GPU models of which a quota is used up
    kept: frozenset[tuple[str, str]] = frozenset()  # nodes that are reserved for another workload


ANY_NODE: Final = Eligibility()


def excluded(asked: Eligibility, node: Node, now: int) -> Constraint | None:
    """The first constraint that keeps the node out for everything of this eligibility, or None."""
    if not node.open:
        return Constraint.NODE_UNAVAILABLE
    closed = _closed(asked, node, now) if node.closes else None
    out = closed or mismatch(asked, node)
    if out is None and asked.closed and not asked.closed.isdisjoint(models_of_node(node)):
        return Constraint.MODEL_CLOSED
    if out is None and asked.avoided and not asked.avoided.isdisjoint((node.key, (node.key[0], ""))):
        return Constraint.REFUSED_BEFORE
    return out or (Constraint.RESERVED if node.key in asked.kept else None)


def _closed(asked: Eligibility, node: Node, now: int) -> Constraint | None:
    """Why a node that has to be empty takes nothing of this eligibility: it would not have ended by then."""
    closing = node.closing(now)
    if not closing or (not node.draining and closing - now > MAINTENANCE_NOTICE):
        return None
    if closing <= now or asked.runs is None:
        return Constraint.NODE_UNAVAILABLE
    return Constraint.CLOSES_TOO_SOON if now + asked.runs > closing else None


def mismatch(asked: Eligibility, node: Node) -> Constraint | None:
    """What of the node no wait changes: its type, or a taint that is not tolerated. None: it would do."""
    if asked.types is not None and asked.types.isdisjoint(types_of_node(node)):
        return Constraint.WRONG_NODE_TYPE
    if node.taints and any(taint[2] in REPELLING and not _tolerated(asked, taint) for taint in node.taints):
        return Constraint.TAINTED
    return None


def untolerated(asked: Eligibility, node: Node) -> list[tuple[str, str, str]]:
    """The taints of the node that keep it out, as it has them."""
    return [taint for taint in node.taints if taint[2] in REPELLING and not _tolerated(asked, taint)]


def reluctant(asked: Eligibility, node: Node) -> bool:
    """Whether the node asks to be taken last: a PreferNoSchedule taint that is not tolerated."""
    return bool(node.taints) and any(t[2] == RELUCTANT and not _tolerated(asked, t) for t in node.taints)


def _tolerated(asked: Eligibility, taint: tuple[str, str, str]) -> bool:
    # A taint that is put up with for a while only would send away at once what was placed for it.
    return any(each.covers(taint) and each.seconds is None for each in asked.tolerations)


def types_of_node(node: Node) -> frozenset[str]:
    """The types of a node: its label run.ai/type, else the models of its devices."""
    label = node.label(TYPE_LABEL)
    if label:
        return frozenset({label})
    return models_of_node(node)


def models_of_node(node: Node) -> frozenset[str]:
    """The models of a node's devices."""
    return frozenset({device.model for device in node.devices} | ({node.slot_model} if node.slots else set())) - {""}
