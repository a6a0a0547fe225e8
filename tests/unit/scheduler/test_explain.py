"""Why a workload waits, and that what is said would help does help."""

from __future__ import annotations

import pytest

from muster_kernel.quantities import GPU
from muster_kernel.reasons import Constraint, FailureClass, WaitingReason
from muster_scheduler.domain import events
from muster_scheduler.domain.clusters import Profile
from muster_scheduler.domain.explain import Explanation, asks, explain
from muster_scheduler.domain.nodes import Mig, NodeState
from muster_scheduler.domain.workloads import SECOND, ReplicaState
from tests.support.fleets import Fleet, device_memory, devices, host, mig_slice, node, portion, request, role, whole


def why(fleet: Fleet, number: int) -> Explanation:
    digest = fleet.state.digest()
    answer = explain(fleet.world, fleet.workload(number))
    assert fleet.state.digest() == digest, "a question has changed the state"
    return answer


def test_quota_and_what_would_help() -> None:
    fleet = Fleet(node("n1", 8), quota=2)
    fleet.submit(1, request(role(whole(2)), preemptible=False))
    fleet.submit(2, request(role(whole(4)), preemptible=False))
    answer = why(fleet, 2)
    assert answer.reason is not None
    assert answer.reason.code is WaitingReason.OVER_QUOTA
    assert answer.reason.named() == {"used": 2 * GPU, "deserved": 2 * GPU, "short": 4 * GPU}
    assert answer.unblockers == (
        "it were preemptible (there is room in node pool default, over quota)",
        "p deserved 6 GPUs in node pool default",
    )
    fleet.project("p", {"default": 6})
    assert fleet.workload(2).replicas


def test_quota_without_room() -> None:
    fleet = Fleet(node("n1", 2), quota=2)
    fleet.submit(1, request(role(whole(2)), preemptible=False))
    fleet.submit(2, request(preemptible=False))
    assert why(fleet, 2).unblockers == ("p deserved 3 GPUs in node pool default, and there was room",)


def test_who_would_have_to_end() -> None:
    fleet = Fleet(node("n1", 4))
    fleet.submit(1, request(role(whole(1))))
    fleet.submit(2, request(role(whole(3)), preemptible=False))
    fleet.submit(3, request(role(whole(3))))
    answer = why(fleet, 3)
    assert answer.reason is not None
    assert answer.reason.code is WaitingReason.NO_CAPACITY
    assert answer.unblockers == ("w2 (3 GPU, non-preemptible, Initializing) ended",)
    assert answer.rank == 1
    fleet.finish(2)
    assert fleet.workload(3).replicas


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


def test_claims_and_backoffs() -> None:
    fleet = Fleet(node("n1", 1))
    fleet.submit(1)
    fleet.submit(2, request(priority=75))
    claimed = why(fleet, 2).reason
    assert claimed is not None
    assert (claimed.code, claimed.numbers) == (WaitingReason.CLAIM, (1,))
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
        (request(role(whole(1), 4), role(host(), 1, "launcher")), "4 x 1 GPU (worker)"),
    ],
)
def test_what_is_asked_for_in_words(asked: object, text: str) -> None:
    assert asks(asked.roles) == text  # type: ignore[attr-defined]


def test_memory_is_charged_by_the_largest_card_before_it_is_placed() -> None:
    fleet = Fleet(node("n1", 1), quota=1)
    half = request(role(device_memory(40 << 30)), preemptible=False)
    assert fleet.submit(1, half).replicas
    assert fleet.submit(2, half).replicas
    assert fleet.world.queues.account("p", "default").allocated == GPU


def test_what_never_fits() -> None:
    fleet = Fleet(node("n1", 2, cpu=4000), node("m1", 1, mig=True, cpu=4000), profile=Profile(mig=Mig.DYNAMIC))
    fleet.submit(1, request(role(host(cpu=9000))))
    fleet.submit(2, request(role(device_memory(200 << 30))))
    fleet.submit(3, request(role(mig_slice("9g.10gb"))))
    for number in (1, 2, 3):
        reason = why(fleet, number).reason
        assert reason is not None
        assert reason.code is WaitingReason.TOO_LARGE
    fleet.submit(4, request(role(host(cpu=3000)), preemptible=False))
    fleet.submit(5, request(role(host(cpu=3000), 2)))
    fleet.submit(6, request(role(host(cpu=40_000), 2)))
    assert why(fleet, 6).reason is not None
