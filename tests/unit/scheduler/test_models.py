"""Quotas per GPU model: over all pools, of projects and departments; other models stay open."""

from __future__ import annotations

import pytest

from muster_kernel.lifecycle import Phase
from muster_kernel.quantities import GPU
from muster_kernel.reasons import Constraint, WaitingReason
from muster_scheduler.domain import events
from muster_scheduler.domain.answers.explain import explain
from muster_scheduler.domain.asked.quotas import ModelQuota, Quota
from muster_scheduler.domain.asked.requests import Shape
from muster_scheduler.domain.asked.workloads import Request, WorkloadKind
from muster_scheduler.domain.books.queues import Department
from muster_scheduler.domain.decisions import Preempted
from tests.support.fleets import GIB, Fleet, devices, node, portion, request, role, whole


def fleet_of(*, slots: int = 0) -> Fleet:
    """Four A100 and four H100 in one pool, two H100 in another (or anonymous ones)."""
    other = (
        node("m1", pool="other", slots=slots)
        if slots
        else node("m1", cards=devices("m1", 2, model="H100"), pool="other")
    )
    other.slot_model = "H100" if slots else ""
    fleet = Fleet(
        node("a1", cards=devices("a1", 4, model="A100")),
        node("h1", cards=devices("h1", 4, model="H100", memory=96 * GIB)),
        other,
    )
    fleet.project("a", {"default": 8, "other": 8})
    return fleet


def models(fleet: Fleet, number: int) -> list[str]:
    """The node of each replica."""
    return [replica.node[1] for replica in fleet.workload(number).everyone()]


def runs(fleet: Fleet, number: int) -> bool:
    return fleet.workload(number).phase is Phase.INITIALIZING


def asked(shape: Shape, *, pools: tuple[str, ...] = ("default",), preemptible: bool = True) -> Request:
    return request(role(shape), pools=pools, preemptible=preemptible)


def test_a_model_that_is_used_up_leaves_the_others() -> None:
    fleet = fleet_of()
    fleet.project("a", {"default": 8, "other": 8}, models=(ModelQuota("A100", 0, 2 * GPU),))
    for number in range(1, 7):
        fleet.submit(number, asked(whole(1)), project="a")
    held = [models(fleet, number)[0] for number in range(1, 7)]
    assert (held.count("a1"), held.count("h1")) == (2, 4)
    fleet.submit(7, asked(whole(1)), project="a")
    answer = explain(fleet.world, fleet.workload(7))
    assert (Constraint.MODEL_CLOSED, 1, "has GPUs of A100, of which a quota leaves too few") in answer.excluded
    assert answer.reason is not None
    assert answer.reason.sentence() == "1 GPU is asked for and 0 are free in the pool", "two of a model that is closed"
    fleet.submit(8, asked(whole(2)))
    assert models(fleet, 8) == ["a1"], "another project has no such limit"


def test_the_limit_counts_over_all_pools_and_falls_when_something_ends() -> None:
    fleet = fleet_of()
    fleet.project("a", {"default": 8, "other": 8}, models=(ModelQuota("H100", 8 * GPU, 2 * GPU),))
    fleet.submit(1, asked(whole(2), pools=("other",)), project="a")
    fleet.submit(2, asked(whole(4)), project="a")
    fleet.submit(3, asked(whole(1), pools=("other", "default")), project="a")
    fleet.submit(4, asked(portion(500), pools=("other",)), project="a")
    assert models(fleet, 2) == ["a1"]
    answer = explain(fleet.world, fleet.workload(4))
    assert answer.reason is not None
    assert answer.reason.code is WaitingReason.MODEL_OVER_LIMIT
    assert answer.reason.sentence() == (
        "the project uses 2 of the 2 GPUs of this model that it may hold at most (0.5 short)"
    )
    assert answer.unblockers == (
        "a might hold 2.5 GPUs of H100, which is what node pool other has, and there was room",
    )
    fleet.finish(1)
    assert runs(fleet, 3), "what is given back of a model in one pool may be taken in another"
    assert runs(fleet, 4)


def test_what_is_given_back_in_one_pool_lifts_a_quota_in_another() -> None:
    fleet = fleet_of()
    fleet.department("d", {"default": 16, "other": 16})
    fleet.project("a", {"default": 8, "other": 8}, models=(ModelQuota("H100", 8 * GPU, 2 * GPU),))
    fleet.submit(1, asked(whole(4)))
    fleet.submit(2, asked(whole(2), pools=("other",)), project="a")
    fleet.submit(3, asked(whole(1)), project="a")
    assert models(fleet, 1) == ["a1"]
    assert not runs(fleet, 3)
    fleet.finish(2)
    assert models(fleet, 3) == ["h1"]


def test_non_preemptible_work_stays_within_what_is_deserved_of_a_model() -> None:
    fleet = fleet_of()
    fleet.project("a", {"default": 8, "other": 8}, models=(ModelQuota("H100", GPU),))
    fleet.submit(1, asked(whole(1), pools=("other",), preemptible=False), project="a")
    fleet.submit(2, asked(whole(1), pools=("other",), preemptible=False), project="a")
    fleet.submit(3, asked(whole(1), pools=("other",)), project="a")
    assert runs(fleet, 1)
    assert runs(fleet, 3), "what may be preempted goes beyond what is deserved"
    reason = explain(fleet.world, fleet.workload(2)).reason
    assert reason is not None
    assert reason.named() == {"used": GPU, "deserved": GPU, "short": GPU, "queue": 0}


def test_a_departments_quota_of_a_model_binds_its_projects_together() -> None:
    fleet = fleet_of()
    quotas = {"default": Quota(16 * GPU), "other": Quota(16 * GPU)}
    fleet.send(events.DepartmentChanged(Department("d", quotas, 1, models=(ModelQuota("H100", 0, 2 * GPU),))))
    fleet.project("b", {"default": 8, "other": 8})
    fleet.submit(1, asked(whole(2), pools=("other",)), project="a")
    fleet.submit(2, asked(whole(1), pools=("other",)), project="b")
    answer = explain(fleet.world, fleet.workload(2))
    assert answer.reason is not None
    assert answer.reason.numbers == (2 * GPU, 2 * GPU, GPU, 1)
    told = "department d might hold 3 GPUs of H100, which is what node pool other has, and there was room"
    assert answer.unblockers == (told,)
    fleet.finish(1)
    assert runs(fleet, 2)


def test_anonymous_devices_have_a_model_too() -> None:
    fleet = fleet_of(slots=2)
    fleet.project("a", {"default": 8, "other": 8}, models=(ModelQuota("H100", 0, GPU),))
    fleet.submit(1, asked(whole(1), pools=("other",)), project="a")
    fleet.submit(2, asked(whole(1), pools=("other",)), project="a")
    assert runs(fleet, 1)
    assert not runs(fleet, 2)


def test_a_service_grows_within_the_quota_of_a_model() -> None:
    fleet = fleet_of()
    fleet.project("a", {"default": 8, "other": 8}, models=(ModelQuota("H100", 0, GPU),))
    serving = request(role(whole(1)), pools=("other",), kind=WorkloadKind.INFERENCE, max_scale=2)
    fleet.submit(1, serving, project="a")
    fleet.send(events.ScaleAdvised(fleet.workload(1).id, 2))
    assert len(fleet.workload(1).everyone()) == 1


@pytest.mark.parametrize("most", [1, 2])
def test_room_is_made_for_no_more_than_the_quota_of_a_model_admits(most: int) -> None:
    fleet = Fleet(node("a1", cards=devices("a1", 4, model="A100")), quota=4)
    fleet.project("q", {"default": 0})
    for number in range(1, 5):
        fleet.submit(number, project="q")
        fleet.run(number)
        fleet.wait(1)
    fleet.project("p", {"default": 4}, models=(ModelQuota("A100", 4 * GPU, most * GPU),))
    fleet.send(*(fleet.admitted(number, asked(whole(1))) for number in (5, 6, 7)))
    assert sum(isinstance(decision, Preempted) for decision in fleet.decisions) == most
    reasons = [explain(fleet.world, fleet.workload(number)).reason for number in (5, 6, 7)]
    codes = [reason.code for reason in reasons if reason]
    assert codes == [WaitingReason.CLAIM] * most + [WaitingReason.MODEL_OVER_LIMIT] * (3 - most)
