"""How pods end and nodes go: which evidence counts, and which class an end has (kubernetes.md 8)."""

from __future__ import annotations

from typing import Any, Final

from muster.events.v1 import agent_pb2
from muster.fleet.v1 import fleet_pb2
from tests.conformance import programs
from tests.conformance.platforms import Capability
from tests.conformance.platforms.played import cluster_of
from tests.conformance.registry import case
from tests.conformance.stage import GONE, LOST, READY, SUCCEEDED, Stage, run
from tests.support.fake_kubelet import now

INFRASTRUCTURE: Final = fleet_pb2.FAILURE_CLASS_INFRASTRUCTURE


async def told_by_kubelet(stage: Stage, replica: str, status: dict[str, Any]) -> None:
    """The kubelet of a pod that runs says something else of it."""
    await cluster_of(stage).kubelets.report(f"/api/v1/namespaces/{stage.namespace}/pods/{replica}", status)


def terminated(code: int, reason: str) -> dict[str, Any]:
    """The main container has ended."""
    ended = {"exitCode": code, "reason": reason, "startedAt": now(), "finishedAt": now(), "containerID": "c://1"}
    main = {"name": "main", "image": "x", "imageID": "x", "restartCount": 0, "ready": False, "containerID": "c://1"}
    phase = "Succeeded" if code == 0 else "Failed"
    return {"phase": phase, "containerStatuses": [{**main, "state": {"terminated": ended}}]}


def disrupted(reason: str) -> dict[str, Any]:
    """The condition of a pod that its cluster ends."""
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": now()}
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "words"}
    return {"conditions": [bound, {**condition, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}


@case(
    Capability.CONTAINERS,
    given=[
        ("OOMKilled", fleet_pb2.FAILURE_CLASS_OUT_OF_MEMORY),
        ("Evicted", INFRASTRUCTURE),
        ("OwnLimit", fleet_pb2.FAILURE_CLASS_EXIT),
        ("Preemption", INFRASTRUCTURE),
        ("Drained", INFRASTRUCTURE),
        ("NodeShutdown", INFRASTRUCTURE),
        ("LostCode", INFRASTRUCTURE),
    ],
)
async def what_ends_a_pod_has_its_class(stage: Stage, what: str, failure: int) -> None:
    shutdown = "Pod was terminated in response to imminent node shutdown."
    own = "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi."
    status = {
        "OOMKilled": terminated(137, "OOMKilled"),
        "Evicted": {**terminated(137, "Error"), "reason": "Evicted", "message": "The node was low on memory."},
        "OwnLimit": {**terminated(137, "Error"), "reason": "Evicted", "message": own},
        "Preemption": {**terminated(143, "Error"), **disrupted("PreemptionByScheduler")},
        # A program may end well when its node asks it to: that is no success.
        "Drained": {**terminated(0, "Completed"), **disrupted("EvictionByEvictionAPI")},
        "NodeShutdown": {**terminated(0, "Completed"), "phase": "Failed", "reason": "Terminated", "message": shutdown},
        "LostCode": terminated(137, "ContainerStatusUnknown"),
    }[what]
    work = await stage.running(stage.platform.spoken_for)
    await told_by_kubelet(stage, work.name(), status)
    gone = await work.state(GONE)
    assert gone.failure == failure
    assert "SUCCEEDED" not in work.states()
    named = {"Preemption": "PreemptionByScheduler", "Drained": "EvictionByEvictionAPI", "NodeShutdown": shutdown}
    assert named.get(what, "") in gone.message


@case(Capability.CONTAINERS)
async def a_first_end_is_final(stage: Stage) -> None:
    work = await stage.running(stage.platform.spoken_for)
    await work.finish(0)
    await work.state(GONE)
    await told_by_kubelet(stage, work.name(), terminated(137, "Error"))  # after a restart of the kubelet
    await work.release()
    await work.nothing_left()
    assert {message.status.exit_code for message in work.reports() if message.status.state in {SUCCEEDED, GONE}} == {0}


@case(Capability.CONTAINERS)
async def a_phase_that_the_clusters_collector_wrote_is_no_evidence(stage: Stage) -> None:
    node = stage.node()
    work = await stage.running(node)
    await stage.platform.silence(node)
    await work.state(LOST)
    await told_by_kubelet(stage, work.name(), {"phase": "Failed", **disrupted("DeletionByPodGC")})
    await stage.passed()
    assert "GONE" not in work.states(), "its container may run"


@case(Capability.CONTAINERS)
async def a_pod_that_is_deleted_by_force_is_held_until_its_end_is_known(stage: Stage) -> None:
    node = stage.node()
    work = await stage.running(node)
    cluster_of(stage).kubelets.silent.add(node)
    path = f"/api/v1/namespaces/{stage.namespace}/pods/{work.name()}"
    await cluster_of(stage).kubelets.call("DELETE", path, {"gracePeriodSeconds": 0})
    await stage.passed()
    assert "GONE" not in work.states()
    assert (await cluster_of(stage).kubelets.call("GET", path))["metadata"]["finalizers"] == ["muster.io/gone"]
    await stage.platform.wake(node)
    gone = await work.state(GONE)
    assert gone.failure == INFRASTRUCTURE
    await work.release()
    await work.nothing_left()


@case(Capability.CONTAINERS)
async def a_pod_that_vanished_with_its_finalizer_is_lost_and_not_started_again(stage: Stage) -> None:
    node = stage.node()
    work = await stage.running(node)
    cluster_of(stage).kubelets.silent.add(node)
    path = f"/api/v1/namespaces/{stage.namespace}/pods/{work.name()}"
    await cluster_of(stage).change(path, {"metadata": {"finalizers": None}})
    await cluster_of(stage).kubelets.call("DELETE", path, {"gracePeriodSeconds": 0})
    await work.state(LOST)
    await stage.passed()
    assert "GONE" not in work.states()
    assert await work.starts() == 1


@case(Capability.CONTAINERS)
async def a_pod_that_no_node_had_is_gone_by_that(stage: Stage) -> None:
    node = stage.node()
    cluster_of(stage).kubelets.silent.add(node)
    work = stage.work(programs.WAITS, runs=[run(node=node)])
    await work.assign()
    await cluster_of(stage).pod(work.name())
    await work.release()
    assert (await work.state(GONE)).gone_evidence == "never-bound"
    await work.nothing_left()
    assert await work.starts() == 0


@case(Capability.CONTAINERS)
async def a_node_that_is_to_be_drained_is_told_with_its_deadline(stage: Stage) -> None:
    node = stage.node()
    path, deadline = f"/api/v1/nodes/{node}", "2030-01-01T00:00:00Z"
    await cluster_of(stage).change(path, {"metadata": {"annotations": {"muster.io/drain-deadline": deadline}}})

    def wanted(message: Any) -> bool:
        return isinstance(message, agent_pb2.InventoryReported) and any(
            each.name == node
            and each.state == fleet_pb2.NODE_STATE_DRAINING
            and each.drain_deadline.ToJsonString() == deadline
            for each in message.inventory.nodes
        )

    await stage.bus.first(wanted)


@case(Capability.CONTAINERS)
async def a_node_that_is_deleted_is_told(stage: Stage) -> None:
    node = stage.node()
    await cluster_of(stage).kubelets.call("DELETE", f"/api/v1/nodes/{node}")

    def wanted(message: Any) -> bool:
        """A report of what has changed or, soon after the agent's start, another one of everything."""
        if not isinstance(message, agent_pb2.InventoryReported):
            return False
        named = {each.name for each in message.inventory.nodes}
        return node in message.inventory.removed_nodes or (message.inventory.full and node not in named)

    await stage.bus.first(wanted)


@case(Capability.CONTAINERS)
async def what_runs_on_a_node_that_is_deleted_by_hand_is_lost_until_the_node_is_back(stage: Stage) -> None:
    """A kubelet that lives makes its node again; where none does, `node_gone_after` ends the wait."""
    node = stage.node()
    work = await stage.running(node)
    await cluster_of(stage).kubelets.call("DELETE", f"/api/v1/nodes/{node}")
    await work.state(LOST)
    lost = next(message.order.sequence for message in work.reports() if message.status.state == LOST)
    await stage.passed()
    assert "GONE" not in work.states(), "its machine lives"
    await cluster_of(stage).kubelets.add_node(node)
    await stage.bus.first(
        lambda m: isinstance(m, agent_pb2.ReplicaStatusChanged) and m.status.state == READY and m.order.sequence > lost,
        workload=work.id,
    )
    await work.finish(0)
    await work.state(SUCCEEDED)
    assert await work.starts() == 1
