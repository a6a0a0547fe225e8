"""Why a workload waits, and what keeps which nodes out."""

from __future__ import annotations

import pytest

from muster_kernel.quantities import GPU
from muster_kernel.reasons import Constraint, FailureClass, WaitingReason
from muster_scheduler.domain import events
from muster_scheduler.domain.answers.explain import explain
from muster_scheduler.domain.answers.wording import asks
from muster_scheduler.domain.asked.quotas import UserLimit
from muster_scheduler.domain.asked.workloads import SECOND, ReplicaState, Request, WorkloadKind
from muster_scheduler.domain.fleet.clusters import Profile
from muster_scheduler.domain.fleet.nodes import NodeState
from tests.support.asking import said, why
from tests.support.fleets import Fleet, device_memory, devices, host, mig_slice, node, portion, request, role, whole


def test_every_node_is_counted_once() -> None:
    cards = devices("c1-foreign", 1)
    cards[0].foreign = True
    fleet = Fleet(
        node("full", 1),
        node("cordoned", state=NodeState.CORDONED),
        node("plain", 0),
        node("foreign", cards=cards),
        node("far", cluster="c2"),
        node("pool", pool="other"),
        node("small", 1, cpu=10),
        node("little", 1, memory=10),
    )
    asked = request(role(whole(1)), clusters=("c1",))
    fleet.submit(1, asked)
    fleet.submit(2, asked)
    counts = {constraint: number for constraint, number, _ in why(fleet, 2).excluded}
    assert counts == {
        Constraint.NO_IDLE_GPU: 2,
        Constraint.NODE_UNAVAILABLE: 1,
        Constraint.NO_GPU: 1,
        Constraint.WRONG_CLUSTER: 1,
        Constraint.WRONG_POOL: 1,
        Constraint.CPU: 1,
        Constraint.MEMORY: 1,
    }


def test_nodes_of_a_cluster_whose_policy_objects_are_named() -> None:
    fleet = Fleet(node("a", 8), node("b", 0, cluster="c2"))
    fleet.submit(1, request(role(whole(1)))._replace(excluded=("c1",)))
    told = {constraint: text for constraint, _, text in why(fleet, 1).excluded}
    assert told[Constraint.WRONG_CLUSTER] == "is in cluster c1, whose policy does not admit the workload"


def test_taints_and_silence_and_refusals() -> None:
    tainted = node("tainted")
    tainted.taints = (("key", "", "NoSchedule"),)
    fleet = Fleet(tainted, node("n1", 1))
    fleet.submit(1)
    fleet.send(events.AssignmentRefused("c1", fleet.order(), fleet.workload(1).id, 1, 1, "Full", "", "n1", 60))
    fleet.gone(1)
    counts = {constraint for constraint, _, _ in why(fleet, 1).excluded}
    assert counts == {Constraint.TAINTED, Constraint.REFUSED_BEFORE}
    fleet.now += 40 * SECOND
    fleet.send()
    assert {constraint for constraint, _, _ in why(fleet, 1).excluded} == {Constraint.CLUSTER_SILENT}


def test_a_field_that_a_cluster_refuses_is_named() -> None:
    fleet = Fleet(
        node("n1"),
        profile=Profile(portions=False, memory_requests=False, refused_fields=("gitSync", "s3", "kind=Inference")),
    )
    fleet.submit(1, request(fields=frozenset({"image", "gitSync"})))
    fleet.submit(2, request(role(portion(500))))
    fleet.submit(3, request(role(device_memory(1))))
    fleet.submit(4, request(role(mig_slice("1g.10gb"))))
    fleet.submit(5, request(kind=WorkloadKind.INFERENCE))
    told = [why(fleet, number).excluded for number in (1, 2, 3, 4, 5)]
    assert told == [
        ((Constraint.CLUSTER_NOT_SUPPORTED, 1, f"is in a cluster that does not support {lack}"),)
        for lack in ("gitSync", "portions of GPUs", "requests for GPU memory", "MIG slices", "kind=Inference")
    ]
    assert said(fleet, 4)[:2] == ("NotSupported", "1 cluster does not support MIG slices")


def test_pools_and_clusters_that_are_not_there_are_named_beside_those_that_are() -> None:
    fleet = Fleet(node("n1", 2), node("n2", 1, pool="old"), node("n3", 0, pool="hosts", cluster="c2"))
    fleet.submit(1, request(role(whole(2)), pools=("nope",)))
    fleet.submit(2, request(clusters=("west",)))
    code, _, nodes, helps = said(fleet, 1)
    assert (code, helps) == ("NoPool", ["it asked for node pool default"])
    assert sorted(nodes) == [f"1 is in node pool {each}, not in nope" for each in ("default", "hosts", "old")]
    code, _, nodes, helps = said(fleet, 2)
    assert (code, helps) == ("NoCluster", ["it might use cluster c1"])
    assert nodes == ["2 are in cluster c1, not in west", "1 is in cluster c2, not in west"]
    fleet.submit(4, request(pools=("old",), clusters=("c2",)))
    none = ("NoCluster", "no cluster in which it may run has nodes of its node pools")
    assert [said(fleet, number)[:2] for number in (2, 4)] == [none, none], "c2 is registered, without that node pool"
    assert said(fleet, 4)[3] == ["it might use cluster c1"]
    fleet.submit(3, request(role(whole(2))))
    assert why(fleet, 1).unblockers == ("it asked for node pool default, and there was room",)


def test_unhealthy_cards_are_told_and_what_would_start_with_them_healthy() -> None:
    cards = devices("c1-t1", 2)
    for card in cards:
        card.healthy = False
    fleet = Fleet(node("t1", cards=cards), node("n1", 1))
    fleet.submit(1, request(preemptible=False))
    fleet.submit(2, request(role(whole(2))))
    fleet.submit(3, request(role(whole(1), 2)))
    told = [text for _, _, text in why(fleet, 2).excluded]
    assert told == ["has too few GPUs", "has 2 unhealthy GPUs and too little free beside"]
    assert why(fleet, 2).unblockers == ("the 2 unhealthy GPUs of t1 were healthy",)
    assert (Constraint.UNHEALTHY, 1) in [each[:2] for each in why(fleet, 3).excluded]
    assert not any("healthy" in each for each in why(fleet, 3).unblockers), "tried for single replicas alone"
    fleet.inventory("c1", [node("t1", 2), node("n1", 1)])
    assert fleet.workload(2).replicas


def test_fragments() -> None:
    fleet = Fleet(node("n1", 2), node("n2", 2))
    fleet.submit(1)
    fleet.submit(2, request(role(whole(2))))
    fleet.submit(3)
    fleet.submit(4, request(role(portion(500))))
    fleet.finish(2)
    fleet.submit(5, request(role(portion(600), 2)))
    fleet.submit(6, request(role(whole(2))))
    answer = why(fleet, 6)
    assert answer.reason is not None
    assert answer.reason.code in {WaitingReason.FRAGMENTED, WaitingReason.NO_CAPACITY}
    assert Constraint.FITS not in {constraint for constraint, _, _ in answer.excluded}


def test_memory_of_a_card_is_asked_for_as_the_part_that_it_is() -> None:
    fleet = Fleet(node("n1", cards=devices("n1", 1, memory=40 << 30)))
    fleet.submit(1, request(role(portion(600)), preemptible=False))
    fleet.submit(2, request(role(device_memory(20 << 30)), preemptible=False))
    reason = why(fleet, 2).reason
    assert reason is not None
    assert reason.sentence() == "0.5 GPU is asked for and 0.4 is free in the pool"


def test_a_node_that_is_too_small_even_idle_is_said_to_be_that_whatever_else_keeps_it_out() -> None:
    fleet = Fleet(node("a", 4), node("b", 2), node("c", 4), quota=100)
    fleet.submit(1, request(role(whole(3)), preemptible=False))
    fleet.submit(2, request(role(whole(3)), preemptible=False))
    fleet.submit(3, request(role(whole(4)), preemptible=False))
    assert fleet.workload(3).reservation is not None
    fleet.submit(4, request(role(whole(9)), preemptible=False))
    assert why(fleet, 4).excluded == ((Constraint.TOO_FEW_GPUS, 3, "have too few GPUs"),)
    fleet.submit(5, request(preemptible=False))
    fleet.submit(6, request(preemptible=False))
    fleet.submit(7, request(role(whole(3)), preemptible=False))
    assert {constraint for constraint, _, _ in why(fleet, 7).excluded} >= {Constraint.RESERVED, Constraint.TOO_FEW_GPUS}


def test_where_the_devices_are_free_it_is_the_host_that_lacks() -> None:
    crowded = node("n1", 2)
    crowded.foreign_cpu = crowded.cpu * 2
    fleet = Fleet(crowded, node("n2", 2, cpu=1_500))
    fleet.submit(1, request(role(whole(1, cpu=1_000)), preemptible=False))
    fleet.submit(2, request(role(whole(1, cpu=1_000)), preemptible=False))
    answer = why(fleet, 2)
    assert answer.reason is not None
    assert answer.reason.sentence() == "no node has the CPU and memory free for its 1 replica"
    assert answer.excluded == ((Constraint.CPU, 2, "have too little free CPU"),)


def test_claims_and_backoffs() -> None:
    fleet = Fleet(node("n1", 1))
    fleet.submit(1)
    fleet.submit(2, request(priority=75))
    claimed = why(fleet, 2).reason
    assert claimed is not None
    assert (claimed.code, claimed.numbers) == (WaitingReason.CLAIM, (1,))
    answer = why(fleet, 2)
    assert (answer.unblockers, [each.text for each in answer.attempts]) == ((), ["w1 leaves for it"])
    other = Fleet(node("n1", 1))
    other.submit(1)
    for _ in range(2):
        other.report(1, ReplicaState.FAILED, exit_code=1, failure=FailureClass.EXIT)
        other.gone(1)
        other.wait(21)
    other.report(1, ReplicaState.FAILED, exit_code=1, failure=FailureClass.EXIT)
    other.gone(1)
    pause = why(other, 1).reason
    assert pause is not None
    assert pause.sentence() == "it restarts after a pause, 40 s left"
    assert why(other, 1).unblockers == (), "whoever ends, it starts when the pause is over"
    other.submit(2, request(preemptible=False))
    assert why(other, 1).unblockers == ("w2 (1 GPU, non-preemptible, Initializing) ended, and its pause was over",)
    other.wait(40)
    assert not other.workload(1).replicas
    other.finish(2)
    assert other.workload(1).replicas


def test_what_runs_waits_for_nothing() -> None:
    fleet = Fleet(node("n1", 1))
    fleet.submit(1)
    answer = why(fleet, 1)
    assert (answer.reason, answer.excluded, answer.unblockers) == (None, (), ())
    fleet.send(events.SuspendRequested("e", "00000000-0000-7000-8000-0000000000ff"))
    unknown = fleet.world.workloads["00000000-0000-7000-8000-0000000000ff"]
    assert explain(fleet.world, unknown).reason is None


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (request(role(whole(1))), "1 GPU"),
        (request(role(whole(8), 2)), "2 x 8 GPUs"),
        (request(role(portion(500))), "0.5 GPU"),
        (request(role(portion(250, 2))), "0.25 GPU on each of 2 devices"),
        (request(role(device_memory(20 << 30))), "20Gi of GPU memory"),
        (request(role(mig_slice("1g.10gb"))), "a 1g.10gb slice"),
        (request(role(host())), "1 CPU, 1Gi"),
        (request(role(host(0, 0))), "a place without GPUs, CPU or memory"),
        (request(role(whole(1), 4), role(host(), 1, "launcher")), "4 x 1 GPU (worker)"),
    ],
)
def test_what_is_asked_for_in_words(asked: Request, text: str) -> None:
    assert asks(asked) == text


def test_memory_is_charged_by_the_largest_card_before_it_is_placed() -> None:
    fleet = Fleet(node("n1", 1), quota=1)
    half = request(role(device_memory(40 << 30)), preemptible=False)
    assert fleet.submit(1, half).replicas
    assert fleet.submit(2, half).replicas
    assert fleet.world.queues.account("p", "default").allocated == GPU


def test_what_would_do_for_the_host_is_still_short_of_it() -> None:
    fleet = Fleet(node("n1", 2, cpu=4000))
    fleet.submit(1, request(role(host(cpu=3000)), preemptible=False))
    fleet.submit(2, request(role(host(cpu=3000))))
    code, text, nodes, helps = said(fleet, 2)
    assert (code, text) == ("NoHostCapacity", "no node has the CPU and memory free for its 1 replica")
    assert nodes == ["1 has too little free CPU"]
    assert helps == ["w1 (non-preemptible, Initializing) ended"]


def test_one_is_told_in_the_singular() -> None:
    fleet = Fleet(node("n1", 1), node("n2", 0))
    fleet.submit(1, request(role(whole(1)), preemptible=False))
    fleet.submit(2, request(role(whole(1))))
    assert said(fleet, 2) == (
        "NoCapacity",
        "1 GPU is asked for and 0 are free in the pool",
        ["1 has no such GPU", "1 has no idle GPU"],
        ["w1 (1 GPU, non-preemptible, Initializing) ended"],
    )


def test_of_one_workload_of_a_user_none_is_chosen() -> None:
    fleet = Fleet(node("n1", 4))
    fleet.project("p", {"default": 4}, users=(UserLimit("", workloads=1),))
    fleet.submit(1)
    fleet.submit(2)
    assert "the workload of its user in p ended" in why(fleet, 2).unblockers
    fleet.finish(1)
    assert fleet.workload(2).replicas
