"""The Kubernetes back end, opened: the lead is taken first, then the agent's own state, then the cluster is listed.

Holds: an agent that does not lead reads no assignments and writes nothing.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable

from muster_chassis.backoff import Backoff
from muster_chassis.health import Health
from muster_chassis.runtime import Runtime
from muster_cluster_agent.adapters.kubernetes.backend import KubernetesBackend
from muster_cluster_agent.adapters.kubernetes.client import ApiError, Client, configuration
from muster_cluster_agent.adapters.kubernetes.cluster_file import parse
from muster_cluster_agent.adapters.kubernetes.lead import Lead
from muster_cluster_agent.adapters.kubernetes.state import ClusterState
from muster_cluster_agent.adapters.kubernetes.support import support_of
from muster_cluster_agent.domain.kubernetes import marks
from muster_cluster_agent.domain.kubernetes.marks import Owner
from muster_cluster_agent.errors import BackendError, ClusterFileError
from muster_cluster_agent.parts import Parts
from muster_cluster_agent.settings import AgentSettings

_WORKERS = 64  # each waits for the API server most of the time; the rate of calls is limited elsewhere
_RANDOM_BYTES = 4
_CONFLICT = 409
_CONDITION = "cluster"  # in the agent's health: whether the API server answers


async def open_kubernetes(runtime: Runtime, settings: AgentSettings) -> Parts:
    """Opens the back end on a cluster, once this agent leads it. Raises ClusterFileError or ApiError.

    An API server that does not answer is waited for: the agent of a cluster often starts together with it.
    """
    file = parse(settings.cluster_file.read_text(encoding="utf-8"), where=settings.cluster_file)
    how = await configuration(file.kubeconfig, file.context)
    client = await runtime.enter(Client(how, rate=file.rate, burst=file.burst))
    lead = Lead(client, file.namespace, f"{socket.gethostname()}_{os.urandom(_RANDOM_BYTES).hex()}")
    client.lead_left = lambda: lead.left
    state = ClusterState(client, file.namespace, file.cluster)

    async def take() -> None:
        await _make_own_namespace(client, file.namespace, file.cluster)
        runtime.health.good(_CONDITION)  # an agent that waits for its lead waits for another agent
        await lead.take()
        await state.open()

    # All of it again: a lead that was taken before the server fell silent may be over by now.
    await until_answered(runtime.health, take)
    # From now on: what follows may wait for the cluster or for Kafka for longer than the lead lasts.
    renewing = await runtime.enter(lead.renewed())
    backend = await runtime.enter(KubernetesBackend(client, Owner(state.instance, file.cluster), file))
    return Parts(
        file.cluster,
        backend,
        state,
        support_of(file.allowed, file.style),
        folders=backend,
        workers=_WORKERS,
        eternal={"lead": lambda: renewing, "state": state.run, "cluster": backend.run},
    )


async def until_answered(health: Health, step: Callable[[], Awaitable[None]]) -> None:
    """Repeat a step while the API server does not answer, or fails by itself. Raises ApiError for a refusal."""
    backoff = Backoff(first=0.5, last=10.0)
    while True:
        try:
            await step()
        except BackendError as error:
            if isinstance(error, ApiError) and not error.passing:
                raise
            health.bad(_CONDITION, str(error))
            await backoff.pause()
        else:
            health.good(_CONDITION)
            return


async def _make_own_namespace(client: Client, name: str, cluster: str) -> None:
    """Makes the agent's own namespace where it is missing. Raises ClusterFileError where the agent may not."""
    if await client.find(f"/api/v1/namespaces/{name}") is not None:
        return
    labels = {marks.MANAGED_BY: marks.MANAGER, marks.CLUSTER: cluster}  # `clusters cleanup` finds it by them
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    try:
        await client.call("POST", "/api/v1/namespaces", body=body, fenced=False)  # a lead needs it
    except ApiError as problem:
        if problem.passing:
            raise
        if problem.status != _CONFLICT:
            raise ClusterFileError(
                f"namespace {name} of the agent does not exist and the agent may not create it: run "
                f"`kubectl create namespace {name}` ({problem})"
            ) from problem
