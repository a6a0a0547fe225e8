"""Deletes what the agent has made in a cluster that leaves the fleet (kubernetes.md 14.4).

Called through `KubernetesBackend.retire`. Holds: nothing is deleted while there is an obstacle, unless it is forced;
what an agent has no right to delete is left to an administrator; every call may be repeated.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from muster_cluster_agent.adapters.kubernetes import removal
from muster_cluster_agent.adapters.kubernetes.cache import Cache
from muster_cluster_agent.adapters.kubernetes.claiming import DeviceClaims
from muster_cluster_agent.adapters.kubernetes.client import Client
from muster_cluster_agent.adapters.kubernetes.cluster_file import KubernetesFile
from muster_cluster_agent.adapters.kubernetes.prerequisites import Prerequisites
from muster_cluster_agent.adapters.kubernetes.recorder import Recorder, path_of
from muster_cluster_agent.domain import retirement
from muster_cluster_agent.domain.kubernetes import marks
from muster_cluster_agent.domain.kubernetes.marks import Owner
from muster_cluster_agent.domain.kubernetes.pods import Pod
from muster_cluster_agent.domain.kubernetes.resources import CLAIM, CONFIG_MAP
from muster_cluster_agent.domain.kubernetes.roots import Namespace
from muster_cluster_agent.domain.retirement import Retirement
from muster_cluster_agent.errors import BackendError

_CONFIG_MAPS: Final = "/api/v1/configmaps"


class Departure:
    """One agent's departure."""

    def __init__(
        self,
        client: Client,
        cache: Cache,
        recorder: Recorder,
        prerequisites: Prerequisites,
        claims: DeviceClaims,
        owner: Owner,
        file: KubernetesFile,
    ) -> None:
        self._client = client
        self._cache = cache
        self._recorder = recorder
        self._prerequisites = prerequisites
        self._claims = claims
        self._owner = owner
        self._file = file
        self._failures: list[str] = []
        self.retired = False
        """Whether this process has deleted what it made: it makes nothing any more."""

    async def retire(self, *, force: bool, dry_run: bool) -> Retirement:
        """Delete everything, pods first and their roots after them."""
        obstacles = self._obstacles()
        self._failures = []
        if retirement.may_delete(obstacles, force=force, dry_run=dry_run):
            obstacles, self.retired = (), True
            self._recorder.retire()
            for pod in [*self._cache.by_name.values()]:
                await self._try(f"Pod {pod.key}", self._end(pod))
            await self._try("device claims", self._claims.erase())
            # Shards before roots: a root that is there says that its run may have more to clear away.
            for root in sorted(self._cache.run_roots.values(), key=lambda each: -each.shard):
                await self._try(f"ConfigMap {root.key}", self._prerequisites.take_away(root))
            for kept in [*self._cache.workload_roots.values()]:
                await self._try(f"ConfigMap {kept.key}", self._prerequisites.take_away(kept))
            await self._try("the programs", self._programs())
        belongs = Namespace.is_made_by if self._file.managed else Namespace.belongs_to
        here = [one for one in self._cache.namespaces.items.values() if belongs(one, self._owner)]
        return Retirement(
            obstacles=obstacles,
            namespaces=tuple(sorted(one.name for one in here)),
            managed=self._file.managed,
            own_namespace=self._file.namespace,
            in_cluster=self._file.kubeconfig is None,
            failures=tuple(self._failures),
        )

    def _obstacles(self) -> tuple[str, ...]:
        running = sum(1 for replica in self._cache.all() if not replica.gone)
        with_data = [
            claims
            for root in self._cache.workload_roots.values()
            if (claims := sum(1 for resource, _ in root.objects if resource is CLAIM))
        ]
        found = []
        if running:
            found.append(retirement.running(running))
        if with_data:
            found.append(retirement.data(sum(with_data), len(with_data)))
        return tuple(found)

    async def _end(self, pod: Pod) -> None:
        """Deletes a pod with its own grace. Its end is not written down any more, its finalizer goes first."""
        self._cache.released.add(pod.name)
        await removal.release(self._client, path_of(pod), pod.uid, pod.finalizers, (marks.GONE,))
        if pod.deleted_at is None:
            await removal.delete(self._client, path_of(pod), pod.uid)

    async def _programs(self) -> None:
        """ConfigMaps of this agent that belong to no root: programs, also those of earlier versions."""
        selector = f"{marks.SELECTOR},{marks.ORIGIN}={self._owner.origin},!{marks.ROOT_OF}"
        found = await self._client.get(_CONFIG_MAPS, labelSelector=selector)
        for item in found["items"]:
            namespace, name = item["metadata"]["namespace"], item["metadata"]["name"]
            path = f"{CONFIG_MAP.path(namespace)}/{name}"
            await self._try(f"ConfigMap {namespace}/{name}", self._client.delete(path))

    async def _try(self, what: str, work: Awaitable[object]) -> None:
        """One step; where it fails the others go on."""
        try:
            await work
        except BackendError as error:
            if not removal.is_done(error):
                self._failures.append(f"{what}: {error}")
