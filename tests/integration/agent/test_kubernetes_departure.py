"""A cluster is left: by its agent, and by an administrator where no agent is left, on a real API server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster_cluster_agent.cleanup import cleanup
from muster_cluster_agent.domain.kubernetes import marks
from tests.support.kubernetes import MISSING, TOKEN, Cluster, built
from tests.support.kubernetes_agents import CLUSTER, NAMESPACE, Loop, joined, loop, shared
from tests.support.waiting import eventually, until

pytestmark = pytest.mark.skipif(not built(), reason=MISSING)

RUNNING = "2 replicas are not GONE: drain the cluster first"
DATA = "1 claim holds the data of 1 workload that is not deleted: save it and delete them first"


@pytest.fixture
def kubernetes(tmp_path: Path) -> Iterator[Cluster]:
    """An API server with a node and an agent's account."""
    with joined(tmp_path) as found:
        yield found


async def running(here: Loop) -> list[str]:
    """A gang with everything that belongs to one; the paths of its pods, which run."""
    here.agent.take(shared(here.number))
    pods = await eventually(lambda: here.list("pods"), lambda found: len(found) == 2, within=30)
    paths = [f"/api/v1/namespaces/{here.namespace}/pods/{pod['metadata']['name']}" for pod in pods]
    for path in paths:
        await here.player.bind(path)
        await here.player.run(path)
    await until(lambda: here.told.states(here.number).count("READY") == 2, within=60)
    return paths


async def ours(kubernetes: Cluster) -> set[str]:
    """What agents have made, but for namespaces; what only waits for a kubelet or a controller is played to its end."""
    for item in (await asyncio.to_thread(kubernetes.http.get, "/api/v1/persistentvolumeclaims")).json()["items"]:
        await _let_go(kubernetes, "persistentvolumeclaims", item["metadata"])
    for item in (await asyncio.to_thread(kubernetes.http.get, "/api/v1/pods")).json()["items"]:
        await _let_go(kubernetes, "pods", item["metadata"])
    found = await asyncio.to_thread(kubernetes.labelled, f"{marks.SELECTOR},{marks.CLUSTER}={CLUSTER}")
    return {one for one in found if not one.startswith("namespaces/")}


async def _let_go(kubernetes: Cluster, plural: str, metadata: Any) -> None:
    if "deletionTimestamp" not in metadata or any(one.startswith("muster") for one in metadata.get("finalizers") or ()):
        return
    path = f"/api/v1/namespaces/{metadata['namespace']}/{plural}/{metadata['name']}"
    body = {"metadata": {"finalizers": None}}
    content = {"Content-Type": "application/merge-patch+json"}
    await asyncio.to_thread(kubernetes.http.patch, path, json=body, headers=content)
    await asyncio.to_thread(kubernetes.http.request, "DELETE", path, json={"gracePeriodSeconds": 0})


async def test_an_agent_takes_away_all_that_it_has_made_once_nothing_stands_in_the_way(kubernetes: Cluster) -> None:
    async with loop(kubernetes, 1) as here:
        await running(here)
        before = await ours(kubernetes)
        for dry_run in (True, False):
            came = await here.backend.retire(force=False, dry_run=dry_run)
            assert came.obstacles == (RUNNING, DATA)
        assert (await here.backend.retire(force=True, dry_run=True)).obstacles == (RUNNING, DATA)
        assert await ours(kubernetes) == before
        came = await here.backend.retire(force=True, dry_run=False)
        assert (came.obstacles, came.failures) == ((), ())
        assert (came.namespaces, came.managed, came.own_namespace) == ((here.namespace,), True, NAMESPACE)
        assert not came.in_cluster
        await eventually(lambda: ours(kubernetes), lambda found: not found, within=30)
        came = await here.backend.retire(force=False, dry_run=False)
        assert (came.obstacles, came.failures) == ((), ())
        assert await ours(kubernetes) == set()


async def test_a_namespace_of_the_administrator_is_not_given_up(kubernetes: Cluster) -> None:
    metadata = {"name": "own", "labels": {"muster.io/project": "p"}}
    kubernetes.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}])
    async with loop(kubernetes, 1) as here:
        here.take("true")
        await here.pod()
        came = await here.backend.retire(force=True, dry_run=False)
        assert came.namespaces == (here.namespace,)


async def test_an_administrator_cleans_up_where_no_agent_is_left(
    kubernetes: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with loop(kubernetes, 1) as here:
        await running(here)
    before = await ours(kubernetes)
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(kubeconfig(kubernetes.url)))
    assert await cleanup("another", kubeconfig=file, yes=True) == 0
    assert capsys.readouterr().out == "cluster another: nothing to delete\n"
    assert await cleanup(CLUSTER, kubeconfig=file) == 0
    assert "2 pods" in capsys.readouterr().out
    assert await ours(kubernetes) == before
    assert await cleanup(CLUSTER, kubeconfig=file, yes=True) == 0
    assert capsys.readouterr().out.endswith(" deleted\n")
    await eventually(lambda: ours(kubernetes), lambda found: not found, within=30)
    assert await cleanup(CLUSTER, kubeconfig=file, namespaces=True, yes=True, json=True) == 0
    told = json.loads(capsys.readouterr().out)
    named = [here.namespace]
    assert told.pop("namespaces") == named
    assert told == {"cluster": CLUSTER, "objects": {"namespaces": 1}, "deleted": True, "failures": []}
    phase = kubernetes.http.get(f"/api/v1/namespaces/{here.namespace}").json()["status"]["phase"]
    assert phase == "Terminating"
    assert await cleanup(CLUSTER, kubeconfig=tmp_path / "none") == 1
    assert "does not say how the cluster is reached" in capsys.readouterr().err


def kubeconfig(url: str) -> dict[str, Any]:
    """That of an administrator."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "u", "user": {"token": TOKEN}}],
    }
