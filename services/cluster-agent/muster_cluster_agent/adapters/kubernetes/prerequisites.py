"""What a pod needs around it before it is made: its project's namespace, roots, and what its run and workload share.

Used by `acting.py`. Holds: a namespace without the project's label is never written to; an object of another owner is
never adopted and never deleted; members of a gang that are made at once make what they share once.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from math import inf
from typing import Final

from muster_cluster_agent.adapters.kubernetes import removal
from muster_cluster_agent.adapters.kubernetes.cache import Cache
from muster_cluster_agent.adapters.kubernetes.client import ApiError, Client, Json
from muster_cluster_agent.adapters.kubernetes.keys import new_pair
from muster_cluster_agent.domain.actions import Answer
from muster_cluster_agent.domain.kubernetes import (
    ingresses,
    marks,
    programs,
    refusals,
    roots,
    run_objects,
    workload_objects,
)
from muster_cluster_agent.domain.kubernetes.ingresses import Urls
from muster_cluster_agent.domain.kubernetes.marks import Owner
from muster_cluster_agent.domain.kubernetes.names import keys_name, workload_base
from muster_cluster_agent.domain.kubernetes.resources import (
    BUDGET,
    CONFIG_MAP,
    INGRESS,
    SECRET,
    SERVICE,
    Manifest,
    Resource,
)
from muster_cluster_agent.domain.kubernetes.roots import Namespace, Root, WorkloadRoot
from muster_cluster_agent.domain.kubernetes.starts import Mount, start_of
from muster_cluster_agent.domain.kubernetes.storage import check_names
from muster_cluster_agent.domain.model import RunKey
from muster_cluster_agent.domain.plan import ReplicaPlan

_CONFLICT: Final = 409
_POD_SECURITY: Final = "pod-security.kubernetes.io/enforce"
_PAGE: Final = "500"
_MUTABLE: Final = frozenset({SERVICE, INGRESS})  # they follow the newest revision; a claim holds data and stays
_SEEN_SECONDS: Final = 10.0  # in which a namespace that was made is seen
_REMEMBERED: Final = 20_000  # roots, so that a member of a gang costs no call for what the gang shares


_Shared = tuple[object, ...]
"""What a gang's members of one role have in common, as far as objects are made from it."""


@dataclass(slots=True)
class _Known:
    """What is known to be there below one root, of a run or of a workload.

    uid: the root's own. named: what the root names. uids: of what is there. members: of which the gang's budget knows.
    run, mutable: of the plan that was prepared last. prepared: by role, what the objects of a run were made from.
    """

    uid: str = ""
    named: frozenset[tuple[Resource, str]] = frozenset()
    uids: dict[tuple[Resource, str], str] = field(default_factory=dict)
    members: int = 0
    run: RunKey = (0, 0)
    mutable: tuple[Manifest, ...] = ()
    prepared: dict[str, _Shared] = field(default_factory=dict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Prerequisites:
    """Makes what is missing.

    managed: namespaces of projects are made, too. pod_security: the level that is enforced there; empty: the cluster's
    own. clock: seconds since 1970.
    """

    def __init__(
        self,
        client: Client,
        cache: Cache,
        owner: Owner,
        urls: Urls,
        *,
        managed: bool,
        pod_security: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._cache = cache
        self._owner = owner
        self._urls = urls
        self._hosts = asyncio.Lock()  # so that two workloads do not take one host at the same time
        self._managed = managed
        self._enforced = {_POD_SECURITY: pod_security} if pod_security else {}
        self._clock = clock
        self._known: OrderedDict[tuple[str, str], _Known] = OrderedDict()  # by namespace and root
        self._with_programs: set[str] = set()  # namespaces
        self._making: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)  # by namespace: a slow one holds up no other
        self._made_at: dict[str, float] = {}  # namespaces that may not be seen yet: monotonic seconds
        cache.namespace_listeners.append(self.forget)

    async def prepare(self, plan: ReplicaPlan) -> str:
        """Makes all that the pod needs; the uid of its run's root. Raises InvalidCommand, ApiError or Unreachable."""
        start = start_of(plan)
        check_names(plan)
        await self._of_workload(plan)
        return await self._of_run(plan, programs_too=Mount.PROGRAMS in start.mounts)

    async def _of_run(self, plan: ReplicaPlan, *, programs_too: bool) -> str:
        run = self._remembered(plan.namespace, plan.gang)
        shared = (plan.members, plan.container, plan.credentials, plan.checkout_credentials)
        async with run.lock:
            found = self._cache.roots_of(plan.workload_id)
            roots_now = [root for root in found if (root.namespace, root.name) == (plan.namespace, plan.gang)]
            if run.prepared.get(plan.role) == shared and all(root.uid == run.uid for root in roots_now):
                return run.uid  # a member of a gang whose others have made everything
            missing = run_objects.needs_keys(plan) and (SECRET, keys_name(plan.gang)) not in run.uids
            keys = new_pair() if missing else None
            objects = run_objects.objects_of(self._owner, plan, keys)
            await self._ensure_root(plan, run, roots.manifest(self._owner, plan), objects, roots_now)
            if programs_too:
                await self._programs(plan.namespace)
            for resource, manifest in objects:
                if (resource, manifest["metadata"]["name"]) in run.uids:
                    continue
                owned = run_objects.with_root(resource, manifest, plan, run.uid)
                made = await self._make(plan, resource, owned, run)
                if resource is BUDGET:
                    run.members = int(made["spec"]["minAvailable"])
            if run.members != len(plan.members):  # a gang has grown or shrunk
                path = f"{BUDGET.path(plan.namespace)}/{plan.gang}"
                await self._client.patch(path, run_objects.least_members(plan))
                run.members = len(plan.members)
            run.prepared[plan.role] = shared
            return run.uid

    async def _of_workload(self, plan: ReplicaPlan) -> None:
        """What outlives the run. What leads to it leads to the ports of the revision that was prepared last."""
        seen = self._cache.workload_roots.get(plan.workload_id)
        here = [seen] if seen is not None and seen.namespace == plan.namespace else []
        objects = workload_objects.objects_of(self._owner, plan, self._urls)
        where = (plan.namespace, workload_base(plan.workload_id))
        if not objects and not here and where not in self._known:
            return
        kept = self._remembered(*where)
        async with kept.lock:
            run = (plan.generation, plan.attempt)
            mutable = tuple(manifest for resource, manifest in objects if resource in _MUTABLE)
            if run == kept.run and mutable == kept.mutable and {_name(each) for each in objects} <= kept.uids.keys():
                return
            await self._ensure_root(plan, kept, workload_objects.root(self._owner, plan), objects, here, self._clock())
            older = run < kept.run  # a replica of an old revision is replaced during a rollout
            wanted = {_name(each) for each in objects}
            for resource, name in () if older else kept.named:
                # First, since some Ingress controllers admit no second Ingress with the host of one that is there.
                if resource in _MUTABLE and (resource, name) not in wanted:
                    await self._delete_ours(resource, plan.namespace, name, plan.workload_id, kept)
            for resource, manifest in objects:
                if resource in _MUTABLE:
                    if not older:
                        await self._create_or_update(plan, resource, manifest, kept)
                elif _name((resource, manifest)) not in kept.uids:
                    await self._make(plan, resource, manifest, kept)
            if not older:
                kept.run, kept.mutable = run, mutable

    async def _create_or_update(self, plan: ReplicaPlan, resource: Resource, manifest: Manifest, kept: _Known) -> None:
        """Makes a Service or an Ingress of a workload, or changes it to what the plan says."""
        async with self._hosts if resource is INGRESS else nullcontext():
            if resource is INGRESS:
                await self._check_hosts(plan, manifest)
            found = await self._make(plan, resource, manifest, kept)
            change = workload_objects.change_of(resource, manifest, found)
            if change is not None:
                path = f"{resource.path(plan.namespace)}/{manifest['metadata']['name']}"
                await self._client.patch(path, change)

    async def _check_hosts(self, plan: ReplicaPlan, ingress: Manifest) -> None:
        """Raises ApiError where an Ingress of another workload, or of another tool, has a host of this one."""
        wanted = ingresses.hosts_of(ingress)
        path = f"{INGRESS.path(plan.namespace)}/{ingress['metadata']['name']}"
        mine = await self._client.find(path)
        if (
            mine is not None
            and self._is_ours(mine["metadata"], plan.workload_id)
            and wanted <= ingresses.hosts_of(mine)
        ):
            return  # it has the host already
        page: Json = {}
        while not page or page["metadata"].get("continue"):
            more = {"continue": page["metadata"]["continue"]} if page else {}
            page = await self._client.get(INGRESS.everywhere, limit=_PAGE, **more)
            for raw in page["items"]:
                both = wanted & ingresses.hosts_of(raw)
                if both and not self._is_ours(raw["metadata"], plan.workload_id):
                    reason = self._reason(raw["metadata"])
                    raise ApiError(_CONFLICT, reason, refusals.host_taken(min(both), raw["metadata"], plan.namespace))

    async def _ensure_root(
        self,
        plan: ReplicaPlan,
        known: _Known,
        root: Manifest,
        objects: Iterable[tuple[Resource, Manifest]],
        seen: Sequence[Root | WorkloadRoot],
        used: float | None = None,
    ) -> None:
        """Makes a root where it is missing, and has it name the objects before they are made.

        seen: the root as the cache has it. used: the time of a start, which the root of a workload keeps.
        """
        names = [_name(each) for each in objects]
        if seen:
            known.uid, known.named = seen[0].uid, known.named | frozenset(seen[0].objects)
        both = [*dict.fromkeys((*sorted(known.named, key=str), *names))]
        said = roots.naming(both, used)
        if not known.uid:
            annotations = {**root["metadata"]["annotations"], **said["metadata"]["annotations"]}
            body = {**root, "metadata": {**root["metadata"], "annotations": annotations}}
            made = await self._made(plan, CONFIG_MAP, body)
            known.uid, known.named = str(made["metadata"]["uid"]), frozenset(roots.named_by(made))
            said = roots.naming([*dict.fromkeys((*sorted(known.named, key=str), *names))], used)
            if known.named >= {*names} and made["metadata"]["annotations"].items() >= annotations.items():
                return
        if used is not None or not known.named >= {*names}:
            path = f"{CONFIG_MAP.path(plan.namespace)}/{root['metadata']['name']}"
            await self._client.patch(path, said)
            known.named = known.named | frozenset(names)

    def _remembered(self, namespace: str, root: str) -> _Known:
        """What is known below a root; of very many the one that was asked for longest ago is forgotten."""
        known = self._known.setdefault((namespace, root), _Known())
        self._known.move_to_end((namespace, root))
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return known

    def forget(self, namespace: str) -> None:
        """Looks again at everything in a namespace: it has gone, or something that was there is missing."""
        self._with_programs.discard(namespace)
        self._made_at.pop(namespace, None)
        for where in [where for where in self._known if where[0] == namespace]:
            del self._known[where]

    async def _make(self, plan: ReplicaPlan, resource: Resource, body: Manifest, known: _Known) -> Json:
        found = await self._made(plan, resource, body)
        known.uids[_name((resource, body))] = str(found["metadata"]["uid"])
        return found

    async def take_away(self, root: Root | WorkloadRoot) -> None:
        """Deletes what belongs to a root, and the root itself. Raises ApiError or Unreachable."""
        known = self._known.get((root.namespace, root.name), _Known())
        for resource, name in {*root.objects, *known.named}:  # what was named a moment ago may not be seen yet
            await self._delete_ours(resource, root.namespace, name, root.workload_id, known)
        self._known.pop((root.namespace, root.name), None)
        path = f"{CONFIG_MAP.path(root.namespace)}/{root.name}"
        try:
            await removal.release(self._client, path, root.uid, root.finalizers, (marks.ROOT,))
            await removal.delete(self._client, path, root.uid, propagationPolicy="Background")
        except ApiError as error:
            if not error.gone_or_changed:
                raise

    async def _delete_ours(
        self, resource: Resource, namespace: str, name: str, workload_id: str, known: _Known
    ) -> None:
        """Deletes an object of a workload where it is there and no other owner's."""
        path = f"{resource.path(namespace)}/{name}"
        try:
            uid = known.uids.pop((resource, name), "") or await self._uid_of_ours(path, workload_id)
            if uid:
                await removal.delete(self._client, path, uid)
        except ApiError as error:
            if not error.gone_or_changed:
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
                reason = self._reason(raw["metadata"])
                raise ApiError(_CONFLICT, reason, refusals.taken(resource.kind, raw["metadata"])) from error
            return raw

    def _is_ours(self, metadata: Json, workload_id: str) -> bool:
        labels = metadata.get("labels") or {}
        return self._owner.has(labels) and labels.get(marks.WORKLOAD) == workload_id

    def _reason(self, metadata: Json) -> str:
        """The reason for which the name of another object is refused."""
        return refusals.IN_USE if self._owner.has(metadata.get("labels") or {}) else refusals.TAKEN

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
        if found is not None and found.accepts(plan.project, self._owner):
            return None
        if found is None and self._managed:
            async with self._making[plan.namespace]:  # the first replicas of a project come together: one makes it
                if self._made_at.get(plan.namespace, -inf) > time.monotonic() - _SEEN_SECONDS:
                    return None
                found = await self._make_namespace(plan)
                if found.accepts(plan.project, self._owner):
                    self._made_at[plan.namespace] = time.monotonic()
                    return None
        self._cache.await_namespace(plan.namespace, plan.workload_id)
        return refusals.namespace(plan.namespace, plan.project, found)

    async def _make_namespace(self, plan: ReplicaPlan) -> Namespace:
        """Make the namespace of a project where it is missing, and return it. Raises ApiError or Unreachable."""
        labels = {**self._owner.labels(), marks.PROJECT: plan.project, **self._enforced}
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": plan.namespace, "labels": labels}}
        try:
            made = await self._client.post("/api/v1/namespaces", body)
        except ApiError as error:
            if error.status != _CONFLICT:
                raise
            made = await self._client.get(f"/api/v1/namespaces/{plan.namespace}")
        return roots.namespace_of(made)


def _name(one: tuple[Resource, Manifest]) -> tuple[Resource, str]:
    resource, manifest = one
    return resource, str(manifest["metadata"]["name"])
