"""What would let a workload use nodes that it may not use: a taint tolerated, a node type allowed to its project.

Called by explain.py where no node of its pools is one that it may use. Each is tried in the books and taken back.
Holds: the state is as it was afterwards; at most `_NAMED` lines of a kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from muster_scheduler.domain.answers.remedies import line_for, nodes_of
from muster_scheduler.domain.answers.trying import taken_back
from muster_scheduler.domain.answers.viewing import Viewer
from muster_scheduler.domain.answers.wording import taint_in_words
from muster_scheduler.domain.asked.rules import NodeTypes, types_of
from muster_scheduler.domain.asked.terms import Toleration
from muster_scheduler.domain.asked.workloads import Request, Workload, WorkloadKind
from muster_scheduler.domain.books.eligible import eligibility_of
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.fleet.eligibility import types_of_node, untolerated

_NAMED: Final = 3
_Lists = list[tuple[str, NodeTypes]]


def tolerating(world: World, workload: Workload, request: Request, viewer: Viewer) -> list[str]:
    """The taints of nodes of its pools which it would have to tolerate, those of most nodes first."""
    asked = eligibility_of(world.queues, workload, world.limits.grace)
    there = Counter(tuple(untolerated(asked, node)) for node in nodes_of(world, request))
    found: list[str] = []
    for taints in sorted(filter(None, there), key=lambda each: (-there[each], each))[:_NAMED]:
        more = (Toleration(key, value, effect=effect) for key, value, effect in taints)
        terms = request.terms._replace(tolerations=(*request.terms.tolerations, *more))
        text = f"it tolerated {' and '.join(map(taint_in_words, taints))}"
        found += line_for(world, workload, request._replace(terms=terms), text, viewer)
    return found


def allowing(world: World, workload: Workload, request: Request, viewer: Viewer) -> list[str]:
    """The node types of its pools that its project, and its department, would have to allow."""
    there = Counter(each for node in nodes_of(world, request) for each in types_of_node(node))
    found: list[str] = []
    for kind in sorted(there, key=lambda name: (-there[name], name))[:_NAMED]:
        with taken_back(world):
            whose = list(_allow(world, workload, request, kind))
            text = f"{' and '.join(whose)} allowed node type {kind} for {_WORK[request.kind]}" if whose else ""
            found += line_for(world, workload, request, text, viewer) if text else []
    return found


_WORK: Final = {
    WorkloadKind.TRAINING: "trainings",
    WorkloadKind.DISTRIBUTED: "trainings",
    WorkloadKind.WORKSPACE: "workspaces",
}


def _allow(world: World, workload: Workload, request: Request, kind: str) -> Iterator[str]:
    """Has the lists that leave the type out name it, and says whose they are."""
    project, department = world.queues.projects.get(workload.project), world.queues.department_of(workload.project)
    if project is not None and _leaves_out(project.node_types, request, kind):
        world.queues.put(replace(project, node_types=_with(project.node_types, request, kind)))
        yield project.name
    if department is not None and _leaves_out(department.node_types, request, kind):
        world.queues.put_department(replace(department, node_types=_with(department.node_types, request, kind)))
        yield f"department {department.name}"


def _leaves_out(listed: NodeTypes, request: Request, kind: str) -> bool:
    return kind not in (types_of(request.kind, listed) or {kind})


def _with(listed: NodeTypes, request: Request, kind: str) -> NodeTypes:
    if request.kind is WorkloadKind.WORKSPACE:
        return listed._replace(workspace=(*listed.workspace, kind))
    return listed._replace(training=(*listed.training, kind))
