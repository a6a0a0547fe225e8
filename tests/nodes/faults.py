"""Faults of real nodes, and what has to come of them: kubelets that die, machines that start again or never do.

The budgets are those of kubernetes.md 17; each act leaves the nodes as it found them.
"""

from __future__ import annotations

import asyncio
import signal
import time
from typing import Any, Final

import httpx

from muster_client import Phase
from muster_stack.demo.acts import require
from muster_stack.demo.diary import Entry
from tests.nodes.configs import IMAGE
from tests.nodes.kinds import require_devices
from tests.nodes.scene import WAITS, Scene, replica
from tests.nodes.site import GPU, GPUS
from tests.support.waiting import eventually

_LOST_SECONDS: Final = 75.0  # the API server calls a node silent after 50
_ELSEWHERE_SECONDS: Final = 35.0
_GONE_SECONDS: Final = 10.0
_LOOKS: Final = 15  # a second apart: nothing changes while the node is silent
_LATE_SECONDS: Final = 5.0  # of a look at the cluster, and of the way of a report
_OUT: Final = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
_MERGE: Final = {"Content-Type": "application/merge-patch+json"}


async def foreign_taken(scene: Scene) -> None:
    """A pod of others takes a node's devices before ours is bound: it starts elsewhere, no restart is spent."""
    scheduler = scene.site.cluster.programs["kube-scheduler"]
    try:
        scheduler.send(signal.SIGSTOP)
        try:
            workload = await scene.submit("displaced", WAITS, gpuDevices=GPUS)
            entry = await scene.until(workload, lambda each: each.workload.replicas, "it is placed")
            node = replica(entry).node
            await _post(scene, "/api/v1/namespaces/default/pods", _pod_of_others(node))
            await _until_running(scene, "others")
        finally:
            scheduler.send(signal.SIGCONT)
        began = time.monotonic()
        entry = await scene.until(workload, lambda each: _ready_elsewhere(each, node), "it runs elsewhere")
        seconds = time.monotonic() - began
        require(seconds <= _ELSEWHERE_SECONDS + _LATE_SECONDS, f"it ran elsewhere after {seconds:.0f} s")
        await require_devices(scene, entry, resource=GPU)
        attempts = (await scene.muster.get(workload)).attempts
        require([each.cause.code for each in attempts] == ["AgentRefused", ""], f"its attempts were {attempts}")
        await scene.end(workload)
    finally:
        await _delete(scene, "/api/v1/namespaces/default/pods/others")


async def kubelet_lost(scene: Scene) -> None:
    """A kubelet dies, its containers live: LOST, the devices stay charged, nothing is started again."""
    entry = await scene.run("lonely", WAITS, gpuDevices=GPUS)
    workload, node = entry.workload.id, replica(entry).node
    scene.site.nodes[node].kill_kubelet()
    began = time.monotonic()
    entry = await scene.until(workload, lambda each: replica(each).state == "LOST", "its replica is LOST")
    seconds = time.monotonic() - began
    require(seconds <= _LOST_SECONDS + _LATE_SECONDS, f"it was LOST after {seconds:.0f} s")
    for _ in range(_LOOKS):
        require(len(await asyncio.to_thread(scene.pods, workload)) == 1, "it has another pod")
        (held,) = [each async for each in scene.muster.nodes.list() if each.name == node]
        require(not any(each.free_milli for each in held.devices), f"a device of {node} is free: {held.devices}")
        await asyncio.sleep(1.0)
    scene.lonely = workload


async def kubelet_back(scene: Scene) -> None:
    """The kubelet is back: the replica is READY again, in the same attempt, and its container was never stopped."""
    workload = scene.lonely
    entry = scene.diary.entries[workload]
    before = (replica(entry).name, entry.workload.attempt)
    scene.site.nodes[replica(entry).node].start_kubelet()
    entry = await scene.running(workload)
    require((replica(entry).name, entry.workload.attempt) == before, f"it was started again: {entry.workload}")
    await require_devices(scene, entry, resource=GPU)
    await scene.end(workload)


async def rebooted(scene: Scene) -> None:
    """A node starts again: what ran there is GONE, and its gang starts once more as a whole."""
    entry = await _pair(scene, "pair")
    workload, node, first = entry.workload.id, replica(entry).node, entry.workload.attempt
    machine = scene.site.nodes[node]
    await asyncio.to_thread(machine.power_off)
    await asyncio.to_thread(machine.power_on)
    await _require_again(scene, workload, first)
    await asyncio.to_thread(scene.site.until_ready, node)
    await scene.end(workload)


async def out_of_service(scene: Scene) -> None:
    """A node loses its power, and an operator says so by a taint: what ran there is GONE and starts elsewhere."""
    entry = await scene.run("moved", WAITS, gpuDevices=1)
    workload, node, first = entry.workload.id, replica(entry).node, entry.workload.attempt
    machine = scene.site.nodes[node]
    await asyncio.to_thread(machine.power_off)
    await scene.until(workload, lambda each: replica(each).state == "LOST", "its replica is LOST")
    await _taint(scene, node, [_OUT])
    try:
        began = time.monotonic()
        await scene.until(workload, lambda each: each.workload.attempt > first, "it is started again")
        seconds = time.monotonic() - began
        require(seconds <= _GONE_SECONDS + _LATE_SECONDS, f"it was started again after {seconds:.0f} s")
        entry = await scene.running(workload)
        require(replica(entry).node != node, "it was started on the node without power")
    finally:
        await asyncio.to_thread(machine.power_on)
        await _taint(scene, node, [])
        await asyncio.to_thread(scene.site.until_ready, node)
    await scene.end(workload)


async def _pair(scene: Scene, name: str) -> Entry:
    """A gang with one worker on each node."""
    fields: dict[str, Any] = {"jobType": "TF", "workers": 2, "gpuDevices": GPUS - 1}
    return await scene.run(name, WAITS, kind="DistributedWorkload", **fields)


async def _require_again(scene: Scene, workload: str, first: int) -> None:
    """A gang that runs again as a whole, after one fault of the infrastructure.

    A kubelet that comes to know the end of a container by a reboot says 255; else the node's boot id is the evidence.
    """
    await scene.until(
        workload, lambda each: each.workload.attempt > first and each.phase == Phase.RUNNING.word, "it runs again"
    )
    attempts = (await scene.muster.get(workload)).attempts
    require(len(attempts) == 2, f"it has {len(attempts)} attempts: {attempts}")
    cause = attempts[0].cause.message
    require("fault 1 of" in cause and "of the fleet" in cause, f"its first attempt ended for: {cause}")


def _ready_elsewhere(entry: Entry, node: str) -> bool:
    return any(each.node not in {"", node} and each.state == "READY" for each in entry.workload.replicas)


def _pod_of_others(node: str) -> dict[str, Any]:
    container = {"name": "c", "image": IMAGE, "command": ["sleep", "3600"], "resources": {"limits": {GPU: str(GPUS)}}}
    spec = {"nodeName": node, "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": False}
    return {"metadata": {"name": "others"}, "spec": {**spec, "containers": [container]}}


async def _post(scene: Scene, path: str, body: Any) -> None:
    answer = await asyncio.to_thread(scene.site.cluster.post, path, body)
    answer.raise_for_status()


async def _delete(scene: Scene, path: str) -> None:
    """Deletes an object, if it is there."""
    answer = await asyncio.to_thread(scene.site.cluster.http.delete, path)
    if answer.status_code != httpx.codes.NOT_FOUND:
        answer.raise_for_status()


async def _until_running(scene: Scene, name: str) -> None:
    path = f"/api/v1/namespaces/default/pods/{name}"

    async def phase() -> str:
        answer = await asyncio.to_thread(scene.site.cluster.http.get, path)
        return str(answer.raise_for_status().json()["status"]["phase"])

    await eventually(phase, lambda word: word == "Running", every=0.1)


async def _taint(scene: Scene, node: str, taints: list[dict[str, str]]) -> None:
    """The operator's own taints of a node; the cluster's controllers add theirs again."""
    client = scene.site.cluster.http
    body = {"spec": {"taints": taints or None}}
    answer = await asyncio.to_thread(client.patch, f"/api/v1/nodes/{node}", json=body, headers=_MERGE)
    answer.raise_for_status()
