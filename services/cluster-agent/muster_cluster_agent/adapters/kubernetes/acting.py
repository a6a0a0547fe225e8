"""Carries out what reconciling asks: objects are made, stopped, written off and cleared away (kubernetes.md 3.4).

Used by the Kubernetes back end. Holds: a name is made once, and what is there under it is compared before it counts as
ours; an answer that was lost is UNKNOWN, and the same action is asked for again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from muster_chassis import logs
from muster_cluster_agent.adapters.kubernetes.cache import Cache
from muster_cluster_agent.adapters.kubernetes.client import ApiError, Client, Unreachable
from muster_cluster_agent.adapters.kubernetes.cluster_file import KubernetesFile
from muster_cluster_agent.adapters.kubernetes.recorder import Recorder, path_of
from muster_cluster_agent.domain.actions import (
    ALREADY,
    DONE,
    Abandon,
    Answer,
    Bury,
    Create,
    Outcome,
    Remove,
    Stop,
)
from muster_cluster_agent.domain.kubernetes import ends, manifests, marks, refusals
from muster_cluster_agent.domain.kubernetes.marks import Owner
from muster_cluster_agent.domain.kubernetes.observing import Asked, is_refused
from muster_cluster_agent.domain.kubernetes.pods import Pod
from muster_cluster_agent.domain.kubernetes.roots import Root
from muster_cluster_agent.domain.model import NodeHealth, Observed, RunKey
from muster_cluster_agent.domain.plan import InvalidCommand, ReplicaPlan
from muster_cluster_agent.errors import BackendError

_NOT_FOUND: Final = 404
_CONFLICT: Final = 409

_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Refused:
    """A replica that the cluster did not take, and until when (monotonic seconds) it is not made again."""

    answer: Answer
    until: float


class Acting:
    """The actions on one cluster. clock: seconds since 1970."""

    def __init__(
        self,
        client: Client,
        cache: Cache,
        recorder: Recorder,
        owner: Owner,
        file: KubernetesFile,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._cache = cache
        self._recorder = recorder
        self._owner = owner
        self._file = file
        self._clock = clock
        self._refused: dict[str, Refused] = {}
        self._withdrawn: dict[str, Answer] = {}  # pods that Muster takes back, until it is certain that they do not run

    async def create(self, action: Create) -> Answer:
        """Makes a replica's root and its pod."""
        plan = action.plan
        refused = self._refused.get(plan.name)
        if refused is not None and time.monotonic() < refused.until:
            return refused.answer
        self._refused.pop(plan.name, None)
        if plan.name in self._cache.ends:
            gone = self._cache.ends[plan.name]
            return ALREADY if gone is not None else Answer(Outcome.CONFLICT, "a replica of that name was here before")
        node = self._cache.views().get(plan.node)
        if node is None or node.health is not NodeHealth.UP:
            return Answer(
                Outcome.REFUSED, f"node {plan.node} takes nothing: {node.health.value if node else 'unknown'}"
            )
        try:
            wrong = await self._namespace(plan)
            if wrong is not None:
                return wrong
            root_uid = await self._root(plan)
            body = manifests.pod(self._owner, plan, plan.namespace, self._file.style, root_uid)
            return await self._pod(plan, body)
        except InvalidCommand as error:
            return Answer(Outcome.REFUSED, str(error), refusals.UNSUPPORTED)
        except ApiError as error:
            return refusals.answer_of(error.status, error.reason, error.message)
        except Unreachable as error:
            return Answer(Outcome.UNKNOWN, str(error))

    async def abandon(self, action: Abandon) -> Answer:
        """Writes a replica down as one that was never started."""
        plan = action.plan
        if plan.name in self._cache.ends:
            return ALREADY
        gone = Observed(
            *plan.identity,
            boot="",
            pattern=plan.pattern,
            created_at=self._clock(),
            fault=action.message,
            fault_is_start=True,
            gone=True,
            gone_at=self._clock(),
            evidence="no-process",
            project=plan.project,
            workload=plan.workload,
        )
        return await self._write(plan.namespace, plan.gang, gone)

    async def stop(self, action: Stop) -> Answer:
        """Says on the pod why it stops, so that an agent that follows knows it too, and deletes it."""
        pod = self._cache.by_name.get(action.name)
        if pod is None or action.name in self._cache.ends:
            return ALREADY
        return await self.end(pod, Asked(action.reason, action.grace))

    async def end(self, pod: Pod, asked: Asked) -> Answer:
        """Deletes a pod, having said why on it where that is not said yet."""
        try:
            if pod.asked != asked.text():
                changes = {"metadata": {"uid": pod.uid, "annotations": {marks.STOP: asked.text()}}}
                await self._client.patch(path_of(pod), changes)
            options = {"gracePeriodSeconds": int(asked.grace), "preconditions": {"uid": pod.uid}}
            await self._client.delete(path_of(pod), options)
        except ApiError as error:
            if error.status not in {_NOT_FOUND, _CONFLICT}:
                return Answer(Outcome.UNKNOWN, str(error))
        except Unreachable as error:
            return Answer(Outcome.UNKNOWN, str(error))
        return DONE

    async def bury(self, action: Bury) -> Answer:
        """Writes off a replica whose node is gone for good, then deletes what is left of its pod."""
        pod = self._cache.by_name.get(action.name)
        if action.name in self._cache.ends or pod is None:
            return ALREADY
        if action.evidence == "no-process":
            return Answer(Outcome.CONFLICT, f"the kubelet of {pod.node} watches over {action.name}")
        now = self._clock()
        replica = self._cache.observe(pod, now, action.evidence)
        fault = "" if replica.ended is not None else action.fault
        gone = replace(replica, fault=fault)
        answer = await self._write(pod.namespace, _base(pod), gone)
        if answer is DONE:
            with suppress(BackendError):  # what is left of it goes when it is removed
                await self._delete(pod)
        return answer

    async def remove(self, action: Remove) -> Answer:
        """Forgets a replica that is GONE: its pod goes, and its name stays used up."""
        gone = self._cache.ends.get(action.name)
        pod = self._cache.by_name.get(action.name)
        if gone is None:
            here = pod is not None and action.name not in self._cache.ends
            return Answer(Outcome.REFUSED, f"{action.name} is not gone") if here else ALREADY
        try:
            if pod is not None:
                await self._delete(pod)
            root = next((each for each in self._cache.roots_of(gone.workload_id) if action.name in each.lines), None)
            if root is None:  # its namespace takes no lines: it is known here alone
                self._cache.take_lines(gone.workload_id, {action.name: ends.REMOVED})
            else:
                await self._recorder.put_lines(
                    root.namespace, manifests.base_of(gone), gone, {action.name: ends.REMOVED}
                )
        except BackendError as error:
            return Answer(Outcome.UNKNOWN, str(error))
        return DONE

    async def close_runs(self, workload_id: str, run: RunKey) -> None:
        """Takes away the objects of runs up to this one. Raises BackendError where a replica of them is not removed."""
        over = [root for root in self._cache.roots_of(workload_id) if root.run <= run]
        if any(replica.key <= run for replica in self._cache.of(workload_id)):
            raise BackendError(f"a replica of {workload_id} up to run {marks.run_text(run)} is not removed yet")
        # Shards first: a root that stands says that the run may have more to clear away.
        for root in sorted(over, key=lambda each: (each.run, -each.shard)):
            await self._take_away(root)

    def refusal_of(self, pod: Pod) -> Answer | None:
        """Why a pod of which nothing ran leaves no trace; None: its end is that of its replica."""
        if is_refused(pod):
            text = f"the kubelet of {pod.node} refused it: {pod.message or pod.reason}"
            return Answer(Outcome.REFUSED, text, refusals.FOREIGN_TAKEN)
        return self._withdrawn.get(pod.name)

    def refuse(self, name: str, answer: Answer) -> None:
        """A replica that certainly does not run is refused, and made again elsewhere, or here after a while."""
        self._withdrawn.pop(name, None)
        self._refused[name] = Refused(answer, time.monotonic() + refusals.AGAIN_SECONDS)

    def is_refused(self, name: str) -> bool:
        """Whether a replica was refused after its pod was made."""
        return name in self._refused

    def forget_refusals(self) -> None:
        """Forgets refusals of replicas that were not asked for again, and of which no pod is left."""
        late = time.monotonic() - refusals.AGAIN_SECONDS
        for name in [name for name, refused in self._refused.items() if refused.until < late]:
            if name not in self._cache.by_name:
                del self._refused[name]

    async def withdraw(self, pod: Pod, message: str) -> None:
        """Deletes a pod that was not bound, as it was last seen: one that was bound meanwhile stays."""
        # Before the call, since what it does may be seen before its answer. Only evidence makes a refusal of it.
        self._withdrawn[pod.name] = Answer(Outcome.REFUSED, message, refusals.FOREIGN_TAKEN)
        await self._delete_now(path_of(pod), {"uid": pod.uid, "resourceVersion": pod.version})

    async def clear(self, pod: Pod) -> None:
        """Deletes a pod of which nothing ran."""
        await self._delete_now(path_of(pod), {"uid": pod.uid})

    async def _delete_now(self, path: str, preconditions: dict[str, str]) -> None:
        """Deletes without grace. A failure is said; the next look tries it again."""
        try:
            await self._client.delete(path, {"gracePeriodSeconds": 0, "preconditions": preconditions})
        except BackendError as error:
            if not (isinstance(error, ApiError) and error.status in {_NOT_FOUND, _CONFLICT}):
                _log.warning("a pod is not taken back yet", pod=path, error=str(error))

    async def _namespace(self, plan: ReplicaPlan) -> Answer | None:
        """Why the namespace takes nothing; None: it does. One that is missing is made where that is wanted."""
        found = self._cache.namespaces.items.get(plan.namespace)
        if found is not None and not found.terminating and found.project == plan.project:
            return None
        if found is None and self._file.managed:
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

    async def _root(self, plan: ReplicaPlan) -> str:
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

    async def _pod(self, plan: ReplicaPlan, body: manifests.Manifest) -> Answer:
        path = f"/api/v1/namespaces/{plan.namespace}/pods"
        try:
            raw = await self._client.post(path, body)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            raw = await self._client.get(f"{path}/{plan.name}")
            metadata = raw["metadata"]
            if not self._owner.has(metadata.get("labels") or {}) or _spec_of(metadata) != _spec_of(body["metadata"]):
                return Answer(Outcome.REFUSED, refusals.taken("Pod", metadata), refusals.NAME_CONFLICT)
            return ALREADY
        changed = refusals.mutated(body, raw)
        if not changed:
            return DONE
        self._withdrawn[plan.name] = Answer(Outcome.REFUSED, refusals.mutation(changed), refusals.MUTATED)
        await self._delete_now(f"{path}/{plan.name}", {"uid": raw["metadata"]["uid"]})
        return self._withdrawn[plan.name]

    async def _write(self, namespace: str, base: str, gone: Observed) -> Answer:
        try:
            await self._recorder.put_lines(namespace, base, gone, {gone.name: ends.line_of(gone)})
        except BackendError as error:
            return Answer(Outcome.UNKNOWN, str(error))
        self._cache.tell(gone.workload_id)
        return DONE

    async def _delete(self, pod: Pod) -> None:
        """Deletes the pod of a replica whose end is written down. Raises BackendError."""
        self._recorder.free(pod.name)
        try:
            await self._client.delete(path_of(pod), {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid}})
        except ApiError as error:
            if error.status not in {_NOT_FOUND, _CONFLICT}:
                raise

    async def _take_away(self, root: Root) -> None:
        path = f"/api/v1/namespaces/{root.namespace}/configmaps/{root.name}"
        try:
            if marks.ROOT in root.finalizers:
                left = [one for one in root.finalizers if one != marks.ROOT]
                await self._client.patch(path, {"metadata": {"uid": root.uid, "finalizers": left or None}})
            await self._client.delete(path, {"preconditions": {"uid": root.uid}, "propagationPolicy": "Background"})
        except ApiError as error:
            if error.status not in {_NOT_FOUND, _CONFLICT}:
                raise


def _base(pod: Pod) -> str:
    if pod.replica is None:
        raise ValueError(f"pod {pod.key} is no replica")
    return manifests.base_of(pod.replica)


def _spec_of(metadata: manifests.Manifest) -> str:
    return str((metadata.get("annotations") or {}).get(marks.SPEC, ""))
