"""Nodes of KAI-Scheduler: they report virtual cards, and what KAI gave is told as one of them.

KAI is a stand-in everywhere (`tests/conformance/kai.py`).
"""

from __future__ import annotations

from typing import Any, Final

from muster.events.v1 import agent_pb2
from muster.fleet.v1 import fleet_pb2
from muster_cluster_agent.adapters.decode import uuid_bytes
from tests.conformance import kai, programs
from tests.conformance.cases.claims import on, told
from tests.conformance.cases.hami import limits_of
from tests.conformance.platforms import Capability
from tests.conformance.platforms.played import cluster_of
from tests.conformance.registry import case
from tests.conformance.stage import FAILED, GONE, READY, Stage, Work

CARDS: Final = 8
GPU: Final = "nvidia.com/gpu"
HALF: Final = 500
SHARES: Final[dict[str, tuple[dict[str, Any], dict[str, str], dict[str, str]]]] = {
    "whole": ({"whole": True}, {GPU: "2"}, {}),
    "portion": ({"portion_milli": 125}, {}, {"gpu-fraction": "0.125", "gpu-fraction-num-devices": "2"}),
    "memory": ({"memory_bytes": 8 << 30}, {}, {"gpu-memory": "8192", "gpu-fraction-num-devices": "2"}),
}
"""What a replica has of each of two cards, what its container asks for, and by which annotations."""


async def node_of_kai(stage: Stage) -> tuple[str, list[str]]:
    """A node that no other case uses, and its cards as the agent tells them."""
    node, kubelets = stage.node(), cluster_of(stage).kubelets
    # The API server closes a new node until a controller, which is not there, opens it. `Stage.passed` uses n-0.
    for name in (node, "n-0"):
        await kubelets.set_node(name, {"spec": {"taints": None}})
    labels = {"nvidia.com/gpu.memory": f"{kai.MEBIBYTES}", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    await cluster_of(stage).change(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}})
    message = await told(stage, node, lambda found: bool(found.devices) and bool(found.devices[0].memory_bytes))
    (found,) = [each for each in message.inventory.nodes if each.name == node]
    return node, [device.uuid for device in found.devices]


async def shares_a_card(
    stage: Stage, node: str, *cards: str, milli: int = HALF
) -> tuple[Work, fleet_pb2.ReplicaStatus]:
    """A workload that has a portion of each card and is READY, and its status."""
    work = stage.work(programs.WAITS, runs=[on(node, *cards, portion_milli=milli)])
    await work.assign()
    return work, await work.state(READY)


async def groups_of(stage: Stage, work: Work) -> set[str]:
    """The groups that KAI gave a workload's only replica."""
    path = f"/api/v1/namespaces/{stage.namespace}/pods/{work.name()}"
    labels = (await cluster_of(stage).kubelets.call("GET", path))["metadata"]["labels"]
    return {text for name, text in labels.items() if name.startswith(kai.GROUP)}


def devices_in(status: fleet_pb2.ReplicaStatus) -> list[bytes]:
    """The devices that a status tells because they are others than the assigned ones."""
    return [share.device for share in status.devices]


@case(Capability.KAI, alone=True)
async def cards_of_a_node_of_kai_can_be_split(stage: Stage) -> None:
    node, cards = await node_of_kai(stage)
    assert len({*cards}) == CARDS
    message = await told(stage, node, lambda found: bool(found.devices) and bool(found.devices[0].memory_bytes))
    (found,) = [each for each in message.inventory.nodes if each.name == node]
    assert ([*found.slots], [*found.foreign.devices]) == ([], [])
    assert {(device.model, device.memory_bytes) for device in found.devices} == {("H100-80GB", kai.MEBIBYTES << 20)}
    full = await stage.bus.first(
        lambda m: isinstance(m, agent_pb2.InventoryReported) and m.inventory.full and m.inventory.profile.portions
    )
    assert isinstance(full, agent_pb2.InventoryReported)
    profile = full.inventory.profile
    assert profile.identity == fleet_pb2.DEVICE_IDENTITY_UUID
    assert (profile.memory_requests, profile.memory_isolation) == (True, False)


@case(Capability.KAI, given=SHARES, alone=True)
async def a_replica_has_its_share_of_the_cards_of_kai(stage: Stage, kind: str) -> None:
    share, asked, annotations = SHARES[kind]
    node, cards = await node_of_kai(stage)
    work = stage.work(programs.WAITS, runs=[on(node, cards[2], cards[0], **share)])
    await work.assign()
    assert devices_in(await work.state(READY)) == [], "they are those that were assigned"
    if asked:
        assert await limits_of(stage, work) == asked
    pod = await cluster_of(stage).pod(work.name())
    said = pod["metadata"]["annotations"]
    assert {name: text for name, text in said.items() if name.startswith("gpu-")} == annotations
    assert pod["metadata"]["labels"]["kai.scheduler/queue"] == kai.QUEUE
    assert pod["spec"]["schedulerName"] == kai.SCHEDULER
    await work.release()
    await work.state(GONE)
    await work.nothing_left()


@case(Capability.KAI, alone=True)
async def two_portions_that_share_a_group_are_told_as_one_card(stage: Stage) -> None:
    node, cards = await node_of_kai(stage)
    first, _ = await shares_a_card(stage, node, cards[0])
    second, status = await shares_a_card(stage, node, cards[3])
    assert await groups_of(stage, first) == await groups_of(stage, second)
    assert devices_in(status) == [uuid_bytes(cards[0])], "the charge follows to the card of the group"
    await first.release()
    await first.state(GONE)
    third, status = await shares_a_card(stage, node, cards[0])
    assert await groups_of(stage, third) == await groups_of(stage, second)
    assert devices_in(status) == [], "a group keeps its card while one of its pods is left"


@case(Capability.KAI, alone=True)
async def two_portions_of_one_card_in_two_groups_are_told_as_two_cards(stage: Stage) -> None:
    node, cards = await node_of_kai(stage)
    cluster_of(stage).kubelets.kai.spread.add(node)
    _, first = await shares_a_card(stage, node, cards[0])
    _, second = await shares_a_card(stage, node, cards[0])
    assert (devices_in(first), devices_in(second)) == ([], [uuid_bytes(cards[1])])


@case(Capability.KAI, alone=True)
async def a_whole_card_is_told_as_another_one_if_a_group_has_it(stage: Stage) -> None:
    node, cards = await node_of_kai(stage)
    cluster_of(stage).kubelets.kai.spread.add(node)
    await shares_a_card(stage, node, cards[0])
    await shares_a_card(stage, node, cards[0])
    work = stage.work(programs.WAITS, runs=[on(node, cards[1])])
    await work.assign()
    assert devices_in(await work.state(READY)) == [uuid_bytes(cards[2])]


@case(Capability.KAI, alone=True)
async def too_few_cards_of_kai_are_a_fault_of_the_infrastructure(stage: Stage) -> None:
    node, cards = await node_of_kai(stage)
    cluster_of(stage).kubelets.kai.instead[node] = ["only-one"]
    work = stage.work(programs.WAITS, runs=[on(node, cards[0], cards[1], portion_milli=HALF)])
    await work.assign()
    assert (await work.state(FAILED)).failure == fleet_pb2.FAILURE_CLASS_INFRASTRUCTURE
    await work.state(GONE)
    assert "READY" not in work.states()


@case(Capability.KAI, alone=True)
async def another_portion_of_a_card_is_a_fault_of_the_infrastructure(stage: Stage) -> None:
    node, cards = await node_of_kai(stage)
    cluster_of(stage).kubelets.kai.portions[node] = "0.75"
    work = stage.work(programs.WAITS, runs=[on(node, cards[0], portion_milli=HALF)])
    await work.assign()
    assert (await work.state(FAILED)).failure == fleet_pb2.FAILURE_CLASS_INFRASTRUCTURE
    await work.state(GONE)
    assert "READY" not in work.states()


@case(Capability.KAI, alone=True)
async def groups_for_which_no_card_is_left_are_a_fault_of_the_infrastructure(stage: Stage) -> None:
    node, cards = await node_of_kai(stage)
    cluster_of(stage).kubelets.kai.spread.add(node)
    whole = stage.work(programs.WAITS, runs=[on(node, *cards[1:])])
    await whole.assign()
    await whole.state(READY)
    await shares_a_card(stage, node, cards[0])
    work = stage.work(programs.WAITS, runs=[on(node, cards[0], portion_milli=HALF)])
    await work.assign()
    assert (await work.state(FAILED)).failure == fleet_pb2.FAILURE_CLASS_INFRASTRUCTURE
    assert "READY" not in work.states()


@case(Capability.KAI, alone=True)
async def portions_of_others_hold_their_cards(stage: Stage) -> None:
    node, cards = await node_of_kai(stage)
    kubelets = cluster_of(stage).kubelets
    await shares_a_card(stage, node, cards[0])
    await kubelets.kai.reserve(node, f"theirs-{node}")
    await told(stage, node, lambda found: list(found.foreign.devices) == [cards[-1]])
    # A pod of others that shares the card of a replica closes it to new ones.
    (ours,) = await groups_of(stage, (await shares_a_card(stage, node, cards[0], milli=250))[0])
    container = {"name": "c", "image": "x"}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"theirs-{node}",
            "annotations": {"gpu-fraction": "0.25"},
            "labels": {kai.GROUP: ours},
        },
        "spec": {"nodeName": node, "containers": [container]},
    }
    await kubelets.call("POST", "/api/v1/namespaces/kube-system/pods", body)
    await told(stage, node, lambda found: {*found.foreign.devices} == {cards[0], cards[-1]})


@case(Capability.KAI, alone=True)
async def a_slice_of_a_card_of_kai_is_refused(stage: Stage) -> None:
    node, cards = await node_of_kai(stage)
    work = stage.work(programs.WAITS, runs=[on(node, cards[0], slice=fleet_pb2.MigSlice(profile="1g.10gb"))])
    await work.assign()
    refused = await work.refused("Unsupported")
    assert cards[0] in refused.reason.message
    assert work.reports() == []


@case(Capability.KAI, alone=True, long=True)
async def an_agent_that_is_killed_knows_the_cards_of_groups(stage: Stage) -> None:
    node, cards = await node_of_kai(stage)
    first, _ = await shares_a_card(stage, node, cards[0])
    second, status = await shares_a_card(stage, node, cards[3])
    assert devices_in(status) == [uuid_bytes(cards[0])]
    await first.release()
    await first.state(GONE)
    await stage.kill()
    await stage.up()
    await stage.passed()
    assert await second.starts() == 1
    last = second.reports()[-1].status
    assert (second.states()[-1], devices_in(last)) == ("READY", [uuid_bytes(cards[0])])
