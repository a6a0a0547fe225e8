"""The Kubernetes back end on a real API server, whose scheduler and kubelets the test plays by the same calls.

What the API server itself decides is tried here: validation, finalizers, preconditions, versions, and what it answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from kubernetes_asyncio.client import Configuration

from muster_cluster_agent.adapters.kubernetes.backend import KubernetesBackend
from muster_cluster_agent.adapters.kubernetes.client import MERGE_PATCH, Client
from muster_cluster_agent.adapters.kubernetes.cluster_file import parse
from muster_cluster_agent.adapters.kubernetes.lead import Lead
from muster_cluster_agent.adapters.kubernetes.state import ClusterState
from muster_cluster_agent.domain.container import Container, Reach, ServedPort
from muster_cluster_agent.domain.kubernetes import marks
from muster_cluster_agent.domain.kubernetes.marks import Owner
from muster_cluster_agent.domain.model import Assignment, Failure, Pattern, Release, Revision, Run, Template
from muster_cluster_agent.domain.storage import NewClaim, Volume
from muster_cluster_agent.ports import RefusalReport, StatusReport
from muster_kernel import ids
from muster_kernel.reasons import ChangeReason
from tests.support.agent_loops import Told, running
from tests.support.agents import workload_id
from tests.support.fake_kubelet import now
from tests.support.kubernetes import MISSING, TOKEN, Cluster, built, cluster
from tests.support.waiting import eventually, until

pytestmark = pytest.mark.skipif(not built(), reason=MISSING)

FILE = "cluster: c\nbackend: kubernetes\nkubeconfig: none\n"
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
        status = {"conditions": conditions, "allocatable": amounts, "capacity": amounts, "nodeInfo": info("boot-1")}
        await self.call("PATCH", f"/api/v1/nodes/{NODE}/status", {"status": status}, MERGE_PATCH)

    async def bind(self, path: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
        name = path.rpartition("/")[2]
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        await self.call("POST", f"{path}/binding", body)

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


def info(boot: str) -> dict[str, str]:
    words = ("machineID", "systemUUID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion")
    more = ("kubeProxyVersion", "operatingSystem", "architecture")
    return {**dict.fromkeys((*words, *more), "x"), "bootID": boot}


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """An API server with a node and the agent's own namespace."""
    with cluster(tmp_path_factory.mktemp("kubernetes")) as found:
        asyncio.run(Player(found.http).add_node())
        assert found.post("/api/v1/namespaces", {"metadata": {"name": "muster"}}).status_code == 201
        yield found


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
        revision = Revision(1, 0, Pattern.SINGLE, template, (Run("worker", 0, 1, NODE, anonymous=1),))
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


@asynccontextmanager
async def loop(kubernetes: Cluster, number: int) -> AsyncIterator[Loop]:
    """One agent, as its process would be composed."""
    how = Configuration()
    how.host, how.verify_ssl = kubernetes.url, False
    how.api_key["BearerToken"] = f"Bearer {TOKEN}"
    async with Client(how, rate=200, burst=400) as client:
        lead = Lead(client, "muster", f"agent-{number}")
        client.lead_left = lambda: lead.left
        await lead.take()
        keeping = asyncio.create_task(lead.keep())
        state = ClusterState(client, "muster", "c")
        await state.open()
        file = parse(FILE, where=Path("cluster.yaml"))
        told = Told()
        async with (
            KubernetesBackend(client, Owner(state.instance, "c"), file) as backend,
            running(backend, told) as agent,
        ):
            yield Loop(kubernetes, backend, told, agent, number)
        keeping.cancel()
        await lead.give_back()


async def test_a_training_lives_and_leaves_nothing(kubernetes: Cluster) -> None:
    async with loop(kubernetes, 1) as here:
        path = await here.running("python train.py")
        await here.player.end(path, 0, "Completed")
        await here.told_last("SUCCEEDED", "GONE")
        here.release()
        await here.nothing_left()


async def test_a_pod_deleted_by_force_stays_until_its_end_is_known(kubernetes: Cluster) -> None:
    async with loop(kubernetes, 2) as here:
        path = await here.running("sleep 1000")
        await here.player.call("DELETE", path, {"gracePeriodSeconds": 0})
        assert (await asyncio.to_thread(kubernetes.http.get, path)).status_code == 200
        assert "GONE" not in here.told.states(2)
        await here.player.end(path, 137)
        await here.told_last("FAILED", "GONE")
        failed = [each.status for each in here.told.of(StatusReport) if isinstance(each, StatusReport)][-2]
        assert failed.failure is Failure.INFRASTRUCTURE
        here.release()
        await here.nothing_left()


async def test_an_agent_that_follows_another_goes_on_with_its_pods(kubernetes: Cluster) -> None:
    async with loop(kubernetes, 3) as here:
        path = await here.running("sleep 1000")
    async with loop(kubernetes, 3) as here:
        here.take("sleep 1000")
        await here.told_last("READY")
        here.release()
        await eventually(lambda: here.list("pods"), lambda pods: "deletionTimestamp" in pods[0]["metadata"])
        await here.player.end(path, 143)
        await here.told_last("GONE")
        await here.nothing_left()


async def test_what_was_never_bound_goes_without_a_kubelet(kubernetes: Cluster) -> None:
    async with loop(kubernetes, 4) as here:
        here.take("sleep 1000")
        await here.pod()
        here.release()
        await here.told_last("GONE")
        await here.nothing_left()


async def test_what_the_server_does_not_admit_is_refused(kubernetes: Cluster) -> None:
    async with loop(kubernetes, 5) as here:
        here.take("true", image=" no image ")
        await until(lambda: bool(here.told.of(RefusalReport)), within=30)
        (report,) = here.told.of(RefusalReport)
        assert isinstance(report, RefusalReport)
        assert report.refusal.code == "AdmissionDenied"
        assert "image" in report.refusal.message
        here.release()
        await here.nothing_left()


async def test_the_node_is_reported_as_it_is(kubernetes: Cluster) -> None:
    async with loop(kubernetes, 6) as here:
        (node,) = (await here.backend.fleet()).nodes
        assert (node.name, node.cpu_milli, node.memory_bytes, node.anonymous) == (NODE, 8000, 32 << 30, 2)
        assert (node.boot_id, node.taints) == ("boot-1", ())


def shared(number: int, *, generation: int = 1, deleted: bool = False) -> Assignment | Release:
    """An elastic gang with a port, a claim and a credential; deleted: its end."""
    if deleted:
        return Release(workload_id(number), 1, generation, 0, 5.0, ChangeReason.DELETED.value)
    ports = (ServedPort(6006, 30000 + number, Reach.NODES),)
    kept = Volume("data", "/data", NewClaim("1048576"))
    container = Container("team/bert:7", ports=ports, volumes=(kept,))
    template = Template(command="torchrun t.py", ports=(6006,), container=container)
    runs = (Run("worker", 0, 1 + generation, NODE, anonymous=1),)
    revision = Revision(1, 0, Pattern.GANG, template, runs, least=1, most=4)
    named = (PROJECT, f"runai-p-{number}", f"bert-{number}")
    return Assignment(workload_id(number), 1, "", generation, (revision,), *named, grace=5.0)


async def test_a_gang_and_all_that_belongs_to_it_come_and_go(kubernetes: Cluster) -> None:
    kinds = {
        "services": "/api/v1",
        "secrets": "/api/v1",
        "persistentvolumeclaims": "/api/v1",
        "poddisruptionbudgets": "/apis/policy/v1",
        "networkpolicies": "/apis/networking.k8s.io/v1",
    }

    async def names(here: Loop) -> dict[str, list[str]]:
        found = {}
        for kind, api in kinds.items():
            path = f"{api}/namespaces/{here.namespace}/{kind}"
            answer = await asyncio.to_thread(kubernetes.http.get, path, params={"labelSelector": marks.SELECTOR})
            # A claim's own finalizer is taken off by a controller, which does not run here.
            items = [item["metadata"] for item in answer.json()["items"] if "deletionTimestamp" not in item["metadata"]]
            found[kind] = sorted(item["name"] for item in items)
        return found

    async with loop(kubernetes, 9) as here:
        here.agent.take(shared(9))
        pods = await eventually(lambda: here.list("pods"), lambda found: len(found) == 2, within=30)
        paths = [f"/api/v1/namespaces/{here.namespace}/pods/{pod['metadata']['name']}" for pod in pods]
        for path in paths:
            await here.player.bind(path)
            await here.player.run(path)
        await until(lambda: here.told.states(9).count("READY") == 2, within=60)
        base, run = f"w-{ids.digest(workload_id(9))}", f"w-{ids.digest(workload_id(9))}-g1-a0"
        assert await names(here) == {
            "services": sorted(["bert-9", f"{base}-nodes", run]),
            "secrets": [],
            "persistentvolumeclaims": [f"{base}-data"],
            "poddisruptionbudgets": [run],
            "networkpolicies": [run],
        }
        await eventually(
            lambda: here.list("pods"), lambda found: all(marks.SERVING in one["metadata"]["labels"] for one in found)
        )
        here.agent.take(shared(9, generation=2))  # a third member
        await eventually(lambda: here.list("pods"), lambda found: len(found) == 3, within=30)
        path = f"/apis/policy/v1/namespaces/{here.namespace}/poddisruptionbudgets/{run}"
        assert (await asyncio.to_thread(kubernetes.http.get, path)).json()["spec"]["minAvailable"] == 3
        here.agent.take(shared(9, deleted=True))
        for path in paths:
            await eventually(
                lambda path=path: asyncio.to_thread(kubernetes.http.get, path),  # type: ignore[misc]
                lambda answer: "deletionTimestamp" in answer.json()["metadata"],
            )
            await here.player.end(path, 143)
        await eventually(lambda: names(here), lambda found: not any(found.values()), within=30)
        left = await eventually(lambda: here.list("configmaps"), lambda found: len(found) == 1)
        assert left[0]["metadata"]["name"].startswith("muster-programs-")
