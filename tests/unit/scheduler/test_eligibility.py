"""Which nodes a workload may use: types, taints, drains, standing together; and that the reason says so."""

from __future__ import annotations

import pytest

from muster_kernel.reasons import Constraint, WaitingReason
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.quotas import Quota
from muster_scheduler.domain.asked.rules import NodeTypes, Rules, tightened
from muster_scheduler.domain.asked.terms import HOST_LABEL, Terms, Together, Toleration, stays
from muster_scheduler.domain.asked.workloads import SECOND, Request, WorkloadKind
from muster_scheduler.domain.books.queues import Project
from muster_scheduler.domain.fleet.nodes import Node, NodeState
from tests.support.asking import why
from tests.support.fleets import START, Fleet, node, request, role, whole

TYPE = "run.ai/type"


def labelled(name: str, number: int = 8, *, taints: tuple[tuple[str, str, str], ...] = (), **labels: str) -> Node:
    made = node(name, number)
    made.labels = tuple(sorted((key.replace("_", "/"), value) for key, value in labels.items()))
    made.taints = taints
    return made


def typed(name: str, kind: str, number: int = 8) -> Node:
    made = node(name, number)
    made.labels = ((TYPE, kind),)
    return made


def asks(*, size: int = 1, devices: int = 1, kind: WorkloadKind = WorkloadKind.TRAINING, **terms: object) -> Request:
    return request(role(whole(devices), size), kind=kind)._replace(terms=Terms(**terms))  # type: ignore[arg-type]


def where(fleet: Fleet, number: int) -> set[str]:
    return {replica.node[1] for replica in fleet.workload(number).replicas.values()}


def rule(fleet: Fleet, *, rules: Rules = Rules(), types: NodeTypes = NodeTypes()) -> None:  # noqa: B008 - values
    quota = {"default": Quota(100 * 7000)}
    fleet.send(events.ProjectChanged(Project("p", "d", quota, 0, rules, types)))


def test_a_node_type_is_a_must() -> None:
    fleet = Fleet(typed("a", "dgx", 1), typed("b", "hgx"))
    fleet.submit(1, asks(node_type="dgx"))
    fleet.submit(2, asks(node_type="dgx"))
    assert where(fleet, 1) == {"a"}
    told = {constraint: number for constraint, number, _ in why(fleet, 2).excluded}
    assert told == {Constraint.NO_IDLE_GPU: 1, Constraint.WRONG_NODE_TYPE: 1}
    assert why(fleet, 2).reason.code is WaitingReason.NO_CAPACITY  # type: ignore[union-attr]
    assert why(fleet, 2).reason.numbers[1] == 0, "what is free on another type is not free for it"  # type: ignore[union-attr]
    fleet.finish(1)
    assert where(fleet, 2) == {"a"}


def test_without_the_label_a_nodes_type_is_its_devices_model() -> None:
    fleet = Fleet(node("a"))
    fleet.submit(1, asks(node_type="A100-80GB"))
    assert where(fleet, 1) == {"a"}


def test_a_type_that_no_node_has_is_said_with_counts() -> None:
    fleet = Fleet(typed("a", "dgx"), typed("b", "dgx"))
    fleet.submit(1, asks(node_type="hgx"))
    reason = why(fleet, 1).reason
    assert reason is not None
    assert (reason.code, reason.numbers) == (WaitingReason.WRONG_NODE_TYPE, (2, 2))
    assert reason.sentence() == "no node of its node pools will do: of 2, 2 are of a type that it may not use"
    fleet.inventory("c1", [typed("a", "dgx"), typed("b", "hgx")])
    assert where(fleet, 1) == {"b"}


@pytest.mark.parametrize(
    ("kind", "asked", "found"),
    [
        (WorkloadKind.TRAINING, "", {"b"}),
        (WorkloadKind.DISTRIBUTED, "", {"b"}),
        (WorkloadKind.TRAINING, "dgx", set()),
        (WorkloadKind.WORKSPACE, "", {"a"}),
        (WorkloadKind.INFERENCE, "", {"a"}),
    ],
)
def test_a_projects_types_are_by_kind_and_narrow_with_the_workloads(
    kind: WorkloadKind, asked: str, found: set[str]
) -> None:
    fleet = Fleet(typed("a", "dgx"), typed("b", "hgx"))
    rule(fleet, types=NodeTypes(training=("hgx",), workspace=("dgx", "old")))
    fleet.submit(1, asks(kind=kind, node_type=asked))
    assert where(fleet, 1) == found


def test_a_changed_list_wakes_what_waits() -> None:
    fleet = Fleet(typed("a", "dgx"))
    rule(fleet, types=NodeTypes(training=("hgx",)))
    fleet.submit(1)
    assert not where(fleet, 1)
    rule(fleet, types=NodeTypes(training=("dgx",)))
    assert where(fleet, 1) == {"a"}


TAINT = ("team", "vision", "NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        (Toleration("team", "vision"), True),
        (Toleration("team", "speech"), False),
        (Toleration("team", exists=True), True),
        (Toleration("other", exists=True), False),
        (Toleration("", exists=True), True),
        (Toleration(""), False),
        (Toleration("team", "vision", effect="NoSchedule"), True),
        (Toleration("team", "vision", effect="NoExecute"), False),
    ],
)
def test_tolerations_are_read_as_kubernetes_reads_them(toleration: Toleration, covers: bool) -> None:
    assert toleration.covers(TAINT) is covers
    fleet = Fleet(labelled("a", taints=(TAINT,)))
    fleet.submit(1, asks(tolerations=(toleration,)))
    assert where(fleet, 1) == ({"a"} if covers else set())


def test_a_taint_that_nobody_tolerates_is_the_reason() -> None:
    fleet = Fleet(labelled("a", taints=(TAINT,)), typed("b", "dgx"))
    fleet.submit(1, asks(node_type="A100-80GB"))
    assert why(fleet, 1).reason.code is WaitingReason.WRONG_NODE_TYPE  # type: ignore[union-attr]
    fleet.inventory("c1", [labelled("a", taints=(TAINT,))])
    fleet.wait(1)
    reason = why(fleet, 1).reason
    assert reason is not None
    assert reason.sentence() == "no node of its node pools will do: of 1, 1 has a taint that it does not tolerate"


def test_a_node_that_asks_to_be_last_is_taken_last() -> None:
    shy = labelled("a", 1, taints=(("old", "", "PreferNoSchedule"),))
    fleet = Fleet(shy, node("b", 2))
    for number in (1, 2, 3):
        fleet.submit(number)
    assert [where(fleet, number) for number in (1, 2, 3)] == [{"b"}, {"b"}, {"a"}]


def test_the_shortest_stay_counts() -> None:
    taint = ("k", "", "NoExecute")
    for_ever, a_minute = Toleration("k", exists=True), Toleration("k", exists=True, seconds=60)
    assert stays((), taint) == 0
    assert stays((for_ever,), taint) is None
    assert stays((for_ever, a_minute), taint) == 60


def draining(name: str, seconds: int) -> Node:
    made = node(name)
    made.state, made.drain_deadline = NodeState.DRAINING, START + seconds * SECOND
    return made


def test_what_ends_before_a_drain_may_still_start() -> None:
    fleet = Fleet(draining("a", 3600))
    fleet.submit(1)
    assert {each[0] for each in why(fleet, 1).excluded} == {Constraint.NODE_UNAVAILABLE}
    rule(fleet, rules=Rules(training_time=7200))
    assert {each[0] for each in why(fleet, 1).excluded} == {Constraint.CLOSES_TOO_SOON}
    rule(fleet, rules=Rules(training_time=1800))
    assert where(fleet, 1) == {"a"}


def test_no_deadline_no_new_work() -> None:
    fleet = Fleet(node("a", state=NodeState.DRAINING))
    rule(fleet, rules=Rules(training_time=10))
    fleet.submit(1)
    assert not where(fleet, 1)


def rack(name: str, number: int, of: str) -> Node:
    made = node(name, number)
    made.labels = (("rack", of),)
    return made


def test_a_gang_that_stands_together_takes_the_fullest_domain_that_holds_it() -> None:
    nodes = [rack("a", 2, "r1"), rack("b", 2, "r2"), rack("c", 2, "r2"), rack("d", 8, "r3"), node("e", 8)]
    fleet = Fleet(*nodes)
    fleet.submit(1, asks(size=4, together=Together("rack", required=True)))
    assert where(fleet, 1) == {"b", "c"}
    fleet.submit(2, asks(size=9, together=Together("rack", required=True)))
    assert not where(fleet, 2), "no rack has nine"
    fleet.submit(3, asks(size=9, together=Together("rack", required=False)))
    assert where(fleet, 3), "a wish does not keep it waiting"


def test_without_a_label_named_it_is_the_node() -> None:
    fleet = Fleet(node("a", 2), node("b", 4))
    fleet.submit(1, asks(size=3, together=Together(HOST_LABEL, required=True)))
    assert where(fleet, 1) == {"b"}


def test_later_replicas_of_a_service_join_the_others() -> None:
    fleet = Fleet(rack("a", 1, "r1"), rack("b", 8, "r1"), rack("c", 1, "r2"))
    asked = request(role(whole()), kind=WorkloadKind.INFERENCE, max_scale=3)
    fleet.submit(1, asked._replace(terms=Terms(together=Together("rack", required=True))))
    first = where(fleet, 1)
    fleet.send(events.ScaleAdvised(fleet.workload(1).id, 2))
    assert len(fleet.workload(1).replicas) == (1 if first == {"c"} else 2)
    assert where(fleet, 1) <= ({"c"} if first == {"c"} else {"a", "b"})


def test_a_project_may_only_tighten() -> None:
    assert tightened(Rules(training_time=60), Rules(training_time=90, interactive_idle=5)) == Rules(
        training_time=60, interactive_idle=5
    )
