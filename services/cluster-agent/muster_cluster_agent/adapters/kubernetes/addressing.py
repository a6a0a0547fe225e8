"""Leads the address of a workload to the replicas that are ready, and takes it away with the workload.

Used by the Kubernetes back end. Holds: a pod is led to by its label alone, so that the Service never changes with its
replicas, and a replica that is being stopped gets no new request.
"""

from __future__ import annotations

from muster_cluster_agent.adapters.kubernetes.cache import Cache
from muster_cluster_agent.adapters.kubernetes.client import ApiError, Client
from muster_cluster_agent.adapters.kubernetes.prerequisites import Prerequisites
from muster_cluster_agent.adapters.kubernetes.recorder import path_of
from muster_cluster_agent.domain.actions import DONE, Answer, Outcome, Route
from muster_cluster_agent.domain.kubernetes import marks
from muster_cluster_agent.domain.kubernetes.pods import Pod
from muster_cluster_agent.errors import BackendError


class Addressing:
    """The addresses of one cluster's workloads."""

    def __init__(self, client: Client, cache: Cache, prerequisites: Prerequisites) -> None:
        self._client = client
        self._cache = cache
        self._prerequisites = prerequisites

    async def route(self, action: Route) -> Answer:
        """Leads the address to these replicas; an address that is closed stays until its workload is deleted."""
        try:
            if action.closed and action.deleted:
                await self.erase(action.workload_id)
            for pod in self._cache.pods_of(action.workload_id):
                serves = pod.name in action.replicas
                if serves != pod.serving and pod.deleted_at is None and pod.name not in self._cache.vanished:
                    await self._lead_to(pod, serves=serves)
        except BackendError as error:
            return Answer(Outcome.UNKNOWN, str(error))
        return DONE

    async def erase(self, workload_id: str) -> None:
        """Takes away what outlives the runs of a workload. Raises BackendError."""
        root = self._cache.workload_roots.get(workload_id)
        if root is not None:
            await self._prerequisites.take_away(root)

    async def _lead_to(self, pod: Pod, *, serves: bool) -> None:
        labels = {marks.SERVING: "true" if serves else None}
        try:
            await self._client.patch(path_of(pod), {"metadata": {"uid": pod.uid, "labels": labels}})
        except ApiError as error:
            if not error.gone_or_changed:
                raise
