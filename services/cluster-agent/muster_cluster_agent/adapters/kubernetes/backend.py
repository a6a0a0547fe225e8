"""The back end on a Kubernetes cluster: implements `ports.Backend` with pods.

Opened by the composition root once this agent leads. The cache follows the cluster, `Acting` writes to it, the recorder
writes ends down. Holds: nothing is concluded before every kind of object was listed once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Self

from muster_chassis import logs
from muster_cluster_agent.adapters.file_reader import KUBERNETES_BACKEND
from muster_cluster_agent.adapters.kubernetes.acting import Acting
from muster_cluster_agent.adapters.kubernetes.addressing import Addressing
from muster_cluster_agent.adapters.kubernetes.cache import Cache
from muster_cluster_agent.adapters.kubernetes.checks import Checks
from muster_cluster_agent.adapters.kubernetes.client import Client
from muster_cluster_agent.adapters.kubernetes.cluster_file import KubernetesFile
from muster_cluster_agent.adapters.kubernetes.departure import Departure
from muster_cluster_agent.adapters.kubernetes.evacuation import Evacuation
from muster_cluster_agent.adapters.kubernetes.kai_recorder import KaiRecorder
from muster_cluster_agent.adapters.kubernetes.layouts import Layouts
from muster_cluster_agent.adapters.kubernetes.logs import PodLogs
from muster_cluster_agent.adapters.kubernetes.prerequisites import Prerequisites
from muster_cluster_agent.adapters.kubernetes.recorder import Recorder
from muster_cluster_agent.adapters.kubernetes.start_watch import StartWatch
from muster_cluster_agent.adapters.kubernetes.support import support_of
from muster_cluster_agent.domain.actions import (
    Abandon,
    Answer,
    BackendAction,
    Bury,
    Create,
    Outcome,
    Remove,
    Route,
    Stop,
)
from muster_cluster_agent.domain.findings import Finding
from muster_cluster_agent.domain.fleet import Fleet, Identity, Mig, Profile
from muster_cluster_agent.domain.kubernetes import marks
from muster_cluster_agent.domain.kubernetes.abilities import abilities
from muster_cluster_agent.domain.kubernetes.lines import StopRequest
from muster_cluster_agent.domain.kubernetes.marks import Owner
from muster_cluster_agent.domain.kubernetes.observing import VANISHED, evidence_of
from muster_cluster_agent.domain.kubernetes.pods import Pod
from muster_cluster_agent.domain.layouts import LayoutAnswer
from muster_cluster_agent.domain.model import NodeView, Observed, RunKey
from muster_cluster_agent.domain.retirement import RETIRED_AGENT, Retirement
from muster_cluster_agent.domain.status import DEVICES_DIFFER
from muster_cluster_agent.errors import BackendError
from muster_cluster_agent.ports import Changed, Kept
from muster_kernel.reasons import RefusalCode

SILENT_SECONDS: Final = 10.0
"""How long the API server may be without an answer before what is known counts as old."""
_LOOK_SECONDS: Final = 5.0
_NO_LEAD_SECONDS: Final = 1.0
_NO_LEAD: Final = Answer(Outcome.UNKNOWN, "this agent does not lead the cluster now, and changes nothing")
_RETIRED: Final = Answer(Outcome.REFUSED, RETIRED_AGENT, RefusalCode.AGENT_ERROR)
_TURN: Final = 250  # pods after which other tasks run: a look at 10,000 pods held reports up for 0.3 s

log = logs.get(__name__)


class KubernetesBackend:
    """The replicas of one control plane in one cluster. clock: seconds since 1970."""

    def __init__(
        self, client: Client, owner: Owner, file: KubernetesFile, clock: Callable[[], float] = time.time
    ) -> None:
        self._clock = clock
        self._client = client
        self._observed_at = 0.0
        self._cache = Cache(
            client,
            owner,
            file.counting,
            file.namespace,
            clock,
            names=file.device_names,
            source=file.device_source,
            kai=file.style.kai,
        )
        self._kai = KaiRecorder(client, self._cache)
        self._recorder = Recorder(client, self._cache, owner)
        prerequisites = Prerequisites(
            client,
            self._cache,
            owner,
            file.style.urls,
            managed=file.managed,
            pod_security=file.pod_security,
            clock=clock,
        )
        self._acting = Acting(
            client, self._cache, self._recorder, prerequisites, owner, file.style, file.device_names, clock
        )
        self._addressing = Addressing(client, self._cache, prerequisites)
        self._starts = StartWatch(client, self._acting, file.pull_seconds)
        self._logs = PodLogs(client, self._cache)
        self._checks = Checks(client, self._cache, owner, file)
        self._layouts = Layouts(client, self._cache, allowed=file.mig_manager)
        self._departure = Departure(
            client, self._cache, self._recorder, prerequisites, self._acting.claims, owner, file
        )
        self._evacuation = Evacuation(client, self._cache, owner, file.namespace)
        self._tasks: list[asyncio.Task[None]] = []
        self._gone_after = file.counting.gone_after
        self._kept_after = ""
        self._cache.never_ran = lambda pod: self._acting.is_refused(pod.name)
        support = support_of(file.allowed, file.style)
        self._profile = Profile(
            backend=KUBERNETES_BACKEND,
            identity=Identity.ANONYMOUS,
            portions=False,
            memory_requests=False,
            mig=Mig.STATIC,
            ignored_fields=support.ignored_words,
            refused_fields=support.refused_words,
        )

    async def __aenter__(self) -> Self:
        """Opens it."""
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes it."""
        await self.close()

    async def open(self) -> None:
        """Begins to follow the cluster, and waits until all of it is known."""
        followers = (*self._cache.followers, *self._cache.objects.followers, *self._cache.devices.followers)
        self._begin(*(each.run for each in followers))
        await self._cache.listed()
        # Only now: the roots say why pods were stopped, and which ends are written down already.
        self._cache.pod_listeners.append(self._hear)
        for pod in self._cache.by_name.values():
            self._hear(pod)
        self._begin(self._recorder.run, self._kai.run, self._rounds)

    def _begin(self, *eternal: Callable[[], Coroutine[None, None, None]]) -> None:
        for run in eternal:
            self._tasks.append(asyncio.create_task(run(), name=f"kubernetes-{len(self._tasks)}"))

    async def run(self) -> None:
        """Watches over what `open` has begun. An eternal task: it ends with the first of them that fails."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    async def close(self) -> None:
        """Stops following. Replicas go on."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._recorder.close()

    def observed_at(self) -> float:
        """Of when the cluster is known: the time of the last answer while every kind is followed."""
        answered = time.monotonic() - self._client.answered_at
        followed = all(each.sound for each in self._cache.followers) and self._cache.devices.sound
        if answered <= SILENT_SECONDS and followed:
            self._observed_at = self._clock() - answered
        return self._observed_at

    # ------------------------------------------------------------------------------------------------------- reading

    async def list(self, workload_id: str | None = None) -> Sequence[Observed]:
        """Every replica that is not removed, or those of one workload."""
        found = self._cache.all() if workload_id is None else self._cache.of(workload_id)
        here = [one for one in found if not self._acting.is_refused(one.name)]
        return [*here, *self._acting.unseen(workload_id)]

    async def portions(self) -> AsyncIterator[Sequence[Observed]]:
        """Yield every replica that is not removed and has begun or has an end, some hundreds at a time."""
        names = self._cache.used_names()
        for first in range(0, len(names), _TURN):
            found = (self._cache.replica(name) for name in names[first : first + _TURN])
            yield [one for one in found if one is not None and not self._acting.is_refused(one.name)]
            await asyncio.sleep(0)

    def watch(self) -> AsyncIterator[Changed]:
        """What changes from now on."""
        return self._cache.changes()

    async def fleet(self) -> Fleet:
        """The nodes of now, and what the cluster can do."""
        nodes, claims, shared = self._cache.nodes.report(), self._cache.devices.found, self._cache.nodes.shared()
        profile = abilities(self._profile, nodes, claims=claims, shared=shared, isolated=self._cache.kai is None)
        return Fleet(replace(profile, names_objects=self._cache.objects.known), nodes, self._cache.objects.report())

    async def nodes(self) -> Mapping[str, NodeView]:
        """The nodes as reconciling needs them."""
        return self._cache.views()

    async def replicas_with_logs(self, workload_id: str) -> Sequence[str]:
        """Names of the workload's replicas of which a pod is there, the newest run last."""
        return self._logs.names(workload_id)

    def read_log(
        self, name: str, *, since: float | None = None, tail: int = 0, follow: bool = False
    ) -> AsyncIterator[bytes]:
        """A replica's log, piece by piece."""
        return self._logs.read(name, since, tail, follow=follow)

    async def log_tail(self, name: str, limit: int) -> bytes:
        """The last lines of a replica's log, at most `limit` bytes."""
        return await self._logs.tail(name, limit)

    async def check(self) -> Sequence[Finding]:
        """Return the findings of a check of the cluster."""
        return await self._checks.run()

    async def retire(self, *, force: bool, dry_run: bool) -> Retirement:
        """Delete what was made in the cluster."""
        return await self._departure.retire(force=force, dry_run=dry_run)

    async def dead_man(self) -> float | None:
        """None: a pod goes on without its agent."""
        return None

    async def renew(self, sent_at: float, dead_man: float | None) -> None:
        """Nothing waits for it."""

    # -------------------------------------------------------------------------------------------------------- acting

    async def act(self, action: BackendAction) -> Answer:
        """Does one action. Raises nothing: what is not known is Outcome.UNKNOWN."""
        if self._client.lead_left() <= 0:
            await asyncio.sleep(_NO_LEAD_SECONDS)  # every workload asks, and asks again
            return _NO_LEAD
        if self._departure.retired:  # nothing would take away what it would write now
            return _RETIRED if isinstance(action, Create) else Answer(Outcome.UNKNOWN, RETIRED_AGENT)
        match action:
            case Create():
                return await self._acting.create(action)
            case Abandon():
                return await self._acting.abandon(action)
            case Stop():
                return await self._acting.stop(action)
            case Bury():
                return await self._acting.bury(action)
            case Remove():
                return await self._acting.remove(action)
            case Route():
                return await self._addressing.route(action)

    async def lay_out(self, node: str, config: str) -> LayoutAnswer | None:
        """Does the next step to a MIG layout of a node."""
        return await self._layouts.lay_out(node, config)

    async def kept(self, most: int) -> Sequence[Kept]:
        """Workloads of which something outlives their runs although no replica is here, after the last such answer."""
        later = [
            each
            for each in sorted(self._cache.workload_roots)
            if each > self._kept_after and not self._has_replicas(each)
        ][:most]
        self._kept_after = later[-1] if later else ""
        return [Kept(each, self._cache.workload_roots[each].used) for each in later]

    async def forget(self, workload_ids: Iterable[str]) -> None:
        """Takes away what outlives the runs of deleted workloads; of those of which a replica is here it stays."""
        for workload_id in workload_ids:
            if self._has_replicas(workload_id):
                continue
            try:
                await self._addressing.erase(workload_id)
            except BackendError as error:
                log.warning("a deleted workload keeps its objects for now", workload=workload_id, error=str(error))

    def _has_replicas(self, workload_id: str) -> bool:
        return bool(self._cache.of(workload_id) or self._acting.unseen(workload_id))

    async def close_runs(self, workload_id: str, run: RunKey) -> None:
        """Takes away what runs up to this one had beside their replicas. Raises BackendError."""
        await self._acting.close_runs(workload_id, run)

    def _hear(self, pod: Pod) -> None:
        """What is due about a pod whatever is desired: its end is written down, and nothing of ours holds it."""
        if self._departure.retired or pod.name in self._cache.ends or self._acting.is_refused(pod.name):
            if marks.GONE in pod.finalizers:
                self._recorder.release_finalizer(pod.name)
            return
        evidence = evidence_of(pod, holds_devices=self._cache.devices.holds(pod))
        if not evidence:
            self._kai.note(pod)
            return
        refusal = self._acting.refusal_of(pod)
        if refusal is None:
            self._recorder.record(pod.namespace, self._cache.observe(pod, self._clock(), evidence))
            return
        self._acting.refuse(pod.name, refusal)
        self._recorder.release_finalizer(pod.name)

    async def _rounds(self) -> None:
        """What only the clock says: nodes that stay silent, and pods that wait, vanish or were not deleted."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            now = self._clock()
            self._cache.devices.look(now)
            self._cache.look_at_nodes(now)
            self._acting.forget_refusals()
            for name in self._starts.known() - self._cache.by_name.keys():
                self._starts.forget(name)
            if self._departure.retired:
                continue  # nothing is made any more, and no end is written down
            for step in (
                self._acting.resolve_unseen,
                self._acting.close_late,
                self._acting.claims.sweep,
                self._evacuation.look,
            ):
                try:
                    await step()
                except (BackendError, ValueError) as error:
                    log.warning("pods cannot be looked after", error=str(error))
            for number, name in enumerate([*self._cache.by_name]):
                if number % _TURN == 0:
                    await asyncio.sleep(0)
                pod = self._cache.by_name.get(name)
                if pod is not None:  # it may have gone meanwhile
                    await self._look_safely(pod, now)

    async def _look_safely(self, pod: Pod, now: float) -> None:
        """Look at one pod. An object is anybody's to edit: one that is odd must not end the agent."""
        try:
            await self._look(pod, now)
        except BackendError as error:
            log.warning("a pod cannot be looked after", pod=pod.key, error=str(error))
        except Exception:
            log.exception("a pod cannot be looked after", pod=pod.key)

    async def _look(self, pod: Pod, now: float) -> None:
        if pod.name in self._cache.vanished:
            self._look_for_vanished(pod, now)
            return
        self._cache.note_boot(pod, now)
        asked = self._cache.stops.get(pod.name)
        if self._is_to_go(pod):
            await self._acting.clear(pod)
        elif asked is not None and pod.deleted_at is None and not pod.terminal:  # the answer to its deletion was lost
            await self._acting.end(pod, asked)
        elif self._cache.differs(pod) and pod.deleted_at is None and not pod.terminal:
            await self._acting.end(pod, StopRequest(DEVICES_DIFFER))
        else:
            self._kai.note(pod)
            await self._starts.look(pod, now)
            if pod.replica is not None and self._starts.take_settled_step(pod, now):
                self._cache.tell(pod.replica.workload_id)

    def _is_to_go(self, pod: Pod) -> bool:
        """Whether a pod is only left over: nothing of it ran, or it is removed and its kubelet has not deleted it."""
        if pod.name in self._cache.ends:
            removed = self._cache.ends[pod.name] is None
            return removed and pod.deleted_at is not None and not pod.forced
        return pod.deleted_at is None and (self._acting.is_refused(pod.name) or self._acting.is_withdrawn(pod.name))

    def _look_for_vanished(self, pod: Pod, now: float) -> None:
        """A pod without its object may run until its node gives evidence, or for as long as on a silent node."""
        if pod.name in self._cache.ends:
            self._cache.drop(pod)
        elif self._gone_after is not None and now - self._cache.vanished[pod.name] >= self._gone_after:
            self._recorder.record(pod.namespace, self._cache.observe(pod, now, VANISHED))
