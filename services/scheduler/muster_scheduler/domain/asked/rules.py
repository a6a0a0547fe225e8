"""The rules of projects and departments: how long workloads may run and idle, and on which types of nodes.

Values and what they come to for one workload. A project may only tighten what its department says.
Made by stream/intentions.py, kept with projects and departments, read by eligibility and by fleet/clocks.py.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from muster_scheduler.domain.asked.workloads import Request, WorkloadKind

_TRAININGS: Final = frozenset({WorkloadKind.TRAINING, WorkloadKind.DISTRIBUTED})


class Rules(NamedTuple):
    """Limits in seconds; None: no rule."""

    interactive_time: int | None = None
    interactive_idle: int | None = None
    interactive_preemptible_idle: int | None = None
    training_idle: int | None = None
    training_time: int | None = None


class NodeTypes(NamedTuple):
    """The node types on which workloads of a kind may run; empty: any."""

    training: tuple[str, ...] = ()
    workspace: tuple[str, ...] = ()


NO_RULES: Final = Rules()
ANY_TYPE: Final = NodeTypes()


def tightened(outer: Rules, inner: Rules) -> Rules:
    """What holds where both say something: the shorter of each limit."""
    if NO_RULES in (outer, inner):
        return inner if outer == NO_RULES else outer
    pairs = ([limit for limit in pair if limit is not None] for pair in zip(outer, inner, strict=True))
    return Rules(*(min(limits) if limits else None for limits in pairs))


def run_limit(rules: Rules, request: Request) -> int | None:
    """The longest that a workload may run, in seconds; None: as long as it likes. Services have no such rule."""
    if request.kind is WorkloadKind.WORKSPACE:
        return rules.interactive_time
    return rules.training_time if request.kind in _TRAININGS else None


def idle_limit(rules: Rules, request: Request) -> int | None:
    """The longest that it may leave its GPUs idle, in seconds; None: as long as it likes."""
    if request.kind is WorkloadKind.WORKSPACE:
        return rules.interactive_preemptible_idle if request.preemptible else rules.interactive_idle
    return rules.training_idle if request.kind in _TRAININGS else None


def types_of(kind: WorkloadKind, listed: NodeTypes) -> frozenset[str] | None:
    """The types that a list leaves to workloads of a kind; None: any."""
    names = listed.workspace if kind is WorkloadKind.WORKSPACE else listed.training if kind in _TRAININGS else ()
    return frozenset(names) or None


def allowed_types(kind: WorkloadKind, asked: str, *lists: NodeTypes) -> frozenset[str] | None:
    """What the lists of a project and its department and the workload's own type have in common; None: any."""
    sets = [found for each in lists if (found := types_of(kind, each)) is not None]
    if asked:
        sets.append(frozenset({asked}))
    return frozenset.intersection(*sets) if sets else None
