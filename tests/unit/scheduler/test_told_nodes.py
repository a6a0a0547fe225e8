"""Of nodes that may not be used it is said by name why, and what is said would help does."""

from __future__ import annotations

from muster_kernel.reasons import Constraint
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.rules import NodeTypes
from muster_scheduler.domain.asked.terms import Toleration
from muster_scheduler.domain.asked.workloads import WorkloadKind
from muster_scheduler.domain.books.queues import Department, Project
from muster_scheduler.domain.fleet.nodes import Node
from tests.support.asking import why
from tests.support.fleets import Fleet, devices, node, request, role, whole


def tainted(name: str, number: int, *taints: tuple[str, str, str]) -> Node:
    made = node(name, number)
    made.taints = taints
    return made


def typed(name: str, number: int, kind: str) -> Node:
    made = node(name, number)
    made.labels = (("run.ai/type", kind),)
    return made


def twice(holder: str, *, extra: int = 0) -> list[Node]:
    """Two nodes that both report one GPU; the first has others beside."""
    return [
        node("a", cards=devices(holder, 1) + devices("other", extra)),
        node("b", cards=devices(holder, 1)),
    ]


def test_a_card_that_two_nodes_report_is_not_said_to_be_sick() -> None:
    fleet = Fleet(*twice("x"))
    fleet.submit(1, request(preemptible=False))
    fleet.submit(2, request(preemptible=False))
    answer = why(fleet, 2)
    assert answer.excluded == (
        (Constraint.NO_IDLE_GPU, 1, "has no idle GPU"),
        (Constraint.UNHEALTHY, 1, "has 1 GPU that another node reports too, and too little free beside"),
    )
    told = (
        "the GPUs of b that a of cluster c1 reports too were reported by b alone, and what runs on them there had ended"
    )
    assert told in answer.unblockers
    fleet.finish(1)
    fleet.submit(3, request(role(whole(1))))
    fleet.inventory("c1", [node("a", cards=devices("new", 0)), node("b", cards=devices("x", 1))])
    assert [bool(fleet.workload(number).replicas) for number in (2, 3)] == [True, False]


def test_taints_are_named() -> None:
    fleet = Fleet(
        tainted("a", 2, ("team", "x", "NoSchedule"), ("soft", "", "PreferNoSchedule")),
        tainted("b", 2, ("own", "", "NoExecute")),
    )
    fleet.submit(1, request(role(whole(2))))
    answer = why(fleet, 1)
    assert {text for _, _, text in answer.excluded} == {
        "has the taint team=x:NoSchedule, which it does not tolerate",
        "has the taint own:NoExecute, which it does not tolerate",
    }
    assert answer.unblockers == ("it tolerated own:NoExecute", "it tolerated team=x:NoSchedule")
    asked = request(role(whole(2)))
    tolerant = asked.terms._replace(tolerations=(Toleration("team", "x", effect="NoSchedule"),))
    fleet.submit(2, asked._replace(terms=tolerant))
    assert fleet.workload(2).replicas
    assert why(fleet, 1).unblockers == (
        "it tolerated own:NoExecute",
        "it tolerated team=x:NoSchedule, and there was room",
    )


def test_the_types_that_a_project_allows_are_named_and_which_it_could_allow() -> None:
    fleet = Fleet(typed("a", 2, "new"), typed("b", 2, "old"), typed("c", 1, "tiny"))
    only = NodeTypes(training=("other",))
    quota = fleet.world.queues.projects["p"].quotas
    fleet.send(events.ProjectChanged(Project("p", "d", quota, 0, node_types=only)))
    fleet.submit(1, request(role(whole(2))))
    answer = why(fleet, 1)
    assert {text for _, _, text in answer.excluded} == {
        f"is of type {kind} (it may use other)" for kind in ("new", "old", "tiny")
    }
    assert answer.unblockers == ("p allowed node type new for trainings", "p allowed node type old for trainings")
    fleet.send(events.ProjectChanged(Project("p", "d", quota, 1, node_types=NodeTypes(training=("other", "new")))))
    assert fleet.workload(1).replicas


def test_a_department_and_workspaces_have_lists_of_their_own() -> None:
    fleet = Fleet(typed("a", 2, "new"))
    none = NodeTypes(workspace=("other",))
    quota = fleet.world.queues.projects["p"].quotas
    fleet.send(events.DepartmentChanged(Department("d", {}, 0, node_types=none)))
    fleet.send(events.ProjectChanged(Project("p", "d", quota, 0, node_types=none)))
    fleet.submit(1, request(role(whole(2)), kind=WorkloadKind.WORKSPACE))
    assert why(fleet, 1).unblockers == ("p and department d allowed node type new for workspaces",)
    both = NodeTypes(workspace=("other", "new"))
    fleet.send(events.ProjectChanged(Project("p", "d", quota, 1, node_types=both)))
    assert why(fleet, 1).unblockers == ("department d allowed node type new for workspaces",)
    fleet.send(events.DepartmentChanged(Department("d", {}, 1, node_types=both)))
    assert fleet.workload(1).replicas
    fleet.submit(2, request(role(whole(2)), kind=WorkloadKind.INFERENCE))
    assert not any("allowed" in text for text in why(fleet, 2).unblockers), "no list is about services"
