"""An agent on a real API server, whose scheduler and kubelets the test plays by the same calls.

The agent has the rights that `muster clusters join` grants, and no others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from kubernetes_asyncio.client import Configuration

from muster_client.joining.installing import objects_of
from muster_client.joining.values import BusAccess, Installation
from muster_cluster_agent.adapters.kubernetes.backend import KubernetesBackend
from muster_cluster_agent.adapters.kubernetes.client import MERGE_PATCH, Client
from muster_cluster_agent.adapters.kubernetes.cluster_file import parse
from muster_cluster_agent.adapters.kubernetes.lead import Lead
from muster_cluster_agent.adapters.kubernetes.state import ClusterState
from muster_cluster_agent.domain.container import Container, Reach, ServedPort
from muster_cluster_agent.domain.kubernetes import marks
from muster_cluster_agent.domain.kubernetes.marks import Owner
from muster_cluster_agent.domain.model import Assignment, Pattern, Release, Revision, Run, Template
from muster_cluster_agent.domain.storage import NewClaim, Volume
from muster_kernel.agent_rights import ACCOUNT
from muster_kernel.reasons import ChangeReason
from tests.support.agent_loops import Told, running
from tests.support.agents import workload_id
from tests.support.fake_kubelet import binding, node_info, now
from tests.support.kubernetes import Cluster, cluster
from tests.support.waiting import eventually, eventually_now, until

CLUSTER = "c"
NAMESPACE = "muster"
FORBIDDEN = 403
FILE = f"cluster: {CLUSTER}\nbackend: kubernetes\nkubeconfig: none\n"
NODE = "n-0"
PROJECT = "p"


@dataclass
class Player:
    """The cluster's scheduler and kubelets, as far as a test asks for them."""

    http: httpx.Client

    async def call(self, verb: str, path: str, body: Any, content: str = "application/json") -> Any:
        answer = await asyncio.to_thread(self.http.request, verb, path, json=body, headers={"Content-Type": content})
        assert answer.status_code < 300, answer.text
        return answer.json()

    async def add_node(self) -> None:
        """A node that is Ready, with two GPUs."""
        await self.call("POST", "/api/v1/nodes", {"metadata": {"name": NODE}})
        conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": now(), "lastHeartbeatTime": now()}]
        amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": "2"}
        status = {
            "conditions": conditions,
            "allocatable": amounts,
            "capacity": amounts,
            "nodeInfo": node_info("boot-1"),
        }
        await self.call("PATCH", f"/api/v1/nodes/{NODE}/status", {"status": status}, MERGE_PATCH)

    async def bind(self, path: str) -> None:
        await self.call("POST", f"{path}/binding", binding(path.rpartition("/")[2], NODE))

    async def run(self, path: str) -> None:
        """Its container runs."""
        await self.status(path, "Running", {"running": {"startedAt": now()}}, ready=True)

    async def end(self, path: str, code: int, reason: str = "Error") -> None:
        """Its container has ended."""
        ended = {"exitCode": code, "reason": reason, "startedAt": now(), "finishedAt": now(), "containerID": "c://1"}
        await self.status(path, "Succeeded" if code == 0 else "Failed", {"terminated": ended}, ready=False)

    async def status(self, path: str, phase: str, state: Any, *, ready: bool) -> None:
        main = {"name": "main", "image": "x", "imageID": "x", "restartCount": 0, "containerID": "c://1"}
        statuses = [{**main, "ready": ready, "state": state}]
        await self.call(
            "PATCH", f"{path}/status", {"status": {"phase": phase, "containerStatuses": statuses}}, MERGE_PATCH
        )


@dataclass
class Loop:
    """An agent that leads the cluster."""

    kubernetes: Cluster
    backend: KubernetesBackend
    told: Told
    agent: Any
    number: int

    @property
    def player(self) -> Player:
        return Player(self.kubernetes.http)

    @property
    def namespace(self) -> str:
        return f"runai-p-{self.number}"

    def take(self, command: str = "true", *, image: str = "team/bert:7") -> None:
        template = Template(command=command, container=Container(image))
        revision = Revision(1, 0, Pattern.SINGLE, template, (Run("worker", 0, 1, NODE, slots=(("", 1),)),))
        named = (PROJECT, self.namespace, "bert")
        self.agent.take(Assignment(workload_id(self.number), 1, "", 1, (revision,), *named, grace=5.0))

    def release(self) -> None:
        self.agent.take(Release(workload_id(self.number), 1, 1, 0, 5.0, "deleted"))

    async def list(self, kind: str) -> list[Any]:
        path = f"/api/v1/namespaces/{self.namespace}/{kind}"
        answer = await asyncio.to_thread(self.kubernetes.http.get, path, params={"labelSelector": marks.SELECTOR})
        return list(answer.json()["items"])

    async def pod(self) -> str:
        """Waits for the one pod, and answers its path."""
        pods = await eventually(lambda: self.list("pods"), within=30)
        return f"/api/v1/namespaces/{self.namespace}/pods/{pods[0]['metadata']['name']}"

    async def running(self, command: str) -> str:
        """Takes a training that is bound and runs; returns its pod's path."""
        self.take(command)
        path = await self.pod()
        await self.player.bind(path)
        await self.player.run(path)
        await self.told_last("READY")
        return path

    async def told_last(self, *states: str) -> None:
        await until(lambda: self.told.states(self.number)[-len(states) :] == list(states), within=60)

    async def nothing_left(self) -> None:
        for kind in ("pods", "configmaps"):
            await eventually(partial(self.list, kind), lambda found: not found)


INSTALLATION = Installation(
    cluster=CLUSTER,
    namespace=NAMESPACE,
    projects=(),
    cluster_file=FILE,
    trust="{}",
    submission="127.0.0.1:1",
    submission_tls=False,
    submission_ca="",
    bus=BusAccess("127.0.0.1:2", "sasl_ssl", f"agent-{CLUSTER}", "password"),
    application=("id", "secret"),
    image="registry.example/muster-agent:1",
    mig_manager=True,
)


@contextmanager
def joined(folder: Path, installation: Installation = INSTALLATION) -> Iterator[Cluster]:
    """An API server with a node, to which what `muster clusters join` prints was applied."""
    with cluster(folder, rbac=True) as found:
        asyncio.run(Player(found.http).add_node())
        found.apply(objects_of(installation))
        ours = replace(found, agent=found.token(installation.namespace, ACCOUNT))
        _wait_for_policy(ours)
        yield ours


def _wait_for_policy(found: Cluster) -> None:
    """The API server needs seconds to compile a new admission policy."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "trial"}}
    with found.called_by(found.agent) as http:
        path = "/api/v1/namespaces/default/configmaps"
        eventually_now(
            lambda: http.post(path, json=body, params={"dryRun": "All"}).status_code, lambda code: code == FORBIDDEN
        )


@asynccontextmanager
async def loop(kubernetes: Cluster, number: int) -> AsyncIterator[Loop]:
    """One agent, as its process would be composed."""
    how = Configuration()
    how.host, how.verify_ssl = kubernetes.url, False
    how.api_key["BearerToken"] = f"Bearer {kubernetes.agent}"
    async with Client(how, rate=200, burst=400) as client:
        lead = Lead(client, NAMESPACE, f"agent-{number}")
        client.lead_left = lambda: lead.left
        await lead.take()
        keeping = asyncio.create_task(lead.keep())
        state = ClusterState(client, NAMESPACE, CLUSTER)
        await state.open()
        file = parse(FILE, where=Path("cluster.yaml"))
        told = Told()
        async with (
            KubernetesBackend(client, Owner(state.instance, CLUSTER), file) as backend,
            running(backend, told) as agent,
        ):
            yield Loop(kubernetes, backend, told, agent, number)
        keeping.cancel()
        await lead.give_back()


def shared(number: int, *, generation: int = 1, deleted: bool = False) -> Assignment | Release:
    """An elastic gang with a port, a claim and a credential; deleted: its end."""
    if deleted:
        return Release(workload_id(number), 1, generation, 0, 5.0, ChangeReason.DELETED.value)
    ports = (ServedPort(6006, 30000 + number, Reach.NODES),)
    kept = Volume("data", "/data", NewClaim("1048576"))
    container = Container("team/bert:7", ports=ports, volumes=(kept,))
    template = Template(command="torchrun t.py", ports=(6006,), container=container)
    runs = (Run("worker", 0, 1 + generation, NODE, slots=(("", 1),)),)
    revision = Revision(1, 0, Pattern.GANG, template, runs, least=1, most=4)
    named = (PROJECT, f"runai-p-{number}", f"bert-{number}")
    return Assignment(workload_id(number), 1, "", generation, (revision,), *named, grace=5.0)
