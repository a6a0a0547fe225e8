"""The Kubernetes back end on a real API server, whose scheduler and kubelets the test plays by the same calls.

What the API server itself decides is tried here: validation, finalizers, preconditions, versions, and what it answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from muster_cluster_agent.domain.kubernetes import marks
from muster_cluster_agent.domain.model import Failure
from muster_cluster_agent.ports import RefusalReport, StatusReport
from muster_kernel import ids
from tests.support.agents import workload_id
from tests.support.kubernetes import MISSING, Cluster, built
from tests.support.kubernetes_agents import NODE, Loop, joined, loop, shared
from tests.support.waiting import eventually, until

pytestmark = pytest.mark.skipif(not built(), reason=MISSING)


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """An API server with a node and an agent's account."""
    with joined(tmp_path_factory.mktemp("kubernetes")) as found:
        yield found


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
        assert (node.name, node.cpu_milli, node.memory_bytes) == (NODE, 8000, 32 << 30)
        assert [(group.resource, group.count) for group in node.slots] == [("nvidia.com/gpu", 2)]
        assert (node.boot_id, node.taints) == ("boot-1", ())


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
