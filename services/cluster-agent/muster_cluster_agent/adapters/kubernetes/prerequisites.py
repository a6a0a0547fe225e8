"""What a pod needs around it before it is made: its project's namespace, and the root of its run.

Used by `acting.py`. Holds: a namespace without the project's label is never written to, and a root of another owner is
never adopted.
"""

from __future__ import annotations

from typing import Final

from muster_cluster_agent.adapters.kubernetes.cache import Cache
from muster_cluster_agent.adapters.kubernetes.client import ApiError, Client
from muster_cluster_agent.domain.actions import Answer
from muster_cluster_agent.domain.kubernetes import manifests, marks, refusals
from muster_cluster_agent.domain.kubernetes.marks import Owner
from muster_cluster_agent.domain.plan import ReplicaPlan

_CONFLICT: Final = 409


class Prerequisites:
    """Makes what is missing. managed: namespaces of projects are made, too."""

    def __init__(self, client: Client, cache: Cache, owner: Owner, *, managed: bool) -> None:
        self._client = client
        self._cache = cache
        self._owner = owner
        self._managed = managed

    async def namespace(self, plan: ReplicaPlan) -> Answer | None:
        """Why the namespace takes nothing; None: it does. One that is missing is made where that is wanted."""
        found = self._cache.namespaces.items.get(plan.namespace)
        if found is not None and not found.terminating and found.project == plan.project:
            return None
        if found is None and self._managed:
            labels = {**self._owner.labels(), marks.PROJECT: plan.project}
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": plan.namespace, "labels": labels}}
            try:
                await self._client.post("/api/v1/namespaces", body)
            except ApiError as error:
                if error.status != _CONFLICT:
                    raise
                raw = await self._client.get(f"/api/v1/namespaces/{plan.namespace}")
                if (raw["metadata"].get("labels") or {}).get(marks.PROJECT) == plan.project:
                    return None
            else:
                return None
        return refusals.namespace(plan.namespace, plan.project, found)

    async def root(self, plan: ReplicaPlan) -> str:
        """The uid of the run's root, which is made where it is missing. Raises ApiError or Unreachable."""
        for root in self._cache.roots_of(plan.workload_id):
            if root.name == plan.gang and root.namespace == plan.namespace and root.uid:
                return root.uid
        body = manifests.root(self._owner, plan, plan.namespace)
        path = f"/api/v1/namespaces/{plan.namespace}/configmaps"
        try:
            raw = await self._client.post(path, body)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            raw = await self._client.get(f"{path}/{plan.gang}")
            labels = raw["metadata"].get("labels") or {}
            if not self._owner.has(labels) or labels.get(marks.WORKLOAD) != plan.workload_id:
                raise ApiError(_CONFLICT, refusals.TAKEN, refusals.taken("ConfigMap", raw["metadata"])) from error
        return str(raw["metadata"]["uid"])
