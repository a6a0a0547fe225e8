"""When a running workload has to go by time alone: its longest run, idle GPUs, and nodes that are to be empty.

Called by the world (to set a timer) and by life/overdue.py (which ends what is due). Times are microseconds since 1970.
Holds: a limit counts from the placement; what earlier attempts ran is part of the run, until the workload was preempted
or resumed; a node asks its workloads to leave a grace before it has to be empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from muster_kernel.reasons import ChangeReason
from muster_scheduler.domain.asked.rules import NO_RULES, Rules, idle_limit, run_limit
from muster_scheduler.domain.asked.terms import NO_EXECUTE, Taint, Toleration, stays
from muster_scheduler.domain.asked.workloads import SECOND, Replica, Workload
from muster_scheduler.domain.fleet.nodes import Node


class Due(NamedTuple):
    """When a workload has to go, why, and from which node (None: wherever it is)."""

    at: int
    reason: ChangeReason
    message: str
    node: tuple[str, str] | None = None


def next_due(workload: Workload, rules: Rules, nodes: Mapping[tuple[str, str], Node], grace: int) -> Due | None:
    """The first of a workload's clocks; None where nothing limits it. grace: seconds that an end takes.

    Of two at the same time its own limit goes first: a node that only closes would have it come back.
    """
    found = [*_limits(workload, rules), *_nodes(workload, nodes, grace)]
    return min(found, key=lambda due: (due.at, due.node or ("", ""), due.reason), default=None)


def certain_end(workload: Workload, rules: Rules, nodes: Mapping[tuple[str, str], Node], grace: int) -> int | None:
    """When a running workload will have to go whatever it does; None: it is not known. grace: seconds.

    GPUs that stand idle may be used again, and of several nodes each sends away its own replicas alone.
    """
    alone = len({replica.node for replica in standing(workload)}) == 1
    found = [due.at for due in _limits(workload, rules) if due.reason is ChangeReason.RUN_TIME_LIMIT]
    found += [due.at for due in _nodes(workload, nodes, grace)] if alone else []
    return min(found, default=None)


def _limits(workload: Workload, rules: Rules) -> Iterator[Due]:
    request = workload.request
    if request is None or rules == NO_RULES:
        return
    longest, idle = run_limit(rules, request), idle_limit(rules, request)
    if longest is not None:
        text = f"it ran for {longest} s, the longest that its project allows"
        yield Due(workload.placed + longest * SECOND - workload.ran, ChangeReason.RUN_TIME_LIMIT, text)
    if idle is not None and workload.idle_since:
        text = f"it left its GPUs idle for {idle} s, the longest that its project allows"
        yield Due(max(workload.placed, workload.idle_since) + idle * SECOND, ChangeReason.IDLE_LIMIT, text)


def _nodes(workload: Workload, nodes: Mapping[tuple[str, str], Node], grace: int) -> Iterator[Due]:
    tolerations = workload.request.terms.tolerations if workload.request else ()
    for key in sorted({replica.node for replica in standing(workload)}):
        node = nodes.get(key)
        at = leave_by(node, tolerations, grace, workload.placed) if node is not None else None
        if at is not None:
            yield Due(at, ChangeReason.NODE_CLOSING, f"node {key[1]} has to be empty", key)


def standing(workload: Workload) -> list[Replica]:
    """Its replicas that are to stay, of the present and of a revision that is being replaced."""
    return [r for r in (*workload.replicas.values(), *workload.rolling.values()) if not r.gone]


def leave_by(node: Node, tolerations: tuple[Toleration, ...], grace: int, since: int) -> int | None:
    """When replicas that are there `since` have to be told to leave the node; None: they may stay. grace: seconds."""
    found = [closing - grace * SECOND] if (closing := node.closing(since)) else []
    for taint in no_execute(node):
        seconds = stays(tolerations, taint)
        if seconds is not None:
            found.append(node.tainted + seconds * SECOND)
    return min(found, default=None)


def no_execute(node: Node) -> tuple[Taint, ...]:
    """The taints of a node that send away what does not tolerate them."""
    return tuple(taint for taint in node.taints if taint[2] == NO_EXECUTE)


def tainted_since(known: Node | None, node: Node, now: int) -> int:
    """Since when a reported node has its present NoExecute taints; 0: it has none."""
    present = no_execute(node)
    if not present:
        return 0
    return known.tainted if known is not None and no_execute(known) == present else now
