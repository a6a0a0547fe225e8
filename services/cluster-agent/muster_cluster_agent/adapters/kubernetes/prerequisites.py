"""What a pod needs around it before it is made: its project's namespace, roots, and what its run and workload share.

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
from muster_cluster_agent.domain.kubernetes import (
    marks,
    programs,
    refusals,
    resources,
    roots,
    run_objects,
    workload_objects,
)
from muster_cluster_agent.domain.kubernetes.manifests import Manifest
from muster_cluster_agent.domain.kubernetes.marks import Owner
from muster_cluster_agent.domain.kubernetes.names import keys_name, workload_base
from muster_cluster_agent.domain.kubernetes.resources import BUDGET, CONFIG_MAP, SECRET, SERVICE, Resource
from muster_cluster_agent.domain.kubernetes.roots import Root, WorkloadRoot
from muster_cluster_agent.domain.kubernetes.starts import Mount, start_of
from muster_cluster_agent.domain.plan import ReplicaPlan

_NOT_FOUND: Final = 404
_CONFLICT: Final = 409


@dataclass(slots=True)
class _Run:
    """What is known to be there of a run, or of a workload beyond its runs.

    uids: by resource and name. members: of which its budget knows. services: as they were made last.
    """

    uids: dict[tuple[Resource, str], str] = field(default_factory=dict)
    members: int = 0
    services: tuple[Manifest, ...] = ()
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
        await self._workload(plan)
        return root_uid

    async def _workload(self, plan: ReplicaPlan) -> None:
        """Makes the Services of the workload, and changes those that lead to other ports than its newest run has."""
        services = workload_objects.services_of(self._owner, plan)
        known = self._runs.setdefault((plan.namespace, workload_base(plan.workload_id)), _Run()) if services else _Run()
        async with known.lock:
            if known.services == services:
                return
            root = workload_objects.root(self._owner, plan)
            before = resources.names_in(_named_by(await self._made(plan, CONFIG_MAP, root)))
            now = resources.names_in(_named_by(root))
            if {*now} - {*before}:  # it names them before they are made
                await self._name(plan, [*dict.fromkeys((*before, *now))])
            for service in services:
                await self._serve(plan, service, known)
            for resource, name in before:
                if (resource, name) not in now:
                    await self._delete_ours(resource, plan.namespace, name, plan.workload_id, known)
            known.services = services

    async def _name(self, plan: ReplicaPlan, names: list[tuple[Resource, str]]) -> None:
        path = f"{CONFIG_MAP.path(plan.namespace)}/{workload_base(plan.workload_id)}"
        await self._client.patch(path, {"metadata": {"annotations": {marks.OBJECTS: resources.text_of(names)}}})

    async def _serve(self, plan: ReplicaPlan, service: Manifest, known: _Run) -> None:
        found = await self._made(plan, SERVICE, service)
        name = service["metadata"]["name"]
        known.uids[SERVICE, name] = str(found["metadata"]["uid"])
        if workload_objects.ports_differ(service, found):
            path = f"{SERVICE.path(plan.namespace)}/{name}"
            await self._client.patch(path, {"spec": {"ports": service["spec"]["ports"]}})

    async def take_away(self, root: Root | WorkloadRoot) -> None:
        """Deletes what belongs to a root, and the root itself. Raises ApiError or Unreachable."""
        run = self._runs.get((root.namespace, root.name), _Run())
        for resource, name in root.objects:
            await self._delete_ours(resource, root.namespace, name, root.workload_id, run)
        self._runs.pop((root.namespace, root.name), None)
        path = f"{CONFIG_MAP.path(root.namespace)}/{root.name}"
        try:
            if marks.ROOT in root.finalizers:
                left = [one for one in root.finalizers if one != marks.ROOT]
                await self._client.patch(path, {"metadata": {"uid": root.uid, "finalizers": left or None}})
            await self._client.delete(path, {"preconditions": {"uid": root.uid}, "propagationPolicy": "Background"})
        except ApiError as error:
            if error.status not in {_NOT_FOUND, _CONFLICT}:
                raise

    async def _delete_ours(self, resource: Resource, namespace: str, name: str, workload_id: str, known: _Run) -> None:
        """Deletes an object of a workload where it is there and no other owner's."""
        path = f"{resource.path(namespace)}/{name}"
        try:
            uid = known.uids.pop((resource, name), "") or await self._uid_of_ours(path, workload_id)
            if uid:
                await self._client.delete(path, {"preconditions": {"uid": uid}})
        except ApiError as error:
            if error.status not in {_NOT_FOUND, _CONFLICT}:
                raise

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


def _named_by(root: Json) -> str:
    return str((root["metadata"].get("annotations") or {}).get(marks.OBJECTS, ""))
