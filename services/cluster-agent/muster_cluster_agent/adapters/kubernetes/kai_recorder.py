"""Writes down as which virtual cards the groups of pods are told, in an annotation of each pod.

Used by the Kubernetes back end where KAI-Scheduler gives the devices. Holds: a replica is told as READY only once its
annotation is seen, so that the agent that follows tells the same cards.
"""

from __future__ import annotations

import asyncio
import json
from typing import Final

from muster_chassis import logs
from muster_cluster_agent.adapters.kubernetes.cache import Cache
from muster_cluster_agent.adapters.kubernetes.client import Client
from muster_cluster_agent.adapters.kubernetes.recorder import path_of
from muster_cluster_agent.domain.kubernetes import marks
from muster_cluster_agent.domain.kubernetes.pods import Pod
from muster_cluster_agent.errors import BackendError

_AT_ONCE: Final = 32  # calls

_log = logs.get(__name__)


class KaiRecorder:
    """The annotations of one cluster that are to be written."""

    def __init__(self, client: Client, cache: Cache) -> None:
        self._client = client
        self._cache = cache
        self._due: dict[str, None] = {}  # names of pods
        self._wake = asyncio.Event()

    def note(self, pod: Pod) -> None:
        """Note that a pod is new or has changed, or was looked at again."""
        if self._cache.kai is not None and self._cache.kai.is_untold(pod):
            self._due[pod.name] = None
            self._wake.set()

    async def run(self) -> None:
        """Write what is due, for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            names, self._due = [*self._due], {}
            for first in range(0, len(names), _AT_ONCE):
                await asyncio.gather(*(self._write(name) for name in names[first : first + _AT_ONCE]))

    async def _write(self, name: str) -> None:
        """Write the annotation of a pod. A failure is said; the next look at the pod tries it again."""
        pod, kai = self._cache.by_name.get(name), self._cache.kai
        cards = self._cache.nodes.cards(pod.node) if pod is not None else None
        if pod is None or kai is None or cards is None or not kai.is_untold(pod):
            return
        decided = kai.decide(pod, cards)
        if decided is None:  # the pod is stopped by the next look at it
            return
        said = {"uid": pod.uid, "annotations": {marks.CARDS: json.dumps(decided)}}
        try:
            await self._client.patch(path_of(pod), {"metadata": said})
        except BackendError as error:
            _log.warning("it is not written yet which cards a pod has", pod=pod.key, error=str(error))
