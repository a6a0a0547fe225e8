"""Inventory that cannot be true: what is meant is closed and said, everything else of the report counts."""

from __future__ import annotations

import pytest

from muster.fleet.v1 import fleet_pb2
from muster.workload.v1 import workload_pb2
from muster_chassis.events import Reject
from muster_scheduler.domain import events
from muster_scheduler.domain.fleet.clusters import Profile
from muster_scheduler.domain.fleet.nodes import Device, Mig, Mode, Node
from muster_scheduler.stream.roles import roles_of
from tests.support.fleets import GIB, Fleet, mig_slice, node, request, role, whole


def card(uuid: str, **more: object) -> Device:
    return Device(uuid, "A100-80GB", 80 * GIB, 0, **more)  # type: ignore[arg-type]


def with_cards(name: str, *cards: Device, cluster: str = "c1", pool: str = "default") -> Node:
    return node(name, cluster=cluster, pool=pool, cards=list(cards))


def report(fleet: Fleet, *nodes: Node, cluster: str = "c1", mig: Mig = Mig.DYNAMIC) -> tuple[str, ...]:
    """A full inventory; what of it cannot be true."""
    fleet.state.begin(fleet.now)
    order = fleet.order(cluster)
    made = events.InventoryReported(cluster, order, True, order.sequence, Profile(mig=mig), nodes, ())
    fleet.state.apply(made)
    fleet.state.propose()
    told = fleet.state.plan().oddities
    fleet.state.commit()
    fleet.state.check()
    return told


def open_on(fleet: Fleet, uuid: str) -> list[str]:
    return [
        each.name
        for each in fleet.world.inventory.nodes.values()
        for device in each.devices
        if device.uuid == uuid and device.mode is not Mode.UNHEALTHY
    ]


def test_a_device_named_twice_on_a_node_is_there_once() -> None:
    fleet = Fleet(node("z"))
    told = report(fleet, with_cards("a", card("GPU-1"), card("GPU-1"), card("")))
    assert told == (
        "node a of cluster c1 reports device GPU-1 twice: the first one counts",
        "node a of cluster c1 reports a device without a name: it is left out",
    )
    fleet.submit(1, request(role(whole(2))))
    assert not fleet.workload(1).replicas


def test_a_device_on_two_nodes_is_given_on_one() -> None:
    fleet = Fleet(node("z"))
    told = report(fleet, with_cards("a", card("GPU-1")), with_cards("b", card("GPU-1"), card("GPU-2")))
    assert told == ("node b of cluster c1, device GPU-1: node a of cluster c1 has it as well; it is given to nobody",)
    assert (open_on(fleet, "GPU-1"), open_on(fleet, "GPU-2")) == (["a"], ["b"])
    assert report(fleet, with_cards("b", card("GPU-1"))) == ()
    assert open_on(fleet, "GPU-1") == ["b"], "the other node is gone"


def test_where_it_was_it_stays_and_where_it_went_it_is() -> None:
    fleet = Fleet(node("z"))
    report(fleet, with_cards("b", card("GPU-1")))
    report(fleet, with_cards("a", card("GPU-1")), with_cards("b", card("GPU-1")))
    assert open_on(fleet, "GPU-1") == ["b"]
    report(fleet, with_cards("a", card("GPU-1")), with_cards("b", card("GPU-3")))
    assert open_on(fleet, "GPU-1") == ["a"], "it moved"


def test_a_card_that_is_charged_where_it_was_is_given_nowhere_else() -> None:
    fleet = Fleet(with_cards("b", card("GPU-1")))
    fleet.submit(1)
    report(fleet, with_cards("a", card("GPU-1")), with_cards("b"))
    assert open_on(fleet, "GPU-1") == []
    fleet.finish(1)
    report(fleet, with_cards("a", card("GPU-1")), with_cards("b"))
    assert open_on(fleet, "GPU-1") == ["a"]


def test_a_node_that_moves_to_another_cluster_or_pool() -> None:
    fleet = Fleet(with_cards("a", card("GPU-1")), node("m", 0, cluster="c2"))
    fleet.submit(1)
    report(fleet, with_cards("a", card("GPU-1"), cluster="c2"), cluster="c2")
    assert open_on(fleet, "GPU-1") == ["a"]
    assert fleet.world.inventory.nodes["c2", "a"].devices[0].mode is Mode.UNHEALTHY
    report(fleet, with_cards("a", card("GPU-1"), pool="other"))
    assert fleet.workload(1).pool == "default"
    fleet.finish(1)
    fleet.submit(2)
    assert not fleet.workload(2).replicas, "its node stands in the other pool now"


@pytest.mark.parametrize(
    ("device", "told"),
    [
        (
            card("GPU-1", mig=True, layout=(("3g.40gb", 0), ("3g.40gb", 2))),
            "no A100-80GB can have the slices 3g.40gb at 0, 3g.40gb at 2",
        ),
        (card("GPU-1", mig=True, layout=(("9g.9gb", 0),)), "no A100-80GB can have the slices 9g.9gb at 0"),
        (card("GPU-1", layout=(("1g.10gb", 0),)), "it has MIG slices, and MIG is off"),
    ],
)
def test_a_layout_that_no_card_has(device: Device, told: str) -> None:
    fleet = Fleet(node("z"))
    assert report(fleet, with_cards("a", device), node("b", 1), mig=Mig.STATIC) == (
        f"node a of cluster c1, device GPU-1: {told}; it is given to nobody",
    )
    fleet.submit(1, request(role(mig_slice("3g.40gb"))))
    fleet.submit(2)
    assert not fleet.workload(1).replicas
    assert fleet.workload(2).replicas, "the rest of the report counts"


def test_a_legal_layout_is_used() -> None:
    fleet = Fleet(node("z"))
    made = card("GPU-1", mig=True, layout=(("3g.40gb", 0), ("3g.40gb", 4)))
    assert report(fleet, with_cards("a", made), mig=Mig.STATIC) == ()
    fleet.submit(1, request(role(mig_slice("3g.40gb"), 2)))
    assert fleet.workload(1).replicas


def test_more_in_use_than_there_is_leaves_nothing() -> None:
    crowded = node("a", slots=2)
    crowded.foreign_slots, crowded.foreign_cpu = 5, crowded.cpu * 2
    fleet = Fleet(crowded)
    fleet.submit(1)
    assert not fleet.workload(1).replicas
    fleet.inventory("c1", [node("a", slots=2)])
    assert fleet.workload(1).replicas


def asked(**more: object) -> workload_pb2.ResourceRequest:
    return workload_pb2.ResourceRequest(**({"role": "worker", "count": 1} | more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("requests", "said"),
    [
        ([asked(count=100_001)], "100001 replicas are asked for; at most 100000 are allowed"),
        ([asked(), asked()], "the roles are 'worker', 'worker': each needs a name of its own"),
        ([asked(mig_profile="g.")], "mig_profile: 'g.' is no MIG profile; expected a name such as 3g.40gb"),
    ],
)
def test_requests_that_mean_nothing(requests: list[workload_pb2.ResourceRequest], said: str) -> None:
    with pytest.raises(Reject, match=said):
        roles_of(requests)


def test_a_request_beyond_any_node_waits_with_its_reason() -> None:
    (large,) = roles_of([asked(cpu_milli=(1 << 64) - 1, memory_bytes=1 << 63, gpu_devices=1 << 31)])
    fleet = Fleet(node("a"))
    fleet.submit(1, request(large))
    reason = fleet.world.waiting.reason(fleet.workload(1).id)
    assert reason is not None
    assert "on one node; the largest node has 8" in reason.sentence()


def test_a_gang_larger_than_the_fleet_waits_with_its_reason_and_others_run() -> None:
    fleet = Fleet(node("a", 2))
    fleet.submit(1, request(role(whole(), 100_000)))
    fleet.submit(2)
    reason = fleet.world.waiting.reason(fleet.workload(1).id)
    assert reason is not None
    assert reason.sentence().startswith("needs 100000 replicas with 100000 GPUs at once")
    assert fleet.workload(2).replicas


def test_a_report_without_nodes_is_an_empty_cluster() -> None:
    fleet = Fleet(node("a"))
    assert report(fleet) == ()
    assert not fleet.world.inventory.nodes
    assert fleet_pb2.Inventory().nodes == []
