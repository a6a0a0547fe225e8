"""Makes the device claims of replicas, and takes away those that no replica has any more (kubernetes.md 7).

Used by `acting.py`. No root names them: the cache follows every claim of the cluster, and a claim names its replica.
Holds: a claim is there before its pod is made, and goes only once that pod is gone; one of another owner is never
adopted and never deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from muster_chassis import logs
from muster_cluster_agent.adapters.kubernetes import removal
from muster_cluster_agent.adapters.kubernetes.cache import Cache
from muster_cluster_agent.adapters.kubernetes.client import ApiError, Client
from muster_cluster_agent.domain.actions import Answer, Outcome
from muster_cluster_agent.domain.kubernetes import device_claims, marks, refusals
from muster_cluster_agent.domain.kubernetes.device_claims import Claim, claim_of
from muster_cluster_agent.domain.kubernetes.device_slices import DeviceNames
from muster_cluster_agent.domain.kubernetes.marks import Owner
from muster_cluster_agent.domain.kubernetes.resources import DEVICE_CLAIM
from muster_cluster_agent.domain.model import RunKey
from muster_cluster_agent.domain.plan import ReplicaPlan
from muster_cluster_agent.errors import BackendError
from muster_kernel.reasons import RefusalCode

_ANOTHER: Final = "device claim {} is still there for other devices, and is taken away first"
_GOING: Final = "device claim {} is being taken away, and is made again after that"

_log = logs.get(__name__)


class DeviceClaims:
    """The claims of one agent. wanted: whether the pod of the replica of that name is being made."""

    def __init__(
        self, client: Client, cache: Cache, owner: Owner, names: DeviceNames, wanted: Callable[[str], bool]
    ) -> None:
        self._client = client
        self._cache = cache
        self._owner = owner
        self._names = names
        self._wanted = wanted
        self._deleting: set[str] = set()  # uids of claims whose deletion is under way
        self._made: dict[str, Claim] = {}  # by `namespace/name`: those that were made and may not be seen yet

    async def ensure(self, plan: ReplicaPlan, root_uid: str) -> Answer | None:
        """Make the claim of a replica where it is missing; why it cannot be had, or None. Raises BackendError."""
        if not plan.shares:
            return None
        body = device_claims.manifest(self._owner, plan, self._names, root_uid)
        path = DEVICE_CLAIM.path(plan.namespace)
        try:
            raw = await self._client.post(path, body)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            raw = await self._client.get(f"{path}/{plan.name}")
        found = claim_of(raw, self._owner, self._names.driver)
        if not found.ours or found.workload_id != plan.workload_id:
            text = refusals.taken(DEVICE_CLAIM.kind, raw["metadata"])
            return Answer(Outcome.REFUSED, text, RefusalCode.NAME_CONFLICT)
        if found.uid in self._deleting:  # a sweep took it for left over before its replica was asked for again
            return Answer(Outcome.UNKNOWN, _GOING.format(plan.name))
        if found.deleting or found.spec != body["metadata"]["annotations"][marks.SPEC]:
            await self._delete(found)
            return Answer(Outcome.UNKNOWN, _ANOTHER.format(plan.name))
        self._made[found.key] = found
        return None

    async def close_runs(self, workload_id: str, run: RunKey) -> None:
        """Delete the claims of runs up to this one. Raises BackendError."""
        for claim in self._known():
            if claim.workload_id == workload_id and claim.run <= run:
                await self._delete(claim)

    async def sweep(self) -> None:
        """Delete claims without a pod, such as those of refused replicas. A failure is said; the next sweep follows."""
        for claim in self._known():
            if claim.deleting or self._wanted(claim.name) or claim.name in self._cache.by_name:
                continue
            try:
                await self._delete(claim)
            except BackendError as error:
                _log.warning("a device claim is not taken away yet", claim=claim.key, error=str(error))

    async def erase(self) -> None:
        """Delete every claim: the agent's cluster leaves the fleet. Raises BackendError."""
        for claim in self._known():
            await self._delete(claim)

    def _known(self) -> Iterable[Claim]:
        """Return the claims of this agent, also those that were made a moment ago."""
        seen = self._cache.devices.ours()
        for key in [key for key in self._made if key in seen]:
            del self._made[key]
        return [*seen.values(), *self._made.values()]

    async def _delete(self, claim: Claim) -> None:
        """Delete a claim. What is reserved for a pod stays until the cluster has released it."""
        self._made.pop(claim.key, None)
        self._deleting.add(claim.uid)
        try:
            await removal.delete(self._client, f"{DEVICE_CLAIM.path(claim.namespace)}/{claim.name}", claim.uid)
        except ApiError as error:
            if not error.gone_or_changed:
                raise
        finally:
            self._deleting.discard(claim.uid)
