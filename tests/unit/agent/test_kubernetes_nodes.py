"""Nodes as they are reported: capacity, what others hold, and how they stand."""

from __future__ import annotations

from typing import Any

import pytest

from muster_cluster_agent.adapters import encode
from muster_cluster_agent.domain.fleet import Device, NodeState, SlotGroup, Taint
from muster_cluster_agent.domain.kubernetes import nodes
from muster_cluster_agent.domain.kubernetes.amounts import Amounts
from muster_cluster_agent.domain.kubernetes.nodes import Counting, ToldApart, drained_by, node_of, reported, view
from muster_cluster_agent.domain.kubernetes.pods import Pod
from muster_cluster_agent.domain.model import NodeHealth

COUNTING = Counting(tolerated=frozenset({"gpu"}))


def raw(*, ready: str = "True", gpus: int = 8, **changes: Any) -> dict[str, Any]:
    metadata = {
        "name": "n-0",
        "uid": "u",
        "labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559", "rack": "r1"},
    }
    allocatable = {"cpu": "7910m", "memory": "32Gi", "pods": "110", "ephemeral-storage": "1Ti", "nvidia.com/gpu": gpus}
    conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    made: dict[str, Any] = {
        "metadata": metadata,
        "spec": {},
        "status": {"nodeInfo": {"bootID": "b"}, "allocatable": allocatable, "conditions": conditions},
    }
    for path, value in changes.items():
        made[path] = {**made[path], **value}
    return made


def pod(cpu: int, memory: int = 0, *, gpus: int = 0, hca: int = 0) -> Pod:
    named = (("nvidia.com/gpu", gpus), ("rdma/hca", hca))
    found = tuple((name, amount) for name, amount in named if amount)
    return Pod("x", "kube-system", "u", "1", "n-0", "Running", Amounts(cpu, memory, found))


def test_a_node_is_its_capacity_less_what_others_hold() -> None:
    found = reported(node_of(raw()), [pod(100, 1 << 20), pod(200, gpus=1), pod(0, hca=2)], COUNTING)
    assert (found.cpu_milli, found.memory_bytes) == (7910, 32 << 30)
    assert found.slots == (SlotGroup("nvidia.com/gpu", 8, model="H100-80GB", memory_bytes=81_559 << 20),)
    assert (found.foreign.cpu_milli, found.foreign.memory_bytes) == (300, 1 << 20)
    assert (found.foreign.slots, found.foreign.extended) == ((("nvidia.com/gpu", 1),), (("rdma/hca", 2),))
    assert (found.state, found.boot_id) == (NodeState.READY, "b")
    assert found.most_replicas == 107


@pytest.mark.parametrize(("pods", "most"), [("2", 0), ("1k", 997), ("1e18", (1 << 32) - 4), (None, None)])
def test_the_limit_of_pods_is_less_the_pods_of_others(pods: str | None, most: int | None) -> None:
    made = raw()
    allocatable = {**made["status"]["allocatable"], "pods": pods}
    made["status"]["allocatable"] = {name: text for name, text in allocatable.items() if text is not None}
    found = reported(node_of(made), [pod(0), pod(0), pod(0)], COUNTING)
    assert found.most_replicas == most
    told = encode.node(found)
    assert (told.most_replicas if told.HasField("most_replicas") else None) == most


@pytest.mark.parametrize("label", [{"nvidia.com/gpu.replicas": "4"}, {"nvidia.com/gpu.product": "NVIDIA-T4-SHARED"}])
def test_a_part_of_a_card_is_never_a_whole_one(label: dict[str, str]) -> None:
    found = reported(node_of(raw(metadata={"labels": label})), [], COUNTING)
    assert found.slots == ()


def test_mig_slices_are_counted_by_their_profile() -> None:
    """Under the `mixed` strategy each profile has a resource; others' slices stand beside them."""
    slices = {"nvidia.com/mig-1g.5gb": "14", "nvidia.com/mig-1g.5gb.me": "1", "nvidia.com/mig-other": "3"}
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB", "nvidia.com/gpu.memory": "40960"}
    node = node_of(raw(metadata={"labels": labels}, status={"allocatable": {"cpu": "8", "memory": "1Gi", **slices}}))
    other = Pod("x", "kube-system", "u", "1", "n-0", "Running", Amounts(0, 0, (("nvidia.com/mig-1g.5gb", 2),)))
    found = reported(node, [other], COUNTING)
    card: dict[str, Any] = {"model": "A100-40GB", "memory_bytes": 40 << 30}
    assert found.slots == (
        SlotGroup("nvidia.com/mig-1g.5gb", 14, profile="1g.5gb", **card),
        SlotGroup("nvidia.com/mig-1g.5gb.me", 1, profile="1g.5gb+me", **card),
    )
    assert found.foreign.slots == (("nvidia.com/mig-1g.5gb", 2),)
    assert found.extended == (("nvidia.com/mig-other", 3),)


def test_the_single_strategy_counts_slices_as_gpus() -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-3g.20gb", "nvidia.com/gpu.memory": "19968"}
    found = reported(node_of(raw(metadata={"labels": labels})), [], COUNTING)
    assert found.slots == (SlotGroup("nvidia.com/gpu", 8, profile="3g.20gb", model="A100-40GB"),)
    units = (("nvidia.com/gpu", 2), ("rdma/hca", 1))
    node = node_of(raw(metadata={"labels": labels}))
    assert nodes.charged_units(units, COUNTING, node) == (("nvidia.com/mig-3g.20gb", 2),)
    assert nodes.charged_units(units, COUNTING, node_of(raw())) == (("nvidia.com/gpu", 2),)


def test_a_product_with_an_odd_profile_offers_nothing() -> None:
    found = reported(node_of(raw(metadata={"labels": {"nvidia.com/gpu.product": "A100-MIG-INVALID"}})), [], COUNTING)
    assert found.slots == ()


def test_taints_of_the_cluster_are_states_and_tolerated_ones_are_hidden() -> None:
    taints = [
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        {"key": "gpu", "value": "yes", "effect": "NoSchedule"},
        {"key": "team", "value": "a", "effect": "NoExecute"},
    ]
    found = reported(node_of(raw(spec={"taints": taints, "unschedulable": True})), [], COUNTING)
    assert (found.taints, found.state) == ((Taint("team", "a", "NoExecute"),), NodeState.CORDONED)


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"ready": "Unknown"}, NodeState.NOT_READY),
        ({"ready": "False"}, NodeState.NOT_READY),
        ({"spec": {"taints": [{"key": nodes.OUT_OF_SERVICE, "effect": "NoExecute"}]}}, NodeState.OUT_OF_SERVICE),
        ({"metadata": {"annotations": {nodes.DRAIN_DEADLINE: "2026-01-01T00:10:00Z"}}}, NodeState.DRAINING),
    ],
)
def test_a_node_stands_as_the_cluster_says(changes: dict[str, Any], state: NodeState) -> None:
    assert reported(node_of(raw(**changes)), [], COUNTING).state is state


def test_a_silent_node_is_lost_by_time_alone() -> None:
    node = node_of(raw(ready="Unknown"))
    since = node.silent_since or 0.0
    assert view(node, since + 899, COUNTING).health is NodeHealth.SILENT
    assert view(node, since + 900, COUNTING).health is NodeHealth.LOST
    assert view(node, since + 1e9, Counting(gone_after=None)).health is NodeHealth.SILENT
    assert view(node_of(raw()), since, COUNTING).health is NodeHealth.UP


def test_a_node_without_its_object_may_live_on() -> None:
    gone = nodes.without_object("n-0", 1000.0, boot="b")
    assert view(gone, 1001.0, COUNTING).health is NodeHealth.SILENT
    assert view(gone, 1900.0, COUNTING).health is NodeHealth.LOST
    assert view(gone, 1001.0, COUNTING).boot == "b"


SPOT = {"key": "spot", "value": "yes", "effect": "NoSchedule"}
LEAVING = {"key": "leaving", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
DRAINS = Counting(drains=(("spot", 120.0), ("leaving", 600.0)))
NEW_YEAR = 1_767_225_600.0


@pytest.mark.parametrize(
    ("taints", "goes_at"),
    [
        ([], None),
        ([{"key": "other", "effect": "NoSchedule"}], None),
        ([SPOT], NEW_YEAR + 1000 + 120),  # it does not say when it was added
        ([LEAVING], NEW_YEAR + 600),
        ([SPOT, LEAVING], NEW_YEAR + 600),
    ],
)
def test_a_taint_announces_when_a_node_goes(taints: list[dict[str, str]], goes_at: float | None) -> None:
    node = node_of(raw(spec={"taints": taints}))
    assert drained_by(node, DRAINS, NEW_YEAR + 1000) == goes_at
    found = reported(node, [], DRAINS, goes_at)
    assert (found.state, found.drain_deadline) == (NodeState.DRAINING if goes_at else NodeState.READY, goes_at)


def test_the_earlier_of_two_deadlines_counts() -> None:
    node = node_of(raw(metadata={"annotations": {nodes.DRAIN_DEADLINE: "2026-01-01T00:10:00Z"}}))
    assert reported(node, [], DRAINS, NEW_YEAR + 60).drain_deadline == NEW_YEAR + 60
    assert reported(node, [], DRAINS, NEW_YEAR + 6000).drain_deadline == NEW_YEAR + 600


def test_devices_that_are_told_apart_are_counted_once() -> None:
    """A card that a driver lists may be a unit of a resource as well: of a plugin, or by `extendedResourceName`."""
    apart = ToldApart((Device("GPU-a", "T4", 16 << 30, 0), Device("GPU-b", "T4", 16 << 30, 1)), ("GPU-b",))
    found = reported(node_of(raw()), [pod(100, gpus=1, hca=2)], COUNTING, apart=apart)
    assert (found.devices, found.slots) == (apart.devices, ())
    assert (found.foreign.devices, found.foreign.slots, found.foreign.extended) == (("GPU-b",), (), (("rdma/hca", 2),))
    assert found.extended == ()
