"""Carries out what reconciling asks: objects are made, stopped, written off and cleared away (kubernetes.md 3.4).

Used by the Kubernetes back end. Holds: a name is made once, and what is there under it is compared before it counts as
ours; an answer that was lost is UNKNOWN, and the same action is asked for again.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from muster_chassis import logs
from muster_cluster_agent.adapters.kubernetes import removal
from muster_cluster_agent.adapters.kubernetes.cache import Cache
from muster_cluster_agent.adapters.kubernetes.claiming import DeviceClaims
from muster_cluster_agent.adapters.kubernetes.client import ApiError, Client, Unreachable
from muster_cluster_agent.adapters.kubernetes.prerequisites import Prerequisites
from muster_cluster_agent.adapters.kubernetes.recorder import Recorder, path_of
from muster_cluster_agent.adapters.kubernetes.unseen import UnseenPods
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
from muster_cluster_agent.domain.kubernetes import device_requests, lines, manifests, marks, refusals
from muster_cluster_agent.domain.kubernetes.device_slices import DeviceNames
from muster_cluster_agent.domain.kubernetes.device_sources import DeviceSource
from muster_cluster_agent.domain.kubernetes.lines import StopRequest
from muster_cluster_agent.domain.kubernetes.manifests import Style
from muster_cluster_agent.domain.kubernetes.marks import Owner
from muster_cluster_agent.domain.kubernetes.names import base_of
from muster_cluster_agent.domain.kubernetes.observing import TERMINATED, is_refused
from muster_cluster_agent.domain.kubernetes.pods import Pod
from muster_cluster_agent.domain.kubernetes.resources import Manifest
from muster_cluster_agent.domain.kubernetes.workload_objects import addresses_of
from muster_cluster_agent.domain.model import NodeHealth, Observed, RunKey
from muster_cluster_agent.domain.plan import InvalidCommand, ReplicaPlan
from muster_cluster_agent.errors import BackendError
from muster_kernel.reasons import RefusalCode

_NOT_FOUND: Final = 404
_CLOSED: Final = 4_000
_UNSEEN_SECONDS: Final = 60.0  # longer than any call takes, here and in the server

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
        prerequisites: Prerequisites,
        owner: Owner,
        style: Style,
        names: DeviceNames,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._cache = cache
        self._recorder = recorder
        self._owner = owner
        self._style = style
        self._prerequisites = prerequisites
        self._clock = clock
        self._unseen = UnseenPods(cache, clock)
        self._closed: OrderedDict[str, RunKey] = OrderedDict()  # workloads of which runs are over, of the last ones
        self._refused: dict[str, Refused] = {}
        self.claims = DeviceClaims(client, cache, owner, names, self._unseen.is_being_made)
        self._withdrawn: dict[str, Answer] = {}  # pods that Muster takes back, until it is certain that they do not run

    async def create(self, action: Create) -> Answer:
        """Makes a replica's root and its pod."""
        plan = action.plan
        known = self._known(plan)
        if known is not None:
            return known
        earlier = plan.name in self._unseen  # a call whose answer was lost may still have its effect
        self._unseen.begin(plan.name)
        try:
            wrong = await self._prerequisites.namespace(plan)
            if wrong is not None:
                return wrong
            source = self._cache.nodes.source_of(plan.node)
            device_requests.check(plan, source, direct=self._style.direct)
            root_uid = await self._prerequisites.prepare(plan)
            wrong = await self.claims.ensure(plan, root_uid) if source is DeviceSource.SLICES else None
            if wrong is not None:
                return wrong
            addresses = addresses_of(plan, self._style.urls)
            body = manifests.pod(self._owner, plan, self._style, root_uid, addresses, source=source)
            self._unseen.add(plan)  # until it is known whether the pod is there
            answer = await self._pod(plan, body)
        except InvalidCommand as error:
            return Answer(Outcome.REFUSED, str(error), RefusalCode.UNSUPPORTED)
        except ApiError as error:
            answer = refusals.answer_of(
                error.status, error.reason, refusals.without_names(error.reason, error.message, plan)
            )
        except Unreachable as error:
            return Answer(Outcome.UNKNOWN, str(error))
        finally:
            self._unseen.finish(plan.name)
        if plan.name not in self._withdrawn:
            self._unseen.note(plan.name, answer, earlier=earlier)
        return answer

    def _known(self, plan: ReplicaPlan) -> Answer | None:
        """What is known of a replica before its pod is asked for; None: it may be made."""
        refused = self._refused.get(plan.name)
        if refused is not None and (time.monotonic() < refused.until or plan.name in self._cache.by_name):
            return refused.answer
        self._refused.pop(plan.name, None)
        if plan.name in self._cache.ends:
            gone = self._cache.ends[plan.name]
            return ALREADY if gone is not None else Answer(Outcome.CONFLICT, "a replica of that name was here before")
        node = self._cache.views().get(plan.node)
        if node is None or node.health is not NodeHealth.UP:
            health = node.health.value if node is not None else "unknown"
            return Answer(Outcome.REFUSED, f"node {plan.node} takes nothing: it is {health}")
        return None

    def unseen(self, workload_id: str | None = None) -> list[Observed]:
        """Replicas whose pods were asked for and are not seen yet: they count as created until it is known."""
        return self._unseen.replicas(workload_id)

    async def resolve_unseen(self) -> None:
        """Looks after pods that were asked for and were never seen. Raises BackendError.

        One that is still wanted is asked for again, since its name makes that safe; any other is waited for until no
        call that made it can be under way. One whose call is under way now is left alone: a slow API server gets no
        second call for it.
        """
        late = time.monotonic() - _UNSEEN_SECONDS
        for each in self._unseen.pods():
            if self._unseen.is_under_way(each.plan.name):
                continue
            if not each.confirmed and not each.unwanted:
                await self.create(Create(each.plan))
                self._cache.tell(each.plan.workload_id)
                continue
            if each.at >= late:
                continue
            try:
                await self._client.get(f"/api/v1/namespaces/{each.plan.namespace}/pods/{each.plan.name}")
            except ApiError as error:
                if error.status != _NOT_FOUND:
                    raise
                self._unseen.forget(each.plan.name)
                self._cache.tell(each.plan.workload_id)

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
        """Delete the pod of a replica. The next agent has to know why: that is written down, or stands on the bus."""
        pod = self._cache.by_name.get(action.name)
        if action.name in self._cache.ends:
            return ALREADY
        if pod is None:
            if action.name not in self._unseen:
                return ALREADY
            self._unseen.give_up(action.name)
            return Answer(Outcome.UNKNOWN, f"it is not known yet whether pod {action.name} is there")
        asked = StopRequest(action.reason, action.grace)
        if action.released:
            self._cache.stops[pod.name] = asked
        return await self.end(pod, asked)

    async def end(self, pod: Pod, asked: StopRequest) -> Answer:
        """Delete a pod; write down why first, if that is not written yet."""
        try:
            if self._cache.stops.get(pod.name) != asked:
                await self._recorder.note_stop(pod, asked)
        except BackendError as error:
            return Answer(Outcome.UNKNOWN, str(error))
        try:
            if pod.serving:  # no request is led to it any more while it ends
                await self._client.patch(path_of(pod), {"metadata": {"uid": pod.uid, "labels": {marks.SERVING: None}}})
            await removal.delete(self._client, path_of(pod), pod.uid, gracePeriodSeconds=int(asked.grace))
        except BackendError as error:
            if not removal.is_done(error):
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
        if pod is not None:
            try:
                if pod.deleted_at is not None and gone.evidence == TERMINATED:
                    self._recorder.release_finalizer(pod.name)  # its kubelet deletes it; where not, the next look
                else:
                    await self._delete(pod)
            except BackendError as error:
                return Answer(Outcome.UNKNOWN, str(error))
        if action.released:  # its run's root goes soon: until then, an agent that follows may tell of it once more
            self._cache.remove_end(action.name)
        else:
            self._recorder.remove(gone)
        return DONE

    async def close_runs(self, workload_id: str, run: RunKey) -> None:
        """Takes away the objects of runs up to this one. Raises BackendError where a replica of them is not removed."""
        over = [root for root in self._cache.roots_of(workload_id) if root.run <= run]
        if any(replica.key <= run for replica in (*self._cache.of(workload_id), *self.unseen(workload_id))):
            raise BackendError(f"a replica of {workload_id} up to run {marks.run_text(run)} is not removed yet")
        self._recorder.forget(workload_id, run)
        await self.claims.close_runs(workload_id, run)
        # Shards first: a root that stands says that the run may have more to clear away.
        for root in sorted(over, key=lambda each: (each.run, -each.shard)):
            await self._prerequisites.take_away(root)
        self._cache.forget_ends(workload_id, run)
        self._closed[workload_id] = max(run, self._closed.pop(workload_id, run))
        while len(self._closed) > _CLOSED:
            self._closed.popitem(last=False)

    async def close_late(self) -> None:
        """Takes away roots that are seen only now, after their runs were over. Raises BackendError."""
        for workload_id, run in [*self._closed.items()]:
            late = any(root.run <= run for root in self._cache.roots_of(workload_id))
            if late and not any(
                replica.key <= run for replica in (*self._cache.of(workload_id), *self.unseen(workload_id))
            ):
                await self.close_runs(workload_id, run)

    def refusal_of(self, pod: Pod) -> Answer | None:
        """Why a pod of which nothing ran leaves no trace; None: its end is that of its replica."""
        if is_refused(pod, self._cache.stops.get(pod.name)):
            text = f"the kubelet of {pod.node} refused it: {pod.message or pod.reason}"
            return Answer(Outcome.REFUSED, text, RefusalCode.FOREIGN_TAKEN)
        if any(one.ran for one in pod.containers):  # it was bound before it could be taken back
            self._withdrawn.pop(pod.name, None)
        return self._withdrawn.get(pod.name)

    def is_withdrawn(self, name: str) -> bool:
        """Whether Muster takes the pod of that name back."""
        return name in self._withdrawn

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

    async def withdraw(self, pod: Pod, message: str, code: RefusalCode = RefusalCode.FOREIGN_TAKEN) -> None:
        """Deletes a pod of which nothing runs, as it was last seen: one that has changed meanwhile stays."""
        if code is RefusalCode.MISSING_OBJECT:
            self._prerequisites.forget(pod.namespace)
        # Before the call, since what it does may be seen before its answer. Only evidence makes a refusal of it.
        self._withdrawn[pod.name] = Answer(Outcome.REFUSED, message, code)
        await self._delete_now(path_of(pod), {"uid": pod.uid, "resourceVersion": pod.version})

    async def clear(self, pod: Pod) -> None:
        """Deletes a pod of which nothing ran."""
        await self._delete_now(path_of(pod), {"uid": pod.uid})

    async def _delete_now(self, path: str, preconditions: dict[str, str]) -> None:
        """Deletes without grace. A failure is said; the next look tries it again."""
        try:
            await self._client.delete(path, {"gracePeriodSeconds": 0, "preconditions": preconditions})
        except BackendError as error:
            if not removal.is_done(error):
                _log.warning("a pod is not taken back yet", pod=path, error=str(error))

    async def _pod(self, plan: ReplicaPlan, body: Manifest) -> Answer:
        path = f"/api/v1/namespaces/{plan.namespace}/pods"
        try:
            raw = await self._client.post(path, body)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            raw = await self._client.get(f"{path}/{plan.name}")
            metadata = raw["metadata"]
            if not self._owner.has(metadata.get("labels") or {}) or _spec_of(metadata) != _spec_of(body["metadata"]):
                return Answer(Outcome.REFUSED, refusals.taken("Pod", metadata), RefusalCode.NAME_CONFLICT)
            return ALREADY
        changed = refusals.mutated(body, raw)
        if not changed:
            return DONE
        self._withdrawn[plan.name] = Answer(Outcome.REFUSED, refusals.mutation(changed), RefusalCode.MUTATED)
        await self._delete_now(f"{path}/{plan.name}", {"uid": raw["metadata"]["uid"]})
        return self._withdrawn[plan.name]

    async def _write(self, namespace: str, base: str, gone: Observed) -> Answer:
        try:
            await self._recorder.write_together(namespace, base, gone, {gone.name: lines.line_of(gone)})
        except BackendError as error:
            return Answer(Outcome.UNKNOWN, str(error))
        self._cache.tell(gone.workload_id)
        return DONE

    async def _delete(self, pod: Pod) -> None:
        """Deletes the pod of a replica whose end is written down. Raises BackendError."""
        self._recorder.release_finalizer(pod.name)
        try:
            await removal.delete(self._client, path_of(pod), pod.uid, gracePeriodSeconds=0)
        except ApiError as error:
            if not error.gone_or_changed:
                raise


def _base(pod: Pod) -> str:
    if pod.replica is None:
        raise ValueError(f"pod {pod.key} is no replica")
    return base_of(pod.replica)


def _spec_of(metadata: Manifest) -> str:
    return str((metadata.get("annotations") or {}).get(marks.SPEC, ""))
