"""Nodes of HAMi: their devices are told by UUID, and a replica has whole ones, portions, or memory of those assigned.

HAMi is a stand-in everywhere (`tests/support/hami.py`): its scheduler's annotations are written as pods are bound.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import uuid4

from muster.events.v1 import agent_pb2
from muster.fleet.v1 import fleet_pb2
from muster_cluster_agent.adapters.decode import uuid_bytes
from tests.conformance import programs
from tests.conformance.cases.claims import on, told
from tests.conformance.platforms import Capability
from tests.conformance.platforms.played import cluster_of
from tests.conformance.registry import case
from tests.conformance.stage import FAILED, GONE, READY, Stage, Work
from tests.support.hami import ALLOCATED, MEBIBYTES, allocation, register

CARDS: Final = 3
GPU: Final = "nvidia.com/gpu"
SHARES: Final[dict[str, tuple[dict[str, Any], dict[str, str]]]] = {
    "whole": ({"whole": True}, {GPU: "2"}),
    "portion": ({"portion_milli": 250}, {GPU: "2", f"{GPU}mem-percentage": "25", f"{GPU}cores": "25"}),
    "memory": ({"memory_bytes": 8 << 30}, {GPU: "2", f"{GPU}mem": "8192"}),
}
"""What a replica has of each of two devices, and what its container asks for."""


async def node_of_hami(stage: Stage) -> tuple[str, list[str]]:
    """A node that no other case uses and whose devices HAMi has registered; their UUIDs, once the agent tells them."""
    node, uuids = stage.node(), [f"GPU-{uuid4()}" for _ in range(CARDS)]
    kubelets = cluster_of(stage).kubelets
    # The API server closes a new node until a controller, which is not there, opens it. `Stage.passed` uses n-0.
    for name in (node, "n-0"):
        await kubelets.set_node(name, {"spec": {"taints": None}})
    await kubelets.register(node, register(*uuids))
    await told(stage, node, lambda found: [device.uuid for device in found.devices] == uuids)
    return node, uuids


async def limits_of(stage: Stage, work: Work) -> dict[str, str]:
    """What a workload's only replica asks for of extended resources."""
    pod = await cluster_of(stage).pod(work.name())
    found: dict[str, str] = pod["spec"]["containers"][0]["resources"]["limits"]
    return {name: amount for name, amount in found.items() if "/" in name}


@case(Capability.HAMI, alone=True)
async def devices_that_hami_registers_can_be_split(stage: Stage) -> None:
    node, uuids = await node_of_hami(stage)
    message = await told(stage, node, lambda found: bool(found.devices))
    (found,) = [each for each in message.inventory.nodes if each.name == node]
    assert (len(found.devices), len(found.slots)) == (len(uuids), 0)
    assert {(device.model, device.memory_bytes) for device in found.devices} == {("H100-80GB", MEBIBYTES << 20)}


@case(Capability.HAMI, Capability.OWN_CLUSTER, alone=True)
async def portions_are_offered_where_no_other_node_names_its_devices(stage: Stage) -> None:
    await node_of_hami(stage)
    full = await stage.bus.first(
        lambda m: isinstance(m, agent_pb2.InventoryReported) and m.inventory.full and m.inventory.profile.portions
    )
    assert isinstance(full, agent_pb2.InventoryReported)
    profile = full.inventory.profile
    assert (profile.identity, profile.mig) == (fleet_pb2.DEVICE_IDENTITY_UUID, fleet_pb2.MIG_SUPPORT_NONE)
    assert (profile.memory_requests, profile.memory_isolation) == (True, True)


@case(Capability.HAMI, given=SHARES, alone=True)
async def a_replica_has_its_share_of_the_devices_of_hami(stage: Stage, kind: str) -> None:
    share, asked = SHARES[kind]
    node, uuids = await node_of_hami(stage)
    work = stage.work(programs.WAITS, runs=[on(node, uuids[2], uuids[0], **share)])
    await work.assign()
    assert not (await work.state(READY)).devices, "they are those that were assigned"
    assert await limits_of(stage, work) == asked
    pod = await cluster_of(stage).pod(work.name())
    assert pod["metadata"]["annotations"]["nvidia.com/use-gpuuuid"] == f"{uuids[2]},{uuids[0]}"
    assert pod["spec"]["schedulerName"] == "hami-scheduler"
    await work.release()
    await work.state(GONE)
    await work.nothing_left()


@case(Capability.HAMI, alone=True)
async def the_charge_follows_the_device_that_hami_gave(stage: Stage) -> None:
    node, uuids = await node_of_hami(stage)
    cluster_of(stage).kubelets.instead[node] = [uuids[1]]
    work = stage.work(programs.WAITS, runs=[on(node, uuids[0], portion_milli=500)])
    await work.assign()
    status = await work.state(READY)
    assert [share.device for share in status.devices] == [uuid_bytes(uuids[1])]


@case(Capability.HAMI, alone=True)
async def too_few_devices_of_hami_are_a_fault_of_the_infrastructure(stage: Stage) -> None:
    node, uuids = await node_of_hami(stage)
    cluster_of(stage).kubelets.instead[node] = [uuids[0]]
    work = stage.work(programs.WAITS, runs=[on(node, uuids[0], uuids[1])])
    await work.assign()
    assert (await work.state(FAILED)).failure == fleet_pb2.FAILURE_CLASS_INFRASTRUCTURE
    await work.state(GONE)
    assert "READY" not in work.states()


@case(Capability.HAMI, alone=True)
async def what_hami_gave_to_others_is_told(stage: Stage) -> None:
    node, uuids = await node_of_hami(stage)
    container = {"name": "c", "image": "x", "resources": {"limits": {GPU: "1"}}}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"theirs-{node}", "annotations": {ALLOCATED: allocation(uuids[1])}},
        "spec": {"nodeName": node, "containers": [container]},
    }
    await cluster_of(stage).kubelets.call("POST", "/api/v1/namespaces/kube-system/pods", body)
    await told(stage, node, lambda found: list(found.foreign.devices) == [uuids[1]])


@case(Capability.HAMI, alone=True)
async def a_slice_of_a_device_of_hami_is_refused(stage: Stage) -> None:
    node, uuids = await node_of_hami(stage)
    work = stage.work(programs.WAITS, runs=[on(node, uuids[0], slice=fleet_pb2.MigSlice(profile="1g.10gb"))])
    await work.assign()
    refused = await work.refused("Unsupported")
    assert uuids[0] in refused.reason.message
    assert "no MIG slices" in refused.reason.message
    assert work.reports() == []


@case(Capability.HAMI, alone=True)
async def an_annotation_of_hami_that_cannot_be_read_offers_nothing(stage: Stage) -> None:
    node, uuids = await node_of_hami(stage)
    work = stage.work(programs.WAITS, runs=[on(node, uuids[0])])
    await work.assign()
    await work.state(READY)
    await cluster_of(stage).kubelets.register(node, "GPU-a,10:")
    await told(stage, node, lambda found: not found.devices and not found.slots and bool(found.cpu_milli))
    await stage.passed()
    assert work.states()[-1] == "READY"


@case(Capability.HAMI, alone=True, long=True)
async def an_agent_that_is_killed_knows_what_hami_gave(stage: Stage) -> None:
    node, uuids = await node_of_hami(stage)
    work = stage.work(programs.WAITS, runs=[on(node, uuids[0], portion_milli=500)])
    await work.assign()
    await work.state(READY)
    await stage.kill()
    await stage.up()
    await stage.passed()
    assert await work.starts() == 1
    assert work.states()[-1] == "READY"
