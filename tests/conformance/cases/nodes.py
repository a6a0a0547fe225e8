"""Nodes: what they are reported as, and what their silence, their return and their end mean for what ran there."""

from __future__ import annotations

from typing import Any, Final

from muster.events.v1 import agent_pb2
from muster.fleet.v1 import fleet_pb2
from tests.conformance import programs
from tests.conformance.kubelets import MERGE
from tests.conformance.platforms import Capability
from tests.conformance.platforms.played import cluster_of
from tests.conformance.registry import case
from tests.conformance.stage import GONE, LOST, READY, SUCCEEDED, Stage, run

INFRASTRUCTURE: Final = fleet_pb2.FAILURE_CLASS_INFRASTRUCTURE
NOT_READY: Final = fleet_pb2.NODE_STATE_NOT_READY


async def node_told(stage: Stage, name: str, state: int) -> None:
    """The agent's inventory has the node in that state."""

    def wanted(message: Any) -> bool:
        return isinstance(message, agent_pb2.InventoryReported) and any(
            node.name == name and node.state == state for node in message.inventory.nodes
        )

    await stage.bus.first(wanted)


@case()
async def the_first_inventory_has_every_node(stage: Stage) -> None:
    found = await stage.bus.first(lambda m: isinstance(m, agent_pb2.InventoryReported) and m.inventory.full)
    names = {node.name for node in found.inventory.nodes}
    assert {"n-0", "n-1", "n-2"} <= names
    (first,) = [node for node in found.inventory.nodes if node.name == "n-0"]
    assert (first.cpu_milli, first.state) == (stage.platform.cpu_milli, fleet_pb2.NODE_STATE_READY)
    assert len(first.devices) + sum(group.count for group in first.slots) == 8
    assert all(node.uid and node.boot_id for node in found.inventory.nodes)
    assert found.inventory.profile.backend


@case()
async def heartbeats_come_and_tell_when_the_cluster_was_seen(stage: Stage) -> None:
    first = await stage.bus.first(lambda m: isinstance(m, agent_pb2.Heartbeat))
    later = await stage.bus.first(
        lambda m: (
            isinstance(m, agent_pb2.Heartbeat)
            and m.order.observed_at.ToNanoseconds() > first.order.observed_at.ToNanoseconds()
        )
    )
    assert later.order.sequence > first.order.sequence
    assert later.backend == agent_pb2.BACKEND_HEALTH_OK


@case()
async def a_closed_node_is_told_and_what_runs_there_goes_on(stage: Stage) -> None:
    node = stage.node()
    work = await stage.running(node)
    await stage.platform.cordon(node)
    await node_told(stage, node, fleet_pb2.NODE_STATE_CORDONED)
    await work.finish(0)
    await work.state(SUCCEEDED)


@case(Capability.CONTAINERS)
async def a_node_is_told_with_its_limit_of_pods(stage: Stage) -> None:
    """Pods of others count while they run, and those of Muster never."""
    node, kubelets = stage.node(), cluster_of(stage).kubelets
    work = await stage.running(node)
    whole = await _limit_told(stage, node, 250)
    path, name = "/api/v1/namespaces/kube-system/pods", f"others-{node}-{stage.namespace}"
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "busybox"}]}
    made = await kubelets.call("POST", path, {"metadata": {"name": name}, "spec": spec})
    fewer = await _limit_told(stage, node, 249, after=whole)
    await kubelets.call("PATCH", f"{path}/{name}/status", {"status": {"phase": "Succeeded"}}, content=MERGE)
    await _limit_told(stage, node, 250, after=fewer)
    await kubelets.call("DELETE", f"{path}/{name}", {"preconditions": {"uid": made["metadata"]["uid"]}})
    await work.finish(0)


async def _limit_told(stage: Stage, node: str, most: int, after: tuple[int, int] = (0, 0)) -> tuple[int, int]:
    """Wait for an inventory in which the node takes so many replicas; after: a later one. Return its place."""
    found = await stage.bus.first(
        lambda m: (
            isinstance(m, agent_pb2.InventoryReported)
            and (m.order.start, m.order.sequence) > after
            and any(each.name == node and each.most_replicas == most for each in m.inventory.nodes)
        )
    )
    return found.order.start, found.order.sequence


@case(Capability.FROZEN_NODES)
async def what_runs_on_a_silent_node_is_lost_and_comes_back(stage: Stage) -> None:
    node = stage.node()
    work = await stage.running(node)
    await stage.platform.silence(node)
    await work.state(LOST)
    await node_told(stage, node, NOT_READY)
    assert "GONE" not in work.states()
    lost = next(message.order.sequence for message in work.reports() if message.status.state == LOST)
    await stage.platform.wake(node)
    await stage.bus.first(
        lambda m: isinstance(m, agent_pb2.ReplicaStatusChanged) and m.status.state == READY and m.order.sequence > lost,
        workload=work.id,
    )
    await work.finish(0)
    await work.state(SUCCEEDED)
    assert "GONE" not in work.states()[: work.states().index("SUCCEEDED")]
    assert await work.starts() == 1


@case(Capability.FROZEN_NODES)
async def nothing_is_started_on_a_silent_node(stage: Stage) -> None:
    node = stage.node()
    await stage.platform.silence(node)
    await node_told(stage, node, NOT_READY)
    work = stage.work(programs.SUCCEEDS, runs=[run(node=node)])
    await work.assign()
    refused = await work.refused("NodeNotReady")
    assert refused.node == node
    assert work.reports() == []


@case(Capability.FROZEN_NODES)
async def a_silent_node_spares_the_others(stage: Stage) -> None:
    node = stage.node()
    await stage.platform.silence(node)
    await node_told(stage, node, NOT_READY)
    work = stage.work(programs.ends(0))
    await work.assign()
    await work.state(SUCCEEDED)


@case(Capability.FROZEN_NODES)
async def a_release_on_a_silent_node_waits_for_its_return(stage: Stage) -> None:
    node = stage.node()
    work = await stage.running(node)
    await stage.platform.silence(node)
    await work.state(LOST)
    await work.release()
    await stage.passed()
    assert "GONE" not in work.states(), "it is not known whether it runs"
    await stage.platform.wake(node)
    await work.state(GONE)
    await work.nothing_left()


@case(Capability.REBOOTS)
async def what_ran_on_a_node_that_starts_again_is_gone(stage: Stage) -> None:
    node = stage.node()
    work = await stage.running(node)
    await stage.platform.silence(node)
    await work.state(LOST)
    await stage.platform.reboot(node)
    gone = await work.state(GONE)
    assert gone.failure == INFRASTRUCTURE
    await work.assign(attempt=1, revision=1)
    await work.state(READY, attempt=1)
    assert await work.starts(work.name(attempt=1)) == 1


@case(Capability.REBOOTS)
async def a_node_out_of_service_is_the_end_of_what_ran_there(stage: Stage) -> None:
    node = stage.node()
    work = await stage.running(node)
    await stage.platform.silence(node)
    await work.state(LOST)
    await stage.platform.retire(node)
    gone = await work.state(GONE)
    assert (gone.gone_evidence, gone.failure) == ("out-of-service", INFRASTRUCTURE)
    await node_told(stage, node, fleet_pb2.NODE_STATE_OUT_OF_SERVICE)


@case(Capability.REBOOTS)
async def nothing_is_started_on_a_node_out_of_service(stage: Stage) -> None:
    node = stage.node()
    await stage.platform.retire(node)
    await node_told(stage, node, fleet_pb2.NODE_STATE_OUT_OF_SERVICE)
    work = stage.work(programs.SUCCEEDS, runs=[run(node=node)])
    await work.assign()
    assert (await work.refused("NodeNotReady")).node == node


@case(Capability.FROZEN_NODES)
async def trials_are_lost_on_the_silent_node_alone(stage: Stage) -> None:
    node = stage.node()
    work = stage.work(programs.WAITS, completions=2, parallelism=2, runs=[run(), run(first=1, node=node)])
    await work.assign()
    for index in range(2):
        await work.state(READY, name=work.name(index=index))
    await stage.platform.silence(node)
    await work.state(LOST, name=work.name(index=1))
    assert work.states(work.name(index=0))[-1] == "READY"
    await stage.platform.wake(node)
    for index in range(2):
        await work.finish(0, work.name(index=index))
        await work.state(SUCCEEDED, name=work.name(index=index))
