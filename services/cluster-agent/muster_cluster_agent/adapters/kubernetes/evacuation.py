"""Takes roots out of a namespace that is deleted, so that no finalizer of Muster holds it up (kubernetes.md 20.6).

Used by the Kubernetes back end in its rounds. Holds: a root stays as long as a pod of its run does; that the name of a
replica is used up is known until its workload is released, even if the namespace is made again.
"""

from __future__ import annotations

from muster_chassis import logs
from muster_cluster_agent.adapters.kubernetes import removal
from muster_cluster_agent.adapters.kubernetes.cache import Cache
from muster_cluster_agent.adapters.kubernetes.client import ApiError, Client
from muster_cluster_agent.domain.kubernetes import marks, roots
from muster_cluster_agent.domain.kubernetes.marks import Owner
from muster_cluster_agent.domain.kubernetes.resources import CONFIG_MAP
from muster_cluster_agent.domain.kubernetes.roots import Root, WorkloadRoot
from muster_cluster_agent.errors import BackendError

_log = logs.get(__name__)


class Evacuation:
    """One cluster's namespaces that are being deleted. own: the agent's own namespace."""

    def __init__(self, client: Client, cache: Cache, owner: Owner, own: str) -> None:
        self._client = client
        self._cache = cache
        self._owner = owner
        self._own = own

    async def look(self) -> None:
        """Let go of each root that is due. A failure is logged; the next look tries it again."""
        found: list[Root | WorkloadRoot] = [*self._cache.run_roots.values(), *self._cache.workload_roots.values()]
        for root in found:
            if marks.ROOT in root.finalizers and self._is_going(root) and not self._is_used(root):
                try:
                    await self._let_go(root)
                except BackendError as error:
                    if not removal.is_done(error):
                        _log.warning("a root holds its namespace for now", root=root.key, error=str(error))

    def _is_going(self, root: Root | WorkloadRoot) -> bool:
        found = self._cache.namespaces.items.get(root.namespace)
        return root.namespace != self._own and (found is None or found.terminating)

    def _is_used(self, root: Root | WorkloadRoot) -> bool:
        """Return whether the end of a pod in its namespace is still to be written.

        A pod that has vanished holds nothing up; its end will be written in the agent's own namespace.
        """
        pods = self._cache.pods_of(root.workload_id)
        return any(
            pod.namespace == root.namespace and marks.GONE in pod.finalizers and pod.name not in self._cache.vanished
            for pod in pods
        )

    async def _let_go(self, root: Root | WorkloadRoot) -> None:
        path = CONFIG_MAP.path(root.namespace)
        if isinstance(root, Root):
            await self._copy(root)
        await removal.release(self._client, f"{path}/{root.name}", root.uid, root.finalizers, (marks.ROOT,))

    async def _copy(self, root: Root) -> None:
        """Write in the agent's own namespace how the replicas ended. Raises BackendError."""
        # What was written a moment ago may not be seen in the root yet, and what it took no more is in memory alone.
        known = self._cache.unwritten_ends(root.workload_id, root.run) if root.shard == roots.ROOT_SHARD else {}
        body, path = roots.copied(root, known, self._owner, self._own), CONFIG_MAP.path(self._own)
        try:
            await self._client.post(path, body)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            copy = await self._client.get(f"{path}/{root.name}")
            missing = {key: line for key, line in body["data"].items() if key not in (copy.get("data") or {})}
            await self._client.patch(f"{path}/{root.name}", {"data": missing})
