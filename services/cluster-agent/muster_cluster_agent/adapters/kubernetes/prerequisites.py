"""What a pod needs around it before it is made: its project's namespace, the root of its run, and what its run shares.

Used by `acting.py`. Holds: a namespace without the project's label is never written to; an object of another owner is
never adopted and never deleted; members of a gang that are made at once make what they share once.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from muster_cluster_agent.adapters.kubernetes.cache import Cache
from muster_cluster_agent.adapters.kubernetes.client import ApiError, Client, Json
from muster_cluster_agent.adapters.kubernetes.keys import new_pair
from muster_cluster_agent.domain.actions import Answer
from muster_cluster_agent.domain.kubernetes import marks, programs, refusals, roots, run_objects
from muster_cluster_agent.domain.kubernetes.manifests import Manifest
from muster_cluster_agent.domain.kubernetes.marks import Owner
from muster_cluster_agent.domain.kubernetes.names import keys_name
from muster_cluster_agent.domain.kubernetes.roots import Root
from muster_cluster_agent.domain.kubernetes.run_objects import BUDGET, CONFIG_MAP, SECRET, Resource
from muster_cluster_agent.domain.kubernetes.starts import Mount, start_of
from muster_cluster_agent.domain.plan import ReplicaPlan

_NOT_FOUND: Final = 404
_CONFLICT: Final = 409


@dataclass(slots=True)
class _Run:
    """What is known to be there of a run. uids: by resource and name. members: of which its budget knows."""

    uids: dict[tuple[Resource, str], str] = field(default_factory=dict)
    members: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Prerequisites:
    """Makes what is missing. managed: namespaces of projects are made, too."""

    def __init__(self, client: Client, cache: Cache, owner: Owner, *, managed: bool) -> None:
        self._client = client
        self._cache = cache
        self._owner = owner
        self._managed = managed
        self._runs: dict[tuple[str, str], _Run] = {}  # by namespace and the root's name, until the run is over
        self._with_programs: set[str] = set()  # namespaces

    async def prepare(self, plan: ReplicaPlan) -> str:
        """Makes all that the pod needs; the uid of its run's root. Raises InvalidCommand, ApiError or Unreachable."""
        start = start_of(plan)
        run = self._runs.setdefault((plan.namespace, plan.gang), _Run())
        async with run.lock:
            root_uid = await self._root(plan, run)
            if Mount.PROGRAMS in start.mounts:
                await self._programs(plan.namespace)
            keys = None if (SECRET, keys_name(plan.gang)) in run.uids else new_pair()
            for resource, manifest in run_objects.objects_of(self._owner, plan, keys):
                where = (resource, manifest["metadata"]["name"])
                if where not in run.uids:
                    made = await self._made(plan, resource, run_objects.with_root(manifest, plan, root_uid))
                    run.uids[where] = str(made["metadata"]["uid"])
                    if resource is BUDGET:
                        run.members = int(made["spec"]["minAvailable"])
            if run.members != len(plan.members):
                await self._resize(plan, run)
        return root_uid

    async def take_away(self, root: Root) -> None:
        """Deletes what a run that is over had beside its root. Raises ApiError or Unreachable."""
        run = self._runs.get((root.namespace, root.name), _Run())
        for resource, name in root.objects:
            path = f"{resource.path(root.namespace)}/{name}"
            try:
                uid = run.uids.get((resource, name)) or await self._uid_of_ours(path, root.workload_id)
                if uid:
                    await self._client.delete(path, {"preconditions": {"uid": uid}})
            except ApiError as error:
                if error.status not in {_NOT_FOUND, _CONFLICT}:
                    raise
        self._runs.pop((root.namespace, root.name), None)

    async def _uid_of_ours(self, path: str, workload_id: str) -> str:
        """The uid of an object of that workload; empty where it belongs to another owner."""
        metadata = (await self._client.get(path))["metadata"]
        return str(metadata["uid"]) if self._is_ours(metadata, workload_id) else ""

    async def _made(self, plan: ReplicaPlan, resource: Resource, body: Manifest) -> Json:
        """The object, which is made where it is missing."""
        path = resource.path(plan.namespace)
        try:
            return await self._client.post(path, body)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            raw = await self._client.get(f"{path}/{body['metadata']['name']}")
            if not self._is_ours(raw["metadata"], plan.workload_id):
                raise ApiError(_CONFLICT, refusals.TAKEN, refusals.taken(resource.kind, raw["metadata"])) from error
            return raw

    def _is_ours(self, metadata: Json, workload_id: str) -> bool:
        labels = metadata.get("labels") or {}
        return self._owner.has(labels) and labels.get(marks.WORKLOAD) == workload_id

    async def _resize(self, plan: ReplicaPlan, run: _Run) -> None:
        """The budget of a gang that has grown or shrunk counts the members that it has."""
        path = f"{BUDGET.path(plan.namespace)}/{plan.gang}"
        await self._client.patch(path, run_objects.least_members(plan))
        run.members = len(plan.members)

    async def _programs(self, namespace: str) -> None:
        """The programs that replicas of this namespace are started with."""
        if namespace in self._with_programs:
            return
        body = programs.config_map(self._owner, namespace)
        path = CONFIG_MAP.path(namespace)
        try:
            await self._client.post(path, body)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            raw = await self._client.get(f"{path}/{programs.programs_name()}")
            if raw.get("data") != body["data"]:
                raise ApiError(_CONFLICT, refusals.TAKEN, refusals.taken("ConfigMap", raw["metadata"])) from error
        self._with_programs.add(namespace)

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

    async def _root(self, plan: ReplicaPlan, run: _Run) -> str:
        """The uid of the run's root, which is made where it is missing. Raises ApiError or Unreachable."""
        for root in self._cache.roots_of(plan.workload_id):
            if root.name == plan.gang and root.namespace == plan.namespace and root.uid:
                return root.uid
        if (CONFIG_MAP, plan.gang) not in run.uids:
            made = await self._made(plan, CONFIG_MAP, roots.manifest(self._owner, plan))
            run.uids[CONFIG_MAP, plan.gang] = str(made["metadata"]["uid"])
        return run.uids[CONFIG_MAP, plan.gang]
