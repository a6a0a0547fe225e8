"""Each kind of workload on real nodes: it runs, does what it is for, and sees exactly the devices that it was given."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from importlib import resources
from typing import Any, Final
from uuid import uuid4

import yaml

from muster_client import MusterError
from muster_stack.demo.acts import require
from muster_stack.demo.diary import Entry
from muster_stack.demo.scene import log_of
from tests.nodes.configs import IMAGE
from tests.nodes.driver import Driver, files_of
from tests.nodes.machine import Node
from tests.nodes.plugin import VISIBLE, given_out
from tests.nodes.scene import FOLDERS, PATIENCE, PROJECT, TORCH, WAITS, Scene, replica
from tests.nodes.site import GPU, MIG
from tests.support.waiting import eventually, until

_LISTED_SECONDS: Final = 30.0
_RANKS: Final = 4
CLAIMED: Final = 10  # devices that a driver lists: a half of them is more than a node counts
CLAIMED_NODE: Final = "b"


async def mpi(scene: Scene) -> None:
    """Four ranks on two workers add up what they have."""
    made = await scene.submit(
        "allreduce",
        "python3 -m mpi4py /programs/allreduce.py",
        kind="DistributedWorkload",
        jobType="MPI",
        workers=2,
        slotsPerWorker=2,
        gpuDevices=1,
    )
    told = await scene.completed(made)
    require(told["ranks"] == _RANKS and told["right"] is True, f"the sum is wrong: {told}")
    require(sorted(told["workers"].values()) == ["0", "0", "1", "1"], f"not two ranks on each worker: {told}")
    await scene.end(made)


async def torchrun(scene: Scene) -> None:
    """Two workers with two processes each train one model: its loss falls, and all come to the same weights."""
    made = await scene.submit(
        "data-parallel",
        "torchrun /programs/parallel.py",
        kind="DistributedWorkload",
        jobType="PyTorch",
        workers=2,
        gpuDevices=2,
        environment=TORCH,
    )
    _require_trained(await scene.completed(made))
    await scene.end(made)


async def colossal(scene: Scene) -> None:
    """A ColossalAIJob: the launcher starts torchrun on each worker over ssh."""
    made = await scene.muster.submit(_colossal_job())
    _require_trained(await scene.completed(made.id))
    await scene.end(made.id)


async def torchrun_elastic(scene: Scene) -> None:
    """A gang grows to two workers, loses one whose pod others delete, and has two again: one attempt."""
    workload = await scene.submit(
        "elastic",
        "torchrun /tests/elastic.py",
        kind="DistributedWorkload",
        jobType="PyTorch",
        workers=1,
        minReplicas=1,
        maxReplicas=2,
        gpuDevices=1,
        environment=TORCH,
    )
    entry = await scene.running(workload)
    first = entry.workload.attempt
    await _until_world(scene, workload, 2, times=1)
    pods = await asyncio.to_thread(scene.pods, workload)
    name = replica(entry, index=1).name
    path = f"/api/v1/namespaces/{pods[name]['metadata']['namespace']}/pods/{name}"
    (await asyncio.to_thread(scene.site.cluster.http.delete, path)).raise_for_status()
    await _until_world(scene, workload, 2, times=2)
    require(entry.workload.attempt == first, f"it is at attempt {entry.workload.attempt}, and began with {first}")
    await scene.end(workload)


async def _until_world(scene: Scene, workload: str, size: int, *, times: int) -> None:
    """Wait until its first worker has been in a world of that size so many times."""
    line = f"world {size}"

    async def look() -> str:
        try:
            return await log_of(scene.muster, workload, "worker-0")
        except MusterError:  # a busy node did not answer in time
            return ""

    await eventually(look, lambda text: text.splitlines().count(line) >= times, within=PATIENCE, every=1.0)


async def inference(scene: Scene) -> None:
    """Two replicas answer over HTTP at the address that Muster tells, to a workload inside of the cluster."""
    program = (resources.files("muster_stack.demo") / "workloads" / "serve.py").read_text()
    entry = await scene.run(
        "squares",
        "sh -c 'exec python3 -c \"$SERVE\"'",
        kind="InferenceWorkload",
        ports={"http": {"container": 8080}},
        readinessProbe={"path": "/health", "port": 8080, "periodSeconds": 1},
        minScale=2,
        maxScale=2,
        gpuDevices=1,
        environment={"SERVE": program, "HOST": "0.0.0.0"},
    )
    names = {each.name for each in entry.workload.replicas}
    require(entry.workload.endpoints, "it has no address")
    caller = await scene.submit("caller", f"python3 /programs/ask.py {entry.workload.endpoints[0]}")
    told = await scene.completed(caller)
    require(told["wrong"] == 0, f"{told['wrong']} of {told['questions']} answers are wrong")
    require(set(told["replicas"]) == names, f"{told['replicas']} answered, and {names} serve")
    await scene.end(entry.workload.id, caller)


async def slots_seen(scene: Scene) -> None:
    """What a pod sees is what the plugin gave it, what the kubelet says it has, and what no other pod has."""
    made = [await scene.run(f"slots-{count}", WAITS, gpuDevices=count) for count in (1, 2, 3)]
    await require_devices(scene, *made, resource=GPU)
    await scene.end(*(each.workload.id for each in made))


async def mig_seen(scene: Scene) -> None:
    """The same for slices of a card."""
    workload = await scene.submit("slice", WAITS, migProfile="1g.5gb")
    await scene.require_placed(workload)
    await require_devices(scene, await scene.running(workload), resource=MIG)
    await scene.end(workload)


async def claims_seen(scene: Scene) -> None:
    """A driver lists devices; each pod sees exactly those of its claim, which are those that Muster assigned."""
    node = scene.site.nodes[CLAIMED_NODE]
    driver = Driver(node, scene.site.cluster, [f"GPU-{uuid4()}" for _ in range(CLAIMED)])
    async with driver.serving():
        # As many as only this node has: its other cards are counted, and are there once.
        made = [await scene.submit(f"claims-{number}", WAITS, gpuDevices=CLAIMED // 2) for number in range(2)]
        entries = [await scene.running(workload) for workload in made]
        given: list[str] = []
        for entry in entries:
            (one,) = entry.workload.replicas
            pid, variables = node.variables_of(f"MUSTER_REPLICA={one.name}")
            mine = sorted(variables[VISIBLE].split(","))
            require(tuple(mine) in driver.prepared.values(), f"{one.name} sees {mine}: {driver.prepared}")
            files = files_of(pid)
            require(files == mine, f"{one.name} has the files {files}, and sees {mine}")
            told = sorted(each["uuid"] for each in json.loads(variables["MUSTER_DEVICES"]))
            require(told == mine, f"{one.name} was assigned {told}, and sees {mine}")
            given += mine
        require(sorted(given) == sorted(driver.uuids), f"a device was given twice, or not at all: {given}")
        await scene.end(*made)
        await until(lambda: not driver.prepared)
    require(driver.refusals == [], f"the kubelet refused the driver: {driver.refusals}")


async def require_devices(scene: Scene, *entries: Entry, resource: str) -> None:
    """The allocation log, the kubelets and the processes agree on the devices of workloads that run."""
    seen: dict[str, tuple[str, ...]] = {}
    for entry in entries:
        pods = await asyncio.to_thread(scene.pods, entry.workload.id)
        for name in [each.name for each in entry.workload.replicas if each.state == "READY"]:
            pod = pods[name]
            node = scene.site.nodes[pod["spec"]["nodeName"]]
            said = await eventually(partial(_told, node, name), within=_LISTED_SECONDS)
            _, variables = node.variables_of(f"MUSTER_REPLICA={name}")
            mine = tuple(sorted(variables[VISIBLE].split(",")))
            plugin = scene.site.plugins[node.name, resource]
            require(said == mine, f"the kubelet gave {name} {said}, its process sees {mine}")
            require(mine in plugin.given, f"{name} sees {mine}, which the plugin never gave: {plugin.given}")
            wanted = pod["spec"]["containers"][0]["resources"]["limits"].get(resource)
            require(str(len(mine)) == wanted, f"{name} has {mine}, and asked for {wanted}")
            seen[name] = mine
    given = [device for each in seen.values() for device in each]
    require(given and len(given) == len(set(given)), f"a device was given twice: {seen}")


async def _told(node: Node, pod: str) -> tuple[str, ...]:
    """The devices that a node's kubelet says it gave to a pod. One that has just started knows of none at first."""
    return (await given_out(node.home / "kubelet")).get(pod, ())


def _require_trained(told: dict[str, Any]) -> None:
    first, last = float(told["first_loss"]), float(told["last_loss"])
    require(last < first / 2, f"the loss did not fall: {first:.4f} to {last:.4f}")
    require(told["in_step"] is True and told["world"] == _RANKS, f"not {_RANKS} ranks in step: {told}")


def _colossal_job() -> str:
    folders = {name: str(path) for name, path in FOLDERS.items()}
    worker = {
        "name": "worker",
        "image": IMAGE,
        "env": [{"name": key, "value": text} for key, text in TORCH.items()],
        "volumeMounts": [{"name": name, "mountPath": f"/{name}", "readOnly": True} for name in folders],
        "resources": {"limits": {GPU: 1}},
    }
    volumes = [{"name": name, "hostPath": {"path": path}} for name, path in folders.items()]
    launcher = {"name": "launcher", "image": IMAGE}
    spec = {
        "ssh": {"sshdPath": "/usr/sbin/sshd"},
        "torchConfig": {"procPerWorker": 2, "script": ["/programs/parallel.py"]},
        "replicaSpecs": [
            {"type": "launcher", "replicas": 1, "template": {"spec": {"containers": [launcher]}}},
            {"type": "worker", "replicas": 2, "template": {"spec": {"containers": [worker], "volumes": volumes}}},
        ],
    }
    metadata = {"name": "colossal", "namespace": f"runai-{PROJECT}"}
    head = {"apiVersion": "batch.tensorstack.dev/v1beta1", "kind": "ColossalAIJob", "metadata": metadata}
    return yaml.safe_dump({**head, "spec": spec})
