"""The Kubernetes back end on an API server, the fake one or a real one, whose scheduler and kubelets are played."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, cast

import yaml

from muster.fleet.v1 import fleet_pb2
from tests.conformance.admission import Admission, FakeAdmission, ServerAdmission
from tests.conformance.gate import Gate
from tests.conformance.kai import QUEUE
from tests.conformance.kubelets import MERGE, Kubelets, Object, environment_of
from tests.conformance.platforms import Capability, Platform
from tests.conformance.stage import Stage
from tests.conformance.webhooks import Webhooks
from tests.support.fake_api_server import FakeApiServer
from tests.support.kubernetes import kubeconfig_of
from tests.support.waiting import until

_CLAIM_IN_USE: Final = "kubernetes.io/pvc-protection"
_KINDS: Final = (
    "/api/v1/pods",
    "/api/v1/configmaps",
    "/api/v1/services",
    "/api/v1/secrets",
    "/api/v1/persistentvolumeclaims",
    "/apis/policy/v1/poddisruptionbudgets",
    "/apis/networking.k8s.io/v1/networkpolicies",
    "/apis/networking.k8s.io/v1/ingresses",
    "/apis/resource.k8s.io/v1/resourceclaims",
)


class Played(Platform):
    """One agent's part of a cluster: namespaces and nodes of its own. root: a folder of its own.

    admission: what the cluster does to pods of the project. gate: the agent's way to the API server, where it has one
    that can be cut.
    """

    capabilities: ClassVar = frozenset(
        {Capability.CONTAINERS, Capability.FROZEN_NODES, Capability.REBOOTS, Capability.OWN_SIGNALS}
        | {Capability.LAYOUTS, Capability.DEVICE_CLAIMS, Capability.HAMI, Capability.KAI}
        | {Capability.ADMISSION, Capability.PARTITIONS}
    )
    gone = "containers-terminated"
    scheduler = ""
    """The name of the one that binds pods; empty: it is played."""
    kai = False
    """Whether KAI-Scheduler gives the devices."""
    admission: Admission
    gate: Gate | None = None

    def __init__(self, kubelets: Kubelets, root: Path, url: str, token: str, number: int) -> None:
        self.kubelets = kubelets
        self._root = root
        self.url = url
        self._token = token
        self._number = number

    @property
    def namespace(self) -> str:
        """Of the project."""
        return f"runai-p-{self._number}"

    @property
    def own(self) -> str:
        """The agent's own namespace."""
        return f"muster-{self._number}"

    def cluster_file(self, cluster: str) -> str:
        """A cluster whose namespaces the agent makes."""
        said = {
            "cluster": cluster,
            "backend": "kubernetes",
            "kubeconfig": "kubeconfig",
            "namespace": self.own,
            "urls": {"domain": "lab.example"},
            "mig_manager": True,
            **({"scheduler": self.scheduler} if self.scheduler else {}),
            **({"devices": {"source": "kai", "queue": QUEUE}} if self.kai else {}),
        }
        (self._root / "kubeconfig").write_text(self.kubeconfig(self.gate.url if self.gate else self.url))
        return yaml.safe_dump(said)

    def kubeconfig(self, url: str = "") -> str:
        """The kubeconfig of an agent. url: its way to the API server; empty: the direct one."""
        return kubeconfig_of(url or self.url, self._token)

    async def finish(self, workload: str, replica: str, code: int) -> None:
        """The kubelet says so."""
        await until(lambda: self.kubelets.starts[replica])
        await self.kubelets.finish(replica, code)

    async def settled(self, workload: str, replica: str) -> None:
        """It is played."""
        await until(lambda: self.kubelets.starts[replica])

    async def starts(self, workload: str, replica: str) -> int:
        """As its kubelet counts."""
        return self.kubelets.starts[replica]

    async def environment(self, workload: str, replica: str) -> Mapping[str, str]:
        """That of its pod."""
        return environment_of(await self.pod(replica))

    async def devices(self, workload: str, replica: str) -> int:
        """What its pod asks its node for."""
        limits = (await self.pod(replica))["spec"]["containers"][0].get("resources", {}).get("limits", {})
        return int(limits.get("nvidia.com/gpu", 0))

    @property
    def complaints(self) -> Sequence[str]:
        """Of its kubelets."""
        return self.kubelets.complaints

    async def left(self, workload: str) -> Sequence[str]:
        """Objects with its label, of every kind."""
        found = []
        for kind in _KINDS:
            listed = await self.kubelets.call("GET", f"{kind}?labelSelector=muster.io/workload={workload}")
            left = [item["metadata"] for item in listed["items"]]
            # The controller that releases unused claims is not played.
            left = [one for one in left if one.get("finalizers") != [_CLAIM_IN_USE] or "deletionTimestamp" not in one]
            found += [f"{kind.rpartition('/')[2]}/{one['name']}" for one in left]
        return found

    async def silence(self, node: str) -> None:
        """Its kubelet falls silent."""
        await self.kubelets.silence(node)

    async def wake(self, node: str) -> None:
        """It is back."""
        await self.kubelets.wake(node)

    async def reboot(self, node: str) -> None:
        """Its boot id is another."""
        await self.kubelets.reboot(node)

    async def retire(self, node: str) -> None:
        """The taint by which an administrator says that the machine is off."""
        taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
        await self.kubelets.set_node(node, {"spec": {"taints": [taint]}})

    async def cordon(self, node: str) -> None:
        """Makes it unschedulable."""
        await self.kubelets.set_node(node, {"spec": {"unschedulable": True}})

    def device(self, run: fleet_pb2.ReplicaRun, slot: int) -> fleet_pb2.ReplicaRun:
        """A count: which card it is, the kubelet says."""
        run.slots.add(count=1)
        return run

    async def pod(self, replica: str) -> Object:
        """The pod of a replica, once it is there."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{replica}"
        await until(lambda: path in self.kubelets.pods)
        return self.kubelets.pods[path]

    async def end_namespace(self, name: str) -> None:
        """What its controller does once a namespace that is deleted is empty. The finalizer of a test goes, too."""
        path = f"/api/v1/namespaces/{name}"
        found = await self.kubelets.call("PATCH", path, {"metadata": {"finalizers": None}}, content=MERGE)
        if found.get("spec", {}).get("finalizers"):
            await self.kubelets.call("PUT", f"{path}/finalize", {**found, "spec": {"finalizers": []}})

    async def change(self, path: str, change: Any) -> None:
        """Changes an object as others might."""
        await self.kubelets.call("PATCH", path, change, content=MERGE)


class Fake(Played):
    """The fake API server, whose calls can also fail."""

    name = "fake"
    capabilities: ClassVar = Played.capabilities | {Capability.API_FAULTS, Capability.OWN_CLUSTER}

    def __init__(
        self, kubelets: Kubelets, root: Path, url: str, token: str, number: int, server: FakeApiServer
    ) -> None:
        super().__init__(kubelets, root, url, token, number)
        self.server = server
        self.admission = FakeAdmission(server)


class Server(Played):
    """A real API server with its etcd."""

    name = "apiserver"

    def __init__(self, kubelets: Kubelets, root: Path, url: str, token: str, number: int, webhooks: Webhooks) -> None:
        super().__init__(kubelets, root, url, token, number)
        self.admission = ServerAdmission(kubelets.call, webhooks, self.namespace)


def cluster_of(stage: Stage) -> Played:
    """The platform of a case that needs CONTAINERS, ADMISSION or PARTITIONS."""
    return cast("Played", stage.platform)


def fake_of(stage: Stage) -> Fake:
    """The platform of a case that needs API_FAULTS."""
    return cast("Fake", stage.platform)
