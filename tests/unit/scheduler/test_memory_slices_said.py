"""What is said of requests for GPU memory that MIG slices do not hold: their sizes, their models, their pools."""

from __future__ import annotations

import pytest

from muster_kernel.reasons import Constraint
from muster_scheduler.domain.answers.explain import explain
from muster_scheduler.domain.asked.requests import Shape
from muster_scheduler.domain.asked.terms import HOST_LABEL, Apart, Terms, Wish
from tests.support.fleets import (
    GIB,
    device_memory,
    devices,
    host,
    mig_slice,
    node,
    portion,
    request,
    role,
    whole,
)
from tests.support.memory_slices import asks, fleet, large, shares_of, small, told


def test_what_no_slice_holds_is_told_the_largest_there_is() -> None:
    made = fleet(small("n1"), node("n2", 1))
    made.submit(0, asks(39 * GIB))
    assert told(made, 0) == (
        "needs 39Gi of GPU memory on one GPU, which its node pools give as MIG slices; the largest has 38146Mi"
    )
    made.submit(1, asks(9 * GIB))
    assert made.world.waiting.reason(made.workload(1).id) is None


@pytest.mark.parametrize("asked", [device_memory(4 * GIB), mig_slice("1g.5gb")])
def test_a_gang_that_is_too_large_is_told_what_its_slices_cost(asked: Shape) -> None:
    made = fleet(small("n1"), small("n2"))
    made.submit(0, request(role(asked, 15)))
    assert told(made, 0).startswith("needs 15 replicas with 2 1/7 GPUs at once")


def test_a_gang_that_is_too_large_is_told_how_many_the_model_with_the_most_room_holds() -> None:
    made = fleet(small("n1", 4), large("n2"))
    made.submit(0, asks(18 * GIB, 13))
    reason = explain(made.world, made.workload(0)).reason
    assert reason is not None
    assert reason.numbers[-1] == 8, "two on each of the four small cards; the large one, which costs less, holds four"


def test_a_gang_that_only_slices_of_several_models_would_hold_is_told_that_it_gets_those_of_one() -> None:
    made = fleet(small("n1", 4), large("n2"))
    made.submit(0, asks(18 * GIB, 12))
    assert told(made, 0) == (
        "its 12 replicas get MIG slices of one GPU model, and no model of its node pools holds them all, even if idle; "
        "the best has room for 8"
    )
    assert explain(made.world, made.workload(0)).unblockers == ("it had at most 8 replicas",)
    made.inventory("c1", [small("n1", 4), large("n2"), small("n3", 2)])
    assert [share.profile for share in shares_of(made, 0)] == ["3g.20gb"] * 12, "equal slices, of one model"


@pytest.mark.parametrize(("plain", "code", "room"), [(8, "OneModel", 8), (10, "TooLargeTogether", 10)])
def test_models_are_not_spoken_of_where_a_pool_without_slices_has_more_room(plain: int, code: str, room: int) -> None:
    made = fleet(
        small("n1", 4), large("n2"), node("n3", 2, pool="plain", cards=devices("n3", 2, memory=plain // 2 * 18 * GIB))
    )
    made.submit(0, request(role(device_memory(18 * GIB), 12), pools=("default", "plain")))
    reason = explain(made.world, made.workload(0)).reason
    assert reason is not None
    assert (reason.code.value, reason.numbers[-1]) == (code, room)


def test_where_one_model_has_the_slices_and_the_nodes_lack_something_else_models_are_not_spoken_of() -> None:
    made = fleet(
        node("n1", cpu=8_000, cards=devices("n1", 1, model="A100-40GB", memory=40 * GIB, mig=True)),
        node("n2", cpu=8_000, cards=devices("n2", 1, model="H100-80GB", memory=80 * GIB, mig=True)),
    )
    made.submit(0, request(role(device_memory(18 * GIB)), role(host(8_000), 2, "launcher")))
    assert told(made, 0) == "needs 3 replicas at once, more than the idle nodes of its node pool hold together"


def test_of_roles_it_is_said_without_a_number_and_only_where_models_together_might_hold_each() -> None:
    made = fleet(small("n1", 2), large("n2"))
    for number, workers in enumerate((7, 9)):
        made.submit(number, request(role(device_memory(18 * GIB), workers), role(host(), 1, "launcher")))
    made.submit(2, request(role(device_memory(18 * GIB), 5), role(device_memory(4 * GIB), 3, "light")))
    assert told(made, 0).startswith("its 7 replicas get MIG slices of one GPU model, and no model"), told(made, 0)
    assert told(made, 0).endswith("even if idle"), "what one model has room for is not counted of roles that differ"
    assert told(made, 1).startswith("needs 10 replicas at once"), told(made, 1)
    assert told(made, 2).startswith("its 8 replicas get"), told(made, 2)


@pytest.mark.parametrize("pools", [("default", "plain"), ("plain", "default")])
def test_of_several_pools_each_is_counted_as_it_gives_the_memory(pools: tuple[str, str]) -> None:
    made = fleet(small("n1"), node("n2", 1, pool="plain"))
    made.submit(0, request(role(mig_slice("7g.40gb")), preemptible=False))
    made.submit(1, request(role(portion(950)), pools=("plain",), preemptible=False))
    made.submit(2, request(role(device_memory(36 * GIB)), pools=pools))
    assert told(made, 2) == "0.45 GPU is asked for and 0.05 is free in the pool"


@pytest.mark.parametrize("pools", [("default", "plain"), ("plain", "default")])
def test_of_several_pools_nodes_have_room_for_one_apart_as_each_gives_the_memory(pools: tuple[str, str]) -> None:
    made = fleet(small("n1"), node("n2", 1, pool="plain"), node("n3", 1, pool="plain"), small("n4"))
    made.submit(0, request(role(mig_slice("7g.40gb"), 2), preemptible=False))
    made.submit(1, request(role(whole()), pools=("plain",), preemptible=False))
    apart = Terms(topology=Wish(apart=Apart(HOST_LABEL, required=True)))
    made.submit(2, request(role(device_memory(9 * GIB), 2), pools=pools)._replace(terms=apart))
    assert told(made, 2) == "its replicas have to stand apart: it needs 2 nodes, and 1 has room for one now"


def test_the_answer_names_what_would_help_and_counts_the_nodes() -> None:
    made = fleet(small("n1"), small("n2"), node("n3", 1))
    made.submit(0, asks(39 * GIB))
    assert "it asked for at most 38146Mi of GPU memory" in explain(made.world, made.workload(0)).unblockers
    for number in range(1, 4):
        made.submit(number, asks(20 * GIB))
    told = explain(made.world, made.workload(3))
    assert {(each[0], each[1]) for each in told.excluded} == {(Constraint.NO_SLICE, 2), (Constraint.NO_GPU, 1)}
    assert any(text.endswith("ended") for text in told.unblockers), told.unblockers


def test_a_pool_without_cards_in_mig_mode_says_so() -> None:
    made = fleet(node("n1", 1))
    made.submit(0, asks(9 * GIB))
    assert "no GPU there is in MIG mode" in told(made, 0)
