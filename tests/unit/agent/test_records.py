"""A cluster of any size is reported: no record is too large, and the parts are the whole."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from muster.events.v1 import agent_pb2
from muster.fleet.v1 import fleet_pb2
from muster_chassis import metrics
from muster_cluster_agent.adapters.records import LARGEST, LEFT_OUT, PART, Records
from muster_cluster_agent.domain.fleet import Device, Difference, Fleet, NamespaceObjects, Node, NodeState, Profile
from muster_cluster_agent.domain.model import State, Status
from muster_cluster_agent.ports import BeatReport, Held, HeldReport, InventoryReport, Report
from tests.support.agents import workload_id

SMALL = 4096


def node(number: int, labels: int = 70) -> Node:
    """A node as Kubernetes has them: with many labels, eight devices."""
    name = f"gpu-node-{number:05}.example.internal"
    cards = tuple(
        Device(f"GPU-{number:08}-0000-4000-8000-{slot:012}", "H100-80GB", 80 << 30, slot) for slot in range(8)
    )
    said = tuple((f"feature.node.kubernetes.io/cpu-feature-{label:03}", f"value-{label}") for label in range(labels))
    return Node(name, f"uid-{number}", "boot", NodeState.READY, 64_000, 1 << 40, labels=said, devices=cards)


def fleet(size: int) -> Fleet:
    return Fleet(Profile(backend="local"), tuple(node(number) for number in range(size)))


def records(report: Report, part: int = PART) -> list[Any]:
    return Records("c", "me", 3, clock=lambda: 1_000_000_000, part=part).of(report)


def status(number: int) -> Status:
    return Status(f"w-{number:030}", workload_id(1), 1, 1, "worker", number, 0, "n-1", State.READY)


def test_an_inventory_that_one_record_holds_is_one_record() -> None:
    (only,) = records(InventoryReport(fleet(20)))
    assert isinstance(only, agent_pb2.InventoryReported)
    assert (only.inventory.full, len(only.inventory.nodes), only.inventory.profile.backend) == (True, 20, "local")


def test_the_inventory_of_a_large_cluster_goes_in_parts_that_are_the_whole() -> None:
    told = records(InventoryReport(fleet(300)))
    assert len(told) > 2
    assert all(isinstance(one, agent_pb2.InventoryPartReported) and one.ByteSize() <= PART for one in told)
    assert [(one.part.snapshot, one.part.number, one.part.count) for one in told] == [
        (1, number, len(told)) for number in range(1, len(told) + 1)
    ]
    assert [one.order.sequence for one in told] == list(range(1, len(told) + 1))
    pieces = [fleet_pb2.Inventory.FromString(one.content) for one in told]
    assert [piece.HasField("profile") for piece in pieces] == [True] + [False] * (len(told) - 1)
    assert [each.name for piece in pieces for each in piece.nodes] == [each.name for each in fleet(300).nodes]
    checksums = b"".join(hashlib.sha256(one.content).digest() for one in told)
    assert {one.digest for one in told} == {hashlib.sha256(checksums).digest()}


def test_a_change_of_the_whole_cluster_goes_as_deltas_that_follow_one_another() -> None:
    large = fleet(300)
    made = Records("c", "me", 3)
    made.of(InventoryReport(large))
    told: list[Any] = made.of(InventoryReport(large, Difference(large.nodes, ("gone-1", "gone-2"))))
    assert len(told) > 2
    assert all(not one.inventory.full and one.ByteSize() <= PART for one in told)
    assert [one.inventory.sequence for one in told] == list(range(2, len(told) + 2))
    assert [name for one in told for name in one.inventory.removed_nodes] == ["gone-1", "gone-2"]
    assert [each.name for one in told for each in one.inventory.nodes] == [each.name for each in large.nodes]


def test_objects_go_with_the_nodes_and_with_what_changed() -> None:
    objects = tuple(NamespaceObjects(f"n-{number}", ("claim",) * 50, ("map",)) for number in range(100))
    whole = Fleet(Profile("kubernetes", names_objects=True), (node(1),), objects)
    parts = [fleet_pb2.Inventory.FromString(one.content) for one in records(InventoryReport(whole), part=SMALL)]
    assert [each.namespace for part in parts for each in part.objects] == [each.namespace for each in objects]
    assert parts[0].profile.names_objects
    (delta,) = records(InventoryReport(whole, Difference((), (), objects[:2], ("gone",))))
    assert [list(each.claims) for each in delta.inventory.objects] == [["claim"] * 50] * 2
    assert list(delta.inventory.removed_namespaces) == ["gone"]


def test_a_heartbeat_tells_the_release_of_the_software() -> None:
    (beat,) = Records("c", "me", 3, version="0.1.0").of(BeatReport(0.0))
    assert isinstance(beat, agent_pb2.Heartbeat)
    assert beat.agent_version == "0.1.0"


def test_a_node_that_no_record_holds_is_named_and_the_others_are_told() -> None:
    before = metrics.value(LEFT_OUT, kind="node")
    large = replace(node(1), labels=tuple((f"label-{number}", "x" * 1000) for number in range(LARGEST // 1000 + 1)))
    (only,) = records(InventoryReport(Fleet(Profile("local"), (node(0), large, node(2)))))
    assert [each.name for each in only.inventory.nodes] == [node(0).name, node(2).name]
    assert metrics.value(LEFT_OUT, kind="node") == before + 1


def test_what_is_held_goes_in_one_record_or_in_parts() -> None:
    few = tuple(Held(workload_id(number), 1, 1, 5) for number in range(3))
    (only,) = records(HeldReport(few, 7))
    assert not only.HasField("part")
    many = tuple(Held(workload_id(number), 1, 1, 5) for number in range(500))
    told = records(HeldReport(many, 7), SMALL)
    assert len(told) > 2
    assert all(one.ByteSize() <= SMALL and one.highest_epoch == 7 for one in told)
    assert {one.part.snapshot for one in told} == {told[0].order.sequence}
    assert [(one.part.number, one.part.count) for one in told] == [(n, len(told)) for n in range(1, len(told) + 1)]
    assert [held.workload_id for one in told for held in one.assignments] == [held.workload_id for held in many]


def test_an_assignment_with_very_many_replicas_is_there_more_than_once() -> None:
    gang = Held(workload_id(1), 2, 3, 5, tuple(status(number) for number in range(200)))
    told = records(HeldReport((gang,), 7), SMALL)
    assert all(one.ByteSize() <= SMALL for one in told)
    pieces = [held for one in told for held in one.assignments]
    assert {(held.workload_id, held.generation, held.attempt, held.epoch) for held in pieces} == {
        (workload_id(1), 2, 3, 5)
    }
    assert [replica.index for held in pieces for replica in held.replicas] == list(range(200))


def test_an_agent_that_holds_nothing_says_so() -> None:
    (only,) = records(HeldReport((), 7))
    assert (len(only.assignments), only.highest_epoch) == (0, 7)


@given(st.lists(st.integers(0, 80), max_size=40), st.integers(2048, 20_000))
def test_whatever_the_nodes_are_the_parts_hold_each_once(labels: list[int], part: int) -> None:
    nodes = tuple(node(number, count) for number, count in enumerate(labels))
    told = records(InventoryReport(Fleet(Profile("local"), nodes)), part)
    pieces = [fleet_pb2.Inventory.FromString(one.content) if len(told) > 1 else one.inventory for one in told]
    assert [each.name for piece in pieces for each in piece.nodes] == [each.name for each in nodes]
    assert all(one.ByteSize() <= part + 256 or len(piece.nodes) == 1 for one, piece in zip(told, pieces, strict=True))


def test_records_of_one_start_are_numbered_in_their_order() -> None:
    made = Records("c", "me", 3)
    reports: list[Report] = [BeatReport(0.0), InventoryReport(fleet(300)), HeldReport((), 1), BeatReport(0.0)]
    told: list[Any] = [record for report in reports for record in made.of(report)]
    assert all(after.order.sequence == before.order.sequence + 1 for before, after in pairwise(told))
    assert {(one.order.cluster, one.order.instance, one.order.start) for one in told} == {("c", "me", 3)}
