"""The Kubernetes back end on the fake API server, with nodes n-0 and n-1 and the namespace of one project."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from kubernetes_asyncio.client import Configuration

from muster_cluster_agent.adapters.kubernetes.backend import KubernetesBackend
from muster_cluster_agent.adapters.kubernetes.client import Client
from muster_cluster_agent.adapters.kubernetes.cluster_file import parse
from muster_cluster_agent.domain.kubernetes.marks import Owner
from tests.support.fake_api_server import FakeApiServer, api_server
from tests.support.fake_kubelet import FakeKubelets

FILE = "cluster: c\nbackend: kubernetes\nkubeconfig: none\nnamespaces: listed\n"
NAMESPACE = "runai-p"
PROJECT = "p"
OWNER = Owner("11111111-1111-4111-8111-111111111111", "c")


@dataclass
class Scene:
    """A cluster, and what plays it."""

    server: FakeApiServer
    kubelets: FakeKubelets


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    """A cluster of two nodes until the block ends."""
    async with api_server() as server:
        kubelets = FakeKubelets(server)
        for name in ("n-0", "n-1"):
            kubelets.add_node(name)
        kubelets.add_namespace(NAMESPACE, PROJECT)
        server.put("namespaces", {"metadata": {"name": "kube-system", "uid": "22222222-2222-4222-8222-222222222222"}})
        server.put("namespaces", {"metadata": {"name": "muster"}})
        yield Scene(server, kubelets)


@asynccontextmanager
async def client_of(server: FakeApiServer) -> AsyncIterator[Client]:
    """A client without limits worth mentioning."""
    how = Configuration()
    how.host = server.url
    async with Client(how, rate=10_000, burst=10_000) as client:
        yield client


@asynccontextmanager
async def backend_on(server: FakeApiServer, text: str = FILE) -> AsyncIterator[KubernetesBackend]:
    """A back end that has listed everything, until the block ends."""
    async with client_of(server) as client:
        backend = KubernetesBackend(client, OWNER, parse(text, where=Path("cluster.yaml")))
        async with backend:
            yield backend
