"""The nodes that come closest, and that one which gets what it is said to lack holds the replica."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_scheduler.domain.answers.explain import explain
from muster_scheduler.domain.answers.nearest import lack_of
from muster_scheduler.domain.asked.requests import Grant, Holder, Shape
from muster_scheduler.domain.fleet.fitting import fit
from muster_scheduler.domain.fleet.nodes import Node
from tests.support.fleets import GIB, Fleet, device_memory, devices, host, node, portion, request, role, whole


def nearest(fleet: Fleet, number: int) -> tuple[str, ...]:
    digest = fleet.state.digest()
    answer = explain(fleet.world, fleet.workload(number))
    assert fleet.state.digest() == digest, "a question has changed the state"
    return answer.nearest


def test_the_nodes_that_lack_least_are_named() -> None:
    fleet = Fleet(node("a", 4), node("b", 4), node("c", 4), node("d", 4, cpu=500))
    for number, size in ((1, 3), (2, 2), (3, 4)):
        fleet.submit(number, request(role(whole(size)), preemptible=False))
    fleet.submit(4, request(role(whole(4)), preemptible=False))
    assert nearest(fleet, 4) == ("d lacks 500m CPU", "b lacks 2 GPUs", "a lacks 3 GPUs")


def test_of_what_no_node_holds_idle_nodes_are_measured() -> None:
    fleet = Fleet(node("a", 4), node("b", 2), node("c", 4, cluster="c2"))
    fleet.submit(1, request(role(whole(2)), preemptible=False))
    fleet.submit(2, request(role(whole(6, cpu=65_000))))
    assert nearest(fleet, 2) == (
        "a of c1 lacks 2 GPUs and 1 CPU",
        "c of c2 lacks 2 GPUs and 1 CPU",
        "b of c1 lacks 4 GPUs and 1 CPU",
    )


def test_nodes_that_may_not_be_used_are_not_near() -> None:
    fleet = Fleet(node("a", 1), node("b", 1, pool="other"))
    fleet.submit(1, request(preemptible=False))
    fleet.submit(2)
    assert nearest(fleet, 2) == ("a lacks 1 GPU",)


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        (portion(800), "0.3 GPU"),
        (device_memory(60 * GIB), "20Gi of GPU memory"),
        (host(65_000), "1100m CPU"),
        (whole(1)._replace(extra=(("nic", 3),)), "1 GPU and 3 nic"),
    ],
)
def test_what_a_node_lacks_in_words(shape: Shape, text: str) -> None:
    there = node("a", 1)
    half = fit(there, portion(500))
    assert isinstance(half, Grant)
    fleet = Fleet(there)
    fleet.submit(1, request(role(portion(500))))
    lack = lack_of(fleet.world.inventory.nodes["c1", "a"], shape)
    assert lack is not None
    assert lack.in_words() == text


@settings(max_examples=200)
@given(
    held=st.lists(st.sampled_from([whole(1), portion(300), portion(700), host(30_000)]), max_size=5),
    shape=st.sampled_from(
        [whole(1), whole(3), portion(800), device_memory(50 * GIB), host(40_000), whole(2, cpu=50_000)]
    ),
)
def test_a_node_that_gets_what_it_lacks_holds_the_replica(held: list[Shape], shape: Shape) -> None:
    there = node("a", 3)
    fleet = Fleet(there)
    for number, each in enumerate(held):
        found = fit(there, each)
        if isinstance(found, Grant):
            fleet.world.inventory.charge(Holder(f"w{number}", 1, 1, "worker", 0, 0), there.key, found)
    lack = lack_of(there, shape)
    assert (lack is None) == isinstance(fit(there, shape), Grant)
    if lack is not None:
        grown = with_more(there, lack.cpu, lack.memory, bool(lack.gpu or lack.device_memory), shape.devices)
        assert isinstance(fit(grown, shape), Grant)


def with_more(there: Node, cpu: int, memory: int, cards: bool, number: int) -> Node:
    more = devices("more", number) if cards else []
    for card in more:
        card.tally()
    return replace(there, cpu=there.cpu + cpu, memory=there.memory + memory, devices=[*there.devices, *more])
