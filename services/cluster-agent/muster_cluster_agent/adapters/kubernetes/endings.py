"""When the end of a replica is told, and where it is written before its pod may go (kubernetes.md 3.3, 8.3).

Used by the Kubernetes back end for each of Muster's own pods after each change. Holds: a pod keeps its finalizer until
its end stands in the root of its run or, where the run is released, in the reports on Kafka; an end that Kafka has not
acknowledged within `BUS_SECONDS` is written into the root.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from muster_cluster_agent.adapters.kubernetes.acting import Acting
from muster_cluster_agent.adapters.kubernetes.cache import Cache
from muster_cluster_agent.adapters.kubernetes.recorder import Recorder
from muster_cluster_agent.adapters.kubernetes.tombstones import Tombstones
from muster_cluster_agent.domain.kubernetes import marks
from muster_cluster_agent.domain.kubernetes.observing import evidence_of
from muster_cluster_agent.domain.kubernetes.pods import Pod
from muster_cluster_agent.domain.model import Observed

BUS_SECONDS: Final = 4.0
"""How long an end waits for Kafka. A finalizer has to be off within ten seconds of the evidence."""


class Endings:
    """The ends of one cluster's pods. clock: seconds since 1970."""

    def __init__(
        self,
        cache: Cache,
        recorder: Recorder,
        acting: Acting,
        tombstones: Tombstones,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._cache = cache
        self._recorder = recorder
        self._acting = acting
        self._tombstones = tombstones
        self._clock = clock
        self._unexplained: dict[str, None] = {}  # replicas whose pods were deleted, by whom is not known yet

    def hear(self, pod: Pod) -> None:
        """Note what is due about a pod, whatever is desired: its end is told or written, then nothing holds it."""
        if pod.name in self._cache.ends or self._acting.is_refused(pod.name):
            if marks.GONE in pod.finalizers:
                self._recorder.release_finalizer(pod.name)
            return
        self._explain(pod)  # also without evidence: how it stands is told meanwhile
        evidence = self._evidence_of(pod)
        if not evidence or pod.name in self._cache.held_ends:
            return
        refusal = self._acting.refusal_of(pod)
        if refusal is not None:
            self._acting.refuse(pod.name, refusal)
            self._recorder.release_finalizer(pod.name)
            return
        if pod.deleted_at is not None and pod.name not in self._cache.stops and not self._tombstones.read:
            # An agent before this one may have deleted it for a tombstone, which is not read yet.
            if pod.name not in self._unexplained:
                self._unexplained[pod.name] = None
                asyncio.get_running_loop().call_later(BUS_SECONDS, self._end_unexplained, pod.name)
            return
        self._end(pod, evidence)

    def tombstones_read(self) -> None:
        """Say why pods stop that an earlier agent deleted, and look again at the ends that waited for that."""
        for pod in self._cache.by_name.values():
            self._explain(pod)
        for name in [*self._unexplained]:
            self._end_unexplained(name)

    def _end_unexplained(self, name: str) -> None:
        if name not in self._unexplained:
            return
        del self._unexplained[name]
        pod = self._cache.by_name.get(name)
        if pod is not None and name not in self._cache.ends:
            self._end(pod, self._evidence_of(pod))

    def _evidence_of(self, pod: Pod) -> str:
        return evidence_of(pod, holds_devices=self._cache.devices.holds(pod))

    def _explain(self, pod: Pod) -> None:
        """A pod of a released run that is being deleted stops for its tombstone, if no line says another reason."""
        asked = self._tombstones.stop_request_for(pod)
        if asked is not None and pod.deleted_at is not None:
            self._cache.stops.setdefault(pod.name, asked)

    def _end(self, pod: Pod, evidence: str) -> None:
        """Tell that a replica is GONE: at once where its run is released, otherwise once its line is in the root."""
        replica = self._cache.observe(pod, self._clock(), evidence)
        if not self._tombstones.covers(replica.workload_id, replica.key):
            self._recorder.record(pod.namespace, replica)
            return
        # Its pod holds the end until Kafka has it; most are removed by then, and need no line.
        self._cache.hold_end(replica)
        asyncio.get_running_loop().call_later(BUS_SECONDS, self._write_held, pod.namespace, replica)

    def _write_held(self, namespace: str, replica: Observed) -> None:
        """Write an end that Kafka has not acknowledged. Of one that was removed meanwhile the root may have gone."""
        if self._cache.held_ends.get(replica.name) is replica:
            self._recorder.record(namespace, replica)
