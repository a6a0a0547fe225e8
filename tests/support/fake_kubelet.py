"""A cluster's scheduler and kubelets, played on the fake API server: pods are bound, run, and end as their words say.

Holds: a pod whose deletion was asked for ends with 143, and its status says so before its object may go.
"""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.support import hami
from tests.support.fake_api_server import FakeApiServer

Object = dict[str, Any]


@dataclass
class FakeKubelets:
    """Plays every node of the server. held: nodes on which nothing moves; full: nodes on which nothing fits.

    starts: how often a container was started, by the pod's name. releases: device claims are released when their pods
    have ended. instead: by node, what HAMi gives in place of the devices that a pod names; None: HAMi does not see the
    pod.
    """

    server: FakeApiServer
    held: set[str] = field(default_factory=set)
    full: set[str] = field(default_factory=set)
    rejects: str = ""
    releases: bool = True
    instead: dict[str, list[str] | None] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begins to play."""
        self.server.heard.append(self._hear)

    def add_node(self, name: str, gpus: int = 2, boot: str = "boot", labels: dict[str, str] | None = None) -> None:
        """A node that is Ready."""
        self.server.put(
            "nodes",
            {
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
                "spec": {},
                "status": {
                    "nodeInfo": {"bootID": boot},
                    "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": str(gpus)},
                    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now()}],
                },
            },
        )

    def add_devices(self, node: str, *uuids: str, generation: int = 1, **more: Any) -> None:
        """A driver lists the devices of a node, in place of those that it has listed before."""
        self.server.put("resourceslices", slice_of(node, *uuids, generation=generation, **more))

    def add_hami(self, node: str, text: str) -> None:
        """HAMi's device plugin registers the devices of a node."""
        said = {hami.REGISTERED: text}
        self.server.change("nodes", node, lambda item: item["metadata"].setdefault("annotations", {}).update(said))

    def add_namespace(self, name: str, project: str) -> None:
        """A namespace of a project."""
        labels = {"muster.io/project": project} if project else {}
        self.server.put("namespaces", {"metadata": {"name": name, "labels": labels}, "status": {"phase": "Active"}})

    def set_ready(self, name: str, *, ready: bool, at: str = "") -> None:
        """A node becomes Ready, or falls silent."""

        def change(node: Object) -> None:
            node["status"]["conditions"] = [
                {"type": "Ready", "status": "True" if ready else "Unknown", "lastTransitionTime": at or now()}
            ]

        self.server.change("nodes", name, change)

    def finish(self, key: str, code: int, reason: str = "", message: str = "") -> None:
        """The main container of a pod ends."""
        self.server.change("pods", key, lambda pod: _end(pod, code, reason, message))

    def _hear(self, kind: str, event: str, item: Object) -> None:
        if kind == "pods" and event != "DELETED":
            asyncio.get_running_loop().call_soon(
                self._play, f"{item['metadata']['namespace']}/{item['metadata']['name']}"
            )

    def _play(self, key: str) -> None:
        pod = self.server.objects["pods"].get(key)
        if pod is None or "muster.io/workload" not in (pod["metadata"].get("labels") or {}):
            return
        step = self._step(pod)
        if step is not None:
            self.server.change("pods", key, step)

    def _step(self, pod: Object) -> Callable[[Object], None] | None:
        """The next thing that happens to a pod; None: nothing."""
        status, spec = pod["status"], pod["spec"]
        node = spec.get("nodeName") or pinned_to(spec)
        if status["phase"] in {"Succeeded", "Failed"} and self.releases:
            self._set_claims(pod, {})
        if status["phase"] in {"Succeeded", "Failed"} or node in self.held:
            return None
        if not spec.get("nodeName"):
            if "deletionTimestamp" in pod["metadata"]:
                return None
            if node in self.full:
                return _refuse if not status["conditions"] else None
            slices = [*self.server.objects["resourceslices"].values()]
            self._set_claims(pod, allocation_of(self._claim(pod), slices, pod))
            return lambda item: _bind(item, node, self._given(pod, node))
        if self.rejects and not status.get("containerStatuses"):
            return lambda item: item["status"].update(
                {"phase": "Failed", "reason": self.rejects, "message": "Pod was rejected: it does not fit"}
            )
        if "deletionTimestamp" in pod["metadata"]:
            return lambda item: _end(item, 143, "Error", "")
        if not status.get("containerStatuses"):
            return self._run
        code = _plays(spec["containers"][0])
        return None if code is None else (lambda item: _end(item, code, "Completed" if code == 0 else "Error", ""))

    def _given(self, pod: Object, node: str) -> Object:
        """What HAMi's scheduler writes on a pod that it binds to a node of its own."""
        ours = hami.REGISTERED in (self.server.objects["nodes"][node]["metadata"].get("annotations") or {})
        instead = self.instead.get(node)
        return hami.given(pod, instead) if ours and (node not in self.instead or instead is not None) else {}

    def _claim(self, pod: Object) -> Object | None:
        name = claim_name(pod)
        return self.server.objects["resourceclaims"].get(f"{pod['metadata']['namespace']}/{name}") if name else None

    def _set_claims(self, pod: Object, status: Object) -> None:
        """What a scheduler allocates to the claim of a pod, or a controller takes back."""
        found = self._claim(pod)
        if found is not None and found.get("status", {}) != status:
            key = f"{pod['metadata']['namespace']}/{found['metadata']['name']}"
            self.server.change("resourceclaims", key, lambda item: item.update(status=status))

    def _run(self, pod: Object) -> None:
        name, key = pod["metadata"]["name"], f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        self.starts[name] = self.starts.get(name, 0) + 1
        self.server.logs[key] = [
            (f"2026-01-01T00:00:{at:02d}.{at}Z", word)
            for at, word in enumerate(re.findall(r"echo (\w+)", words_of(pod["spec"]["containers"][0])))
        ]
        pod["status"] |= {
            "phase": "Running",
            "podIP": f"10.0.0.{len(self.starts)}",
            "containerStatuses": [
                {
                    "name": "main",
                    "ready": True,
                    "containerID": f"fake://{name}-{self.starts[name]}",
                    "state": {"running": {"startedAt": now()}},
                }
            ],
        }


def now() -> str:
    """The time as the API writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def pinned_to(spec: Object) -> str:
    """The node to which an agent binds a pod."""
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return str(terms[0]["matchFields"][0]["values"][0])


def slice_of(node: str, *uuids: str, generation: int = 1, slices: int = 1, **more: Any) -> Object:
    """The ResourceSlice by which a driver lists devices of a node. more: of each device."""
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {"uuid": {"string": uuid}, "productName": {"string": "NVIDIA H100 80GB HBM3"}},
            "capacity": {"memory": {"value": "80Gi"}},
            **more,
        }
        for number, uuid in enumerate(uuids)
    ]
    pool = {"name": node, "generation": generation, "resourceSliceCount": slices}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-gpus"},
        "spec": {"driver": "gpu.nvidia.com", "nodeName": node, "pool": pool, "devices": devices},
    }


def claim_name(pod: Object) -> str:
    """The name of the claim that a pod has; empty: none."""
    named = [one["resourceClaimName"] for one in pod["spec"].get("resourceClaims") or ()]
    return str(named[0]) if named else ""


def allocation_of(claim: Object | None, slices: Sequence[Object], pod: Object) -> Object:
    """The status of a claim as a scheduler writes it: what its expression names, reserved for the pod."""
    if claim is None:
        return {}
    asked = claim["spec"]["devices"]["requests"][0]
    wanted = json.loads(asked["exactly"]["selectors"][0]["cel"]["expression"].rpartition(" in ")[2])
    results = [
        {
            "request": asked["name"],
            "driver": one["spec"]["driver"],
            "pool": one["spec"]["pool"]["name"],
            "device": device["name"],
        }
        for one in slices
        for device in one["spec"]["devices"]
        if device["attributes"]["uuid"]["string"] in wanted
    ]
    user = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    return {"allocation": {"devices": {"results": results}}, "reservedFor": [user]}


def _bind(pod: Object, node: str, annotations: Object) -> None:
    pod["metadata"].setdefault("annotations", {}).update(annotations)
    pod["spec"]["nodeName"] = node
    pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": now()}]


def unschedulable(
    reason: str = "Unschedulable", message: str = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
) -> Object:
    """As the scheduler says it of a pod that it binds nowhere, for longer than an agent waits."""
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def binding(name: str, node: str) -> Object:
    """The body by which a scheduler binds the pod of that name to a node."""
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}


def _refuse(pod: Object) -> None:
    pod["status"]["conditions"] = [unschedulable()]


def node_info(boot: str) -> dict[str, str]:
    """What a kubelet says of its machine; the API server wants each of the words."""
    words = ("machineID", "systemUUID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion")
    more = ("kubeProxyVersion", "operatingSystem", "architecture")
    return {**dict.fromkeys((*words, *more), "x"), "bootID": boot}


def _end(pod: Object, code: int, reason: str, message: str) -> None:
    running = pod["status"]["containerStatuses"][0]["state"].get("running") or {}
    started = running.get("startedAt") or now()
    ended = {"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": now()}
    ended["containerID"] = pod["status"]["containerStatuses"][0]["containerID"]
    if message:
        ended["message"] = message
    pod["status"]["containerStatuses"][0] |= {"ready": False, "state": {"terminated": ended}}
    pod["status"]["phase"] = "Succeeded" if code == 0 else "Failed"


def words_of(container: Object) -> str:
    """The command of a container, as a shell has it."""
    return shlex.join([*container.get("command", ()), *container.get("args", ())])


def _plays(container: Object) -> int | None:
    text = words_of(container)
    if text == "true":
        return 0
    if text == "/no/such/program":
        return 127
    _, found, code = text.partition("exit ")
    return int(code.strip("'\"")) if found else None
