"""Nodes that take no new work for now, in an answer: why, until when, and what would let a workload start on them.

Called by explain.py. A node is opened, or a run-time limit set, in the books, the gang placed, and all taken back.
Holds: the state is as it was afterwards; bounded by `_NAMED` lines of a kind, `_MOST` nodes and `_LIMITS` limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from muster_scheduler.domain.answers.rivals import taken_first
from muster_scheduler.domain.answers.trying import has_room_in, taken_back
from muster_scheduler.domain.answers.viewing import Viewer
from muster_scheduler.domain.answers.wording import span
from muster_scheduler.domain.asked.requests import Grant, Role, replica_count
from muster_scheduler.domain.asked.rules import Rules
from muster_scheduler.domain.asked.workloads import SECOND, Request, Workload, WorkloadKind
from muster_scheduler.domain.books.capacity import Capacity
from muster_scheduler.domain.books.eligible import eligibility_of
from muster_scheduler.domain.books.models import asked_of
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.fleet.closures import Cause, Closure
from muster_scheduler.domain.fleet.counts import counts_of
from muster_scheduler.domain.fleet.nodes import Mig, Node, NodeState
from muster_scheduler.domain.placement.cluster_choice import clusters_for
from muster_scheduler.domain.placement.place import amount_before, mig_of
from muster_scheduler.domain.placement.reasoning import closures
from muster_scheduler.domain.placement.slicing import fit_there

_NAMED: Final = 3
_MOST: Final = 64
_FEW: Final = 2_000  # nodes; in a larger pool a single node is tried
_LIMITS: Final = 4
_MINUTE: Final = 60  # seconds; a limit leaves one, so that it is enough still when it has been set

# What is said of one node and of several.
_PLAIN: Final = {
    Cause.CORDONED: ("is cordoned", "are cordoned"),
    Cause.NOT_READY: ("is not ready", "are not ready"),
    Cause.OUT_OF_SERVICE: ("is out of service", "are out of service"),
    Cause.GONE: ("is reported no longer", "are reported no longer"),
    Cause.LAYOUT: ("gets another MIG layout", "get another MIG layout"),
}
_HELPS: Final = {
    Cause.CORDONED: "uncordoned",
    Cause.NOT_READY: "ready",
    Cause.OUT_OF_SERVICE: "back in service",
    Cause.DRAINING: "not drained",
    Cause.WINDOW: "without that maintenance window",
}
_Shut = tuple[Node, Closure]


def closed_in_words(closure: Closure, now: int) -> tuple[str, str]:
    """Why and until when, of one node and of several."""
    if closure.cause in _PLAIN:
        return _PLAIN[closure.cause]
    if closure.cause is Cause.WINDOW:
        return _window_in_words(closure, now)
    if not closure.since:
        return "drains", "drain"
    if closure.since <= now:
        return "drains, and has had to be empty by now", "drain, and have had to be empty by now"
    within = f"to be empty within {span(closure.since - now)}"
    return f"drains, and has {within}", f"drain, and have {within}"


def _window_in_words(closure: Closure, now: int) -> tuple[str, str]:
    if closure.since <= now:
        rest = f"in a maintenance window for {span(closure.until - now)} more"
        return f"is {rest}", f"are {rest}"
    window = f"a maintenance window in {span(closure.since - now)}, for {span(closure.until - closure.since)}"
    return f"has {window}", f"have {window}"


def opened(world: World, workload: Workload, request: Request, pool: str, viewer: Viewer) -> list[str]:
    """The closed nodes of a pool of which each would let a single replica start; of a gang the fewest that would."""
    found: list[str] = []
    for cluster, capacity, shut in _closed_there(world, workload, request, pool):
        sets = [[each] for each in shut[: _NAMED if len(capacity.nodes) <= _FEW else 1]]
        if replica_count(request.roles) > 1:
            sets = [shut[: _enough(world, workload, request, capacity, shut)]]
        for each in sets:
            with taken_back(world):
                _open(world, each)
                if has_room_in(world, workload, request, cluster, pool):
                    found.append(f"{_told(each)}{taken_first(world, workload, pool, [cluster], viewer)}")
    return found[:_NAMED]


def limited(world: World, workload: Workload, request: Request, pool: str, viewer: Viewer) -> list[str]:
    """The longest run-time limit of its project with which it starts on nodes that have to be empty only later."""
    project = world.queues.projects.get(workload.project)
    if project is None or request.kind not in _LIMITED:
        return []
    field, whose = _LIMITED[request.kind]
    for cluster, _, shut in _closed_there(world, workload, request, pool):
        times = sorted({closure.since for _, closure in shut if closure.since > world.now}, reverse=True)[:_LIMITS]
        for limit in filter(None, (_limit(world, workload, at) for at in times)):
            with taken_back(world):
                rules: Rules = project.rules._replace(**{field: limit})
                world.queues.put(replace(project, rules=rules))
                if has_room_in(world, workload, request, cluster, pool):
                    first = taken_first(world, workload, pool, [cluster], viewer)
                    return [f"{project.name} limited the run time of {whose} to {span(limit * SECOND)}{first}"]
    return []


_LIMITED: Final = {
    WorkloadKind.WORKSPACE: ("interactive_time", "workspaces"),
    WorkloadKind.TRAINING: ("training_time", "trainings"),
    WorkloadKind.DISTRIBUTED: ("training_time", "trainings"),
}


def _limit(world: World, workload: Workload, closing: int) -> int:
    """The run-time limit, in seconds and whole minutes, with which it ends before a node has to be empty; 0: none."""
    left = (closing - world.now + workload.ran) // SECOND - world.limits.grace
    return max(0, left // _MINUTE - 1) * _MINUTE


def _holds(world: World, node: Node, roles: list[Role], mig: Mig) -> bool:
    return any(isinstance(fit_there(world, node, role.shape, mig), Grant) for role in roles)


def _closed_there(
    world: World, workload: Workload, request: Request, pool: str
) -> Iterator[tuple[str, Capacity, list[_Shut]]]:
    """The closed nodes of each cluster's part of the pool that would hold one of its replicas, the emptiest first."""
    asked = asked_of(world, workload, amount_before(world, request, pool).gpu)
    for cluster in clusters_for(world, workload, request, pool):
        capacity, mig = world.inventory.capacity(cluster, pool), mig_of(world, cluster)
        if capacity is None:
            continue
        shut = [(capacity.nodes[n], each) for n, each in closures(capacity, asked, world.now).items()]
        roles = [role for role in request.roles if role.size]
        holding = [each for each in shut if each[1].cause in _HELPS and _holds(world, each[0], roles, mig)]
        if holding and not has_room_in(world, workload, request, cluster, pool):  # else it waits for something else
            yield cluster, capacity, sorted(holding, key=lambda each: (-each[0].idle, each[0].name))[:_MOST]


def _enough(world: World, workload: Workload, request: Request, capacity: Capacity, shut: Sequence[_Shut]) -> int:
    """How many of these have to be opened until the pool holds each role by itself; all where it never does."""
    asked = eligibility_of(world.queues, workload, world.limits.grace)
    mask = capacity.usable.mask(asked, world.now)
    for number, (node, _) in enumerate(shut, 1):
        mask[node.ordinal] = True
        columns = replace(capacity.columns, open=mask)
        if all(int(counts_of(columns, role.shape, role.size).sum()) >= role.size for role in request.roles):
            return number
    return len(shut)


def _open(world: World, nodes: Sequence[_Shut]) -> None:
    world.inventory.imagine([_ready(node) for node, _ in nodes])


def _ready(node: Node) -> Node:
    devices = [replace(device, entries={}) for device in node.devices]
    return replace(node, state=NodeState.READY, drain_deadline=0, windows=(), devices=devices)


def _told(nodes: Sequence[_Shut]) -> str:
    """That each of them were what it is not, those of one cause together."""
    parts: list[str] = []
    for cause, words in _HELPS.items():
        names = sorted(node.name for node, closure in nodes if closure.cause is cause)
        if names:
            shown = names if len(names) <= _NAMED else [*names[:_NAMED], f"{len(names) - _NAMED} more"]
            listed = f"{', '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else shown[0]
            parts.append(f"{listed} were {words}")
    return " and ".join(parts)
