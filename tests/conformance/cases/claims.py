"""Devices that a driver lists: they are told by UUID, and a replica has a claim for exactly those that it was given."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final
from uuid import uuid4

from muster.events.v1 import agent_pb2
from muster.fleet.v1 import fleet_pb2
from muster_cluster_agent.adapters.decode import uuid_bytes
from tests.conformance import programs
from tests.conformance.drivers import API, CLASS
from tests.conformance.platforms import Capability
from tests.conformance.platforms.played import cluster_of
from tests.conformance.registry import case
from tests.conformance.stage import GONE, READY, SUCCEEDED, Stage, Work, run
from tests.support.fake_kubelet import unschedulable
from tests.support.waiting import eventually

CARDS: Final = 3


async def node_with_devices(stage: Stage) -> tuple[str, list[str]]:
    """A node that no other case uses and whose driver lists devices; their UUIDs, once the agent has told them."""
    node, uuids = stage.node(), [f"GPU-{uuid4()}" for _ in range(CARDS)]
    kubelets = cluster_of(stage).kubelets
    # The API server closes a new node until a controller, which is not there, opens it. `Stage.passed` uses n-0.
    for name in (node, "n-0"):
        await kubelets.set_node(name, {"spec": {"taints": None}})
    await kubelets.drivers.list_devices(node, *uuids)
    await told(stage, node, lambda found: [device.uuid for device in found.devices] == uuids)
    return node, uuids


async def told(stage: Stage, name: str, holds: Callable[[fleet_pb2.Node], bool]) -> agent_pb2.InventoryReported:
    """The first inventory in which it holds of a node."""
    found = await stage.bus.first(
        lambda m: (
            isinstance(m, agent_pb2.InventoryReported)
            and any(node.name == name and holds(node) for node in m.inventory.nodes)
        )
    )
    assert isinstance(found, agent_pb2.InventoryReported)
    return found


def on(node: str, *uuids: str, **share: Any) -> fleet_pb2.ReplicaRun:
    """One replica with these devices. share: how much of each; all of it unless told otherwise."""
    made = run(node=node)
    given = made.devices.add()
    for uuid in uuids:
        given.shares.add(device=uuid_bytes(uuid), **(share or {"whole": True}))
    return made


async def claim_of(stage: Stage, work: Work) -> Any:
    """The claim of a workload's only replica."""
    path = f"{API}/namespaces/{stage.namespace}/resourceclaims/{work.name()}"
    return await cluster_of(stage).kubelets.call("GET", path)


@case(Capability.DEVICE_CLAIMS, alone=True)
async def devices_that_a_driver_lists_are_told_by_their_uuids(stage: Stage) -> None:
    node, uuids = await node_with_devices(stage)
    message = await told(stage, node, lambda found: bool(found.devices))
    (found,) = [each for each in message.inventory.nodes if each.name == node]
    # The same node also counts eight units of nvidia.com/gpu: its cards are there once.
    assert (len(found.devices), len(found.slots)) == (len(uuids), 0)
    assert {(device.model, device.memory_bytes) for device in found.devices} == {("H100-80GB", 80 << 30)}
    full = await stage.bus.first(
        lambda m: (
            isinstance(m, agent_pb2.InventoryReported)
            and m.inventory.full
            and m.inventory.profile.identity == fleet_pb2.DEVICE_IDENTITY_UUID
        )
    )
    (other,) = [each for each in full.inventory.nodes if each.name == "n-0"]
    assert [group.count for group in other.slots] == [8]


@case(Capability.DEVICE_CLAIMS, alone=True)
async def a_replica_is_given_exactly_its_devices(stage: Stage) -> None:
    node, uuids = await node_with_devices(stage)
    work = stage.work(programs.WAITS, runs=[on(node, uuids[2], uuids[0])])
    await work.assign()
    status = await work.state(READY)
    assert not status.devices, "they are those that were assigned"
    allocation = (await claim_of(stage, work))["status"]["allocation"]["devices"]["results"]
    assert sorted((one["pool"], one["device"]) for one in allocation) == [(node, "gpu-0"), (node, "gpu-2")]
    pod = await cluster_of(stage).pod(work.name())
    env = {one["name"]: one.get("value") for one in pod["spec"]["containers"][0]["env"]}
    assert [each["uuid"] for each in json.loads(env["MUSTER_DEVICES"])] == [uuids[2], uuids[0]]
    await work.release()
    await work.state(GONE)
    await work.nothing_left()


@case(Capability.DEVICE_CLAIMS, alone=True)
async def gone_waits_until_the_claim_is_released(stage: Stage) -> None:
    node, uuids = await node_with_devices(stage)
    work = stage.work(programs.WAITS, runs=[on(node, uuids[0])])
    await work.assign()
    await work.state(READY)
    kubelets = cluster_of(stage).kubelets
    kubelets.drivers.kept.add(work.name())
    await work.finish(0)
    await work.state(SUCCEEDED)
    await stage.passed()
    assert "GONE" not in work.states(), "the device is not released"
    await kubelets.release_claim(work.name())
    assert (await work.state(GONE)).gone_evidence == "containers-terminated"


@case(Capability.DEVICE_CLAIMS, alone=True)
async def a_device_of_others_is_told_and_given_to_nobody(stage: Stage) -> None:
    node, uuids = await node_with_devices(stage)
    kubelets = cluster_of(stage).kubelets
    await kubelets.drivers.take("kube-system", f"theirs-{node}", node, uuids[1])
    await told(stage, node, lambda found: list(found.foreign.devices) == [uuids[1]])
    # Of a pod that no real scheduler binds.
    kubelets.unbound[node] = unschedulable(message="0/1 nodes are available: 1 cannot allocate all claims.")
    work = stage.work(programs.WAITS, runs=[on(node, uuids[1])])
    await work.assign()
    assert (await work.refused("ForeignTaken")).node == node
    await eventually(lambda: cluster_of(stage).left(work.id), lambda left: not [x for x in left if "claims/" in x])


@case(Capability.DEVICE_CLAIMS, alone=True)
async def the_next_replica_has_the_device_of_the_last_one(stage: Stage) -> None:
    node, uuids = await node_with_devices(stage)
    for _ in range(2):
        work = stage.work(programs.WAITS, runs=[on(node, uuids[1])])
        await work.assign()
        await work.state(READY)
        await work.release()
        await work.state(GONE)
        await work.nothing_left()


@case(Capability.DEVICE_CLAIMS, alone=True)
async def a_part_of_a_claimed_device_is_refused(stage: Stage) -> None:
    node, uuids = await node_with_devices(stage)
    work = stage.work(programs.WAITS, runs=[on(node, uuids[0], portion_milli=500)])
    await work.assign()
    refused = await work.refused("Unsupported")
    assert uuids[0] in refused.reason.message
    assert "only as a whole" in refused.reason.message
    assert work.reports() == []


@case(Capability.DEVICE_CLAIMS, alone=True, long=True)
async def an_agent_that_is_killed_finds_its_claims_again(stage: Stage) -> None:
    node, uuids = await node_with_devices(stage)
    work = stage.work(programs.WAITS, runs=[on(node, uuids[0])])
    await work.assign()
    await work.state(READY)
    claim = await claim_of(stage, work)
    await stage.kill()
    await stage.up()
    await stage.passed()
    assert (await claim_of(stage, work))["metadata"]["uid"] == claim["metadata"]["uid"]
    assert await work.starts() == 1
    assert claim["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == CLASS
