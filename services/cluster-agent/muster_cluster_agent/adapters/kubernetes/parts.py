"""The Kubernetes back end, opened: the lead is taken first, then the agent's own state, then the cluster is listed.

Holds: an agent that does not lead reads no assignments and writes nothing.
"""

from __future__ import annotations

import os
import socket

from muster_chassis.runtime import Runtime
from muster_cluster_agent.adapters.kubernetes.backend import KubernetesBackend
from muster_cluster_agent.adapters.kubernetes.client import ApiError, Client, configuration
from muster_cluster_agent.adapters.kubernetes.cluster_file import parse
from muster_cluster_agent.adapters.kubernetes.lead import Lead
from muster_cluster_agent.adapters.kubernetes.state import ClusterState
from muster_cluster_agent.adapters.kubernetes.support import support_of
from muster_cluster_agent.domain.kubernetes.marks import Owner
from muster_cluster_agent.errors import ClusterFileError
from muster_cluster_agent.parts import Parts
from muster_cluster_agent.settings import AgentSettings

_WORKERS = 64  # each waits for the API server most of the time; the rate of calls is limited elsewhere
_RANDOM_BYTES = 4
_CONFLICT = 409


async def open_kubernetes(runtime: Runtime, settings: AgentSettings) -> Parts:
    """Opens the back end on a cluster, once this agent leads it. Raises ClusterFileError, ApiError or Unreachable."""
    file = parse(settings.cluster_file.read_text(encoding="utf-8"), where=settings.cluster_file)
    how = await configuration(file.kubeconfig, file.context)
    client = await runtime.enter(Client(how, rate=file.rate, burst=file.burst))
    await _make_own_namespace(client, file.namespace)
    lead = Lead(client, file.namespace, f"{socket.gethostname()}_{os.urandom(_RANDOM_BYTES).hex()}")
    client.lead_left = lambda: lead.left
    await lead.take()
    runtime.close_last(lead.give_back)
    state = ClusterState(client, file.namespace, file.cluster)
    await state.open()
    backend = await runtime.enter(KubernetesBackend(client, Owner(state.instance, file.cluster), file))
    return Parts(
        file.cluster,
        backend,
        state,
        support_of(file.allowed, file.style),
        folders=backend,
        workers=_WORKERS,
        eternal={"lead": lead.keep, "state": state.run, "cluster": backend.run},
    )


async def _make_own_namespace(client: Client, name: str) -> None:
    """Makes the agent's own namespace where it is missing. Raises ClusterFileError where the agent may not."""
    if await client.find(f"/api/v1/namespaces/{name}") is not None:
        return
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    try:
        await client.call("POST", "/api/v1/namespaces", body=body, fenced=False)  # a lead needs it
    except ApiError as problem:
        if problem.status != _CONFLICT:
            raise ClusterFileError(
                f"namespace {name} of the agent does not exist and the agent may not create it: run "
                f"`kubectl create namespace {name}` ({problem})"
            ) from problem
