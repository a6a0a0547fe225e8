"""Why what runs has no more replicas: how many of how many, what stands against the next one, what would help."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster_kernel.quantities import GPU
from muster_kernel.reasons import Constraint, FailureClass
from muster_scheduler.adapters.explaining import explanation
from muster_scheduler.domain import events
from muster_scheduler.domain.answers.explain import explain
from muster_scheduler.domain.answers.viewing import Viewer
from muster_scheduler.domain.asked.limits import FAULT_LIMIT
from muster_scheduler.domain.asked.quotas import ModelQuota, Quota, UserLimit
from muster_scheduler.domain.asked.rules import NodeTypes
from muster_scheduler.domain.asked.terms import HOST_LABEL, Apart, Terms, Wish
from muster_scheduler.domain.asked.workloads import ReplicaState, Request, WorkloadKind
from muster_scheduler.domain.fleet.nodes import Node, NodeState
from tests.support.asking import why
from tests.support.fleets import Fleet, device_memory, node, request, role, whole, workload_id
from tests.support.growing import elastic, growth, series, service, started

EACH = pytest.mark.parametrize(
    "asked", [series(9, 6), elastic(2, 6), service(1, 6)], ids=["trials", "elastic", "service"]
)


@EACH
def test_one_that_has_all_or_waits_is_told_nothing_of_growing(asked: Request) -> None:
    fleet = started(Fleet(node("a", 8)), asked)
    assert len(fleet.workload(1).replicas) == 6
    assert why(fleet, 1).growth is None
    fleet.submit(2, request(role(whole(8))))
    assert why(fleet, 2).growth is None


def test_a_gang_that_cannot_grow_and_what_has_not_begun_are_told_nothing() -> None:
    fleet = Fleet(node("a", 2))
    fleet.submit(1, request(role(whole(1), 2)))
    assert why(fleet, 1).growth is None
    fleet.send(events.SuspendRequested("e", workload_id(1)))
    assert why(fleet, 1).growth is None


@EACH
def test_a_limit_is_told_with_its_numbers_and_how_large_it_would_have_to_be(asked: Request) -> None:
    fleet = Fleet(node("a", 8))
    fleet.project("p", {"default": 100}, limit=4)
    told = growth(started(fleet, asked))
    assert (told.has, told.wanted, told.code) == (4, 6, "OverLimit")
    assert told.text == "the project uses 4 of the 4 GPUs that it may hold at most (1 short)"
    assert told.helps == ("p might hold 5 GPUs in node pool default",)
    assert [(share.queue, share.held) for share in why(fleet, 1).shares] == [("p", 4 * GPU)]
    fleet.project("p", {"default": 100}, limit=5)
    fleet.wait(30)
    assert len(fleet.workload(1).replicas) == 5


@pytest.mark.parametrize("asked", [series(9, 6, preemptible=False), service(1, 6, preemptible=False)])
def test_what_is_not_preemptible_grows_within_what_its_project_deserves(asked: Request) -> None:
    fleet = Fleet(node("a", 8), quota=3)
    told = growth(started(fleet, asked))
    assert (told.has, told.wanted, told.code) == (3, 6, "OverQuota")
    assert told.text == "non-preemptible work uses 3 of the 3 GPUs that the project deserves (1 short)"
    assert told.helps == ("p deserved 4 GPUs in node pool default",)
    fleet.project("p", {"default": 4})
    assert len(fleet.workload(1).replicas) == 4


def test_the_surplus_of_a_gang_needs_no_quota() -> None:
    assert len(started(Fleet(node("a", 8), quota=2), elastic(2, 6, preemptible=False)).workload(1).replicas) == 6


@EACH
def test_without_room_the_nodes_are_told_and_who_would_have_to_end(asked: Request) -> None:
    fleet = Fleet(node("a", 4), node("b", 1))
    fleet.submit(2, request(preemptible=False))
    told = growth(started(fleet, asked))
    answer = why(fleet, 1)
    assert (told.has, told.wanted, told.code) == (4, 6, "NoCapacity")
    assert told.text == "1 GPU is asked for and 0 are free in the pool"
    assert answer.excluded == ((Constraint.NO_IDLE_GPU, 2, "have no idle GPU"),)
    assert answer.nearest == ("a lacks 1 GPU", "b lacks 1 GPU")
    assert answer.unblockers == ("w2 (1 GPU, non-preemptible, Initializing) ended",)
    fleet.finish(2)
    fleet.wait(30)
    assert len(fleet.workload(1).replicas) == 5


@EACH
def test_nodes_that_take_no_new_work_are_told_and_what_opens_them(asked: Request) -> None:
    shut = node("b", 2, state=NodeState.CORDONED)
    fleet = started(Fleet(node("a", 4), shut), asked)
    told = growth(fleet)
    assert (told.code, told.text) == ("NodesUnavailable", "1 node that could hold it is cordoned")
    assert told.helps == ("b were uncordoned",)
    assert (Constraint.NODE_UNAVAILABLE, 1, "is cordoned") in why(fleet, 1).excluded
    fleet.inventory("c1", [node("a", 4), node("b", 2)])
    fleet.wait(30)
    assert len(fleet.workload(1).replicas) == 6


@EACH
def test_unhealthy_cards_are_told(asked: Request) -> None:
    sick = node("b", 2)
    for device in sick.devices:
        device.healthy = False
        device.tally()
    fleet = started(Fleet(node("a", 4), sick), asked)
    assert growth(fleet).helps[-1] == "the 2 unhealthy GPUs of b were healthy"


@EACH
def test_a_limit_of_the_department_and_room_that_lacks_stand_in_one_line(asked: Request) -> None:
    fleet = Fleet(node("a", 4))
    fleet.department("d", {"default": 100}, limit=4)
    told = growth(started(fleet, asked))
    assert told.text == "the department uses 4 of the 4 GPUs that it may hold at most (1 short)"
    assert told.helps == ("department d might hold 5 GPUs in node pool default, and there was room",)


def test_limits_of_users_and_of_models() -> None:
    fleet = Fleet(node("a", 8))
    fleet.project("p", {"default": 100}, users=(UserLimit("", gpu=2 * GPU, workloads=1),))
    told = growth(started(fleet, service(1, 6)))
    assert told.text == "its user holds 2 of the 2 GPUs that one user may hold in the project (1 short)"
    assert told.helps == ("one user of p might hold 3 GPUs in all node pools together",)
    fleet.project("p", {"default": 100}, models=(ModelQuota("A100-80GB", 100 * GPU, 2 * GPU),))
    told = growth(fleet)
    assert told.text == "the project uses 2 of the 2 GPUs of this model that it may hold at most (1 short)"
    assert told.helps == ("p might hold 3 GPUs of A100-80GB, which is what node pool default has",)


def test_what_nothing_helps_is_told_before_a_limit() -> None:
    fleet = Fleet(node("a", 8))
    fleet.project("p", {"default": 100}, limit=2)
    fleet = started(fleet, service(1, 6))
    tainted = node("a", 8)
    tainted.taints = (("team", "x", "NoSchedule"),)
    fleet.inventory("c1", [tainted])
    told = growth(fleet)
    assert (told.code, told.helps) == ("NotTolerated", ())


def test_a_node_type_that_its_project_took_from_it_is_told_and_what_gives_it_back() -> None:
    fleet = Fleet(node("a", 8))
    fleet.project("p", {"default": 100}, limit=2)
    started(fleet, series(9, 6))
    project = fleet.world.queues.projects["p"]
    quotas = {"default": Quota(100 * GPU, None, 1000)}
    closed = replace(project, version=1, quotas=quotas, node_types=NodeTypes(training=("H100-80GB",)))
    fleet.send(events.ProjectChanged(closed))
    told = growth(fleet)
    assert (told.has, told.code, told.helps) == (
        2,
        "WrongNodeType",
        ("p allowed node type A100-80GB for trainings",),
    )
    opened = NodeTypes(training=("H100-80GB", "A100-80GB"))
    fleet.send(events.ProjectChanged(replace(closed, version=2, node_types=opened)))
    assert len(fleet.workload(1).replicas) == 6


def _apart(asked: Request) -> Request:
    topology = Wish(apart=Apart(HOST_LABEL, required=True))
    return asked._replace(terms=Terms(topology=topology))


@EACH
def test_replicas_that_stand_apart_are_told_so(asked: Request) -> None:
    fleet = started(Fleet(node("a", 8), node("b", 8), node("c", 8)), _apart(asked))
    told = growth(fleet)
    assert (told.has, told.code) == (3, "Apart")
    assert told.text == "its replicas have to stand apart: it needs 4 nodes, and 3 have room for one now"
    assert told.helps == ()


@EACH
def test_only_who_gives_up_a_node_of_its_own_helps_what_stands_apart(asked: Request) -> None:
    fleet = Fleet(node("a", 2), node("b", 2), node("c", 2))
    fleet.submit(2, request(role(whole(2)), preemptible=False))
    fleet.submit(3, request(role(whole(1)), preemptible=False))
    started(fleet, _apart(asked))
    told = growth(fleet)
    assert (told.has, told.helps) == (2, ("w2 (2 GPUs, non-preemptible, Initializing) ended",))


def racked(name: str, number: int, rack: str) -> Node:
    made = node(name, number)
    made.labels = (("rack", rack),)
    return made


@EACH
def test_one_that_has_to_stay_in_its_rack_is_told_so(asked: Request) -> None:
    fleet = Fleet(racked("a", 3, "r1"), racked("b", 4, "r2"))
    fleet.submit(2, request(role(whole(4)), preemptible=False))
    told = growth(started(fleet, asked._replace(terms=Terms(topology=Wish(required="rack")))))
    assert (told.has, told.code) == (3, "NoCapacity")
    fleet.finish(2)
    fleet.wait(30)
    told = growth(fleet)
    assert (told.code, told.helps) == ("Topology", ())
    assert told.text.startswith("its 1 replica would fit, but not as close together as required")


def test_each_few_in_one_rack() -> None:
    asked = service(4, 8)._replace(terms=Terms(topology=Wish(group="rack", group_size=4)))
    fleet = started(Fleet(racked("a", 4, "r1"), racked("b", 2, "r2"), racked("c", 2, "r3")), asked)
    told = growth(fleet)
    assert (told.has, told.wanted, told.code) == (6, 8, "Topology")


def test_memory_of_a_gpu() -> None:
    asked = request(role(device_memory(60 << 30)), kind=WorkloadKind.INFERENCE, max_scale=3)
    told = growth(started(Fleet(node("a", 2)), asked))
    assert (told.has, told.wanted, told.code) == (2, 3, "NoCapacity")


@pytest.mark.parametrize("asked", [series(9, 2), service(1, 2)], ids=["trials", "service"])
def test_a_replica_that_rests_says_how_long_and_no_other_reason(asked: Request) -> None:
    fleet = started(Fleet(node("a", 2)), asked)
    fleet.send(fleet.status(1, ReplicaState.FAILED, rank=1, exit_code=3, failure=FailureClass.EXIT))
    fleet.send(fleet.status(1, None, rank=1, exit_code=3, failure=FailureClass.EXIT, gone=True))
    told = growth(fleet)
    assert (told.has, told.wanted, told.code) == (1, 2, "Backoff")
    assert told.text == "the pause after its last end or refusal, 10 s left"
    fleet.wait(10)
    assert why(fleet, 1).growth is None


def test_an_elastic_gang_waits_for_calm_for_others_and_for_its_own() -> None:
    fleet = Fleet(node("a", 4), node("b", 2))
    fleet.submit(1, elastic(2, 6))
    assert growth(fleet).text == "its own replicas: 0 of 2 run, and it grows once all do"
    fleet.run(1)
    fleet.wait(10)
    told = growth(fleet)
    assert (told.has, told.wanted, told.code) == (2, 6, "GrowsLater")
    assert told.text == "30 s of calm: it grows once nobody has waited for room for so long, 20 s left"
    fleet.submit(2, request(role(whole(4))))
    fleet.submit(3, request(role(whole(4))))
    told = growth(fleet)
    assert (told.code, told.helps) == ("OthersWait", ())
    assert told.text == "1 workload that waits for room in node pool default: it grows only while none waits"
    fleet.submit(4, request(role(whole(4))))
    assert growth(fleet).text.startswith("2 workloads that wait for room")


def test_an_elastic_gang_that_met_too_many_faults_grows_after_an_hour_without_one() -> None:
    fleet = started(Fleet(node("a", 4)), elastic(2, 4))
    for _ in range(FAULT_LIMIT):
        last = max(fleet.workload(1).replicas.values(), key=lambda each: each.holder.rank).holder
        failed = fleet.status(1, ReplicaState.FAILED, rank=last.rank, failure=FailureClass.INFRASTRUCTURE)
        fleet.send(failed)
        fleet.send(fleet.status(1, None, rank=last.rank, k=last.k, failure=FailureClass.INFRASTRUCTURE, gone=True))
        fleet.wait(60)
        fleet.run(1)
    told = growth(fleet)
    assert (told.has, told.wanted, told.code) == (3, 4, "FaultLimit")
    assert told.text == "10 faults of the fleet in a row: it grows after an hour without one, 3540 s left"
    fleet.wait(3540)
    assert growth(fleet).code == "GrowsLater"
    fleet.wait(30)
    fleet.run(1)
    assert why(fleet, 1).growth is None, "it has all four"
    fleet.send(fleet.status(1, ReplicaState.FAILED, rank=3, failure=FailureClass.INFRASTRUCTURE))
    assert fleet.workload(1).faults == 1


def test_workloads_of_other_projects_are_not_named() -> None:
    fleet = Fleet(node("a", 3))
    fleet.project("q", {"default": 1})
    fleet.submit(2, request(preemptible=False), project="q")
    started(fleet, service(1, 6))
    told = explain(fleet.world, fleet.workload(1), Viewer(frozenset({"p"})))
    assert told.unblockers == ("a workload of another project ended",)


def test_a_silent_cluster_takes_no_more() -> None:
    fleet = started(Fleet(node("a", 2)), service(1, 4))
    fleet.now += 40_000_000
    fleet.send()
    assert growth(fleet).text == "1 node that could hold it is in a silent cluster"


def test_what_is_said_goes_out_with_its_numbers() -> None:
    fleet = Fleet(node("a", 4))
    fleet.project("p", {"default": 100}, limit=3)
    started(fleet, series(9, 6))
    made = explanation(fleet.workload(1), why(fleet, 1))
    assert (made.growth.replicas, made.growth.wanted, made.growth.reason.code) == (3, 6, "OverLimit")
    assert made.growth.reason.message == growth(fleet).text
    assert list(made.unblockers) == ["p might hold 4 GPUs in node pool default"]
    assert made.reason.code == "AllReady", "and what it is stays said"
    fleet.project("p", {"default": 100})
    fleet.submit(2, request(role(whole(8))))
    assert not explanation(fleet.workload(2), why(fleet, 2)).HasField("growth")
