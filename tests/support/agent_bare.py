"""A bare loop that posts what the agent makes, for comparison: the same objects over a client like the agent's.

Used by tests/benchmarks/agent.py.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final

from kubernetes_asyncio.client import Configuration

from muster_cluster_agent.adapters.decode import assignment as decode
from muster_cluster_agent.adapters.kubernetes.client import Client
from muster_cluster_agent.adapters.kubernetes.support import support_of
from muster_cluster_agent.domain.kubernetes import manifests, roots, run_objects
from muster_cluster_agent.domain.kubernetes.manifests import Style
from muster_cluster_agent.domain.kubernetes.marks import Owner
from muster_cluster_agent.domain.plan import ReplicaPlan, replica_plans
from tests.support.agent_bench import Bench

FAST: Final = 100_000.0  # calls a second: no limit
CONNECTIONS: Final = 64
STYLE: Final = Style()
Post = tuple[str, dict[str, Any]]
"""Where an object is posted, and the object."""


def client_of(at: Bench) -> Client:
    """A client with the agent's own rights, and without a limit of its rate."""
    how = Configuration()
    how.host, how.verify_ssl = at.cluster.url, False
    how.api_key["BearerToken"] = f"Bearer {at.cluster.agent}"
    return Client(how, rate=FAST, burst=FAST)


async def bare(at: Bench, client: Client, sizes: Sequence[int], namespace: str) -> float:
    """The seconds of a loop that posts the same objects as the agent, which are deleted afterwards."""
    owner, support = Owner("bare", "bare"), support_of(frozenset(), STYLE)
    made = []
    for number, size in enumerate(sizes, start=7_000_000):
        assigned = at.assignment(number, namespace, workers=size)
        whole = decode(assigned.workload_id, assigned.SerializeToString(), {}, support)
        made.append(_objects(owner, replica_plans(whole, whole.newest), namespace))
    at.cluster.post("/api/v1/namespaces", {"metadata": {"name": namespace}}).raise_for_status()
    limit = asyncio.Semaphore(CONNECTIONS)

    async def post(path: str, body: dict[str, Any], uid: str = "") -> str:
        for reference in body["metadata"].get("ownerReferences", ()):
            reference["uid"] = uid
        async with limit:
            return str((await client.post(path, body))["metadata"]["uid"])

    async def one(root: Post, shared: Sequence[Post], pods: Sequence[Post]) -> None:
        uid = await post(*root)
        for each in shared:
            await post(*each, uid)
        await asyncio.gather(*(post(*each, uid) for each in pods))

    began = time.monotonic()
    await asyncio.gather(*(one(*each) for each in made))
    took = time.monotonic() - began

    async def free(path: str, body: dict[str, Any]) -> None:
        async with limit:
            await client.patch(f"{path}/{body['metadata']['name']}", {"metadata": {"finalizers": None}})

    objects = [each for root, shared, pods in made for each in (root, *shared, *pods)]
    await asyncio.gather(*(free(*each) for each in objects if each[1]["metadata"].get("finalizers")))
    for path in {path for path, _ in objects}:
        await client.delete(path, {"gracePeriodSeconds": 0})
    await at.until_pods(namespace, 0)
    return took


def _objects(owner: Owner, plans: Sequence[ReplicaPlan], namespace: str) -> tuple[Post, list[Post], list[Post]]:
    """What the agent makes for one workload: its root, what its members share, and its pods."""
    objects = run_objects.objects_of(owner, plans[0], None)
    root = roots.manifest(owner, plans[0])
    names = [(resource, str(body["metadata"]["name"])) for resource, body in objects]
    root["metadata"]["annotations"] |= roots.naming(names)["metadata"]["annotations"]
    shared = [
        (resource.path(namespace), run_objects.with_root(resource, body, plans[0], "")) for resource, body in objects
    ]
    where = f"/api/v1/namespaces/{namespace}"
    return (f"{where}/configmaps", root), shared, [(f"{where}/pods", manifests.pod(owner, p, STYLE, "")) for p in plans]
