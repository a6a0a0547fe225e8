"""Verifies what KAI-Scheduler gave pods, and writes down the virtual cards of their groups.

Used by the Kubernetes back end where KAI gives the devices. Holds: a replica is READY only once the annotation of its
pod is seen, so that the next agent reports the same cards; nothing is written about a pod that has something else than
it was assigned.
"""

from __future__ import annotations

import asyncio
import json
from typing import Final

from muster_chassis import logs
from muster_cluster_agent.adapters.kubernetes.cache import Cache
from muster_cluster_agent.adapters.kubernetes.client import Client
from muster_cluster_agent.adapters.kubernetes.recorder import path_of
from muster_cluster_agent.domain.kubernetes import kai, marks
from muster_cluster_agent.domain.kubernetes.pods import Pod
from muster_cluster_agent.errors import BackendError

_AT_ONCE: Final = 32  # calls
_MAIN: Final = 0  # place of a replica's own container among those of its pod

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
        if self._cache.kai is not None and self._cache.kai.is_unreported(pod):
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
        pod, cache = self._cache.by_name.get(name), self._cache.kai
        cards = self._cache.nodes.cards(pod.node) if pod is not None else None
        if pod is None or cache is None or cards is None or not cache.is_unreported(pod):
            return
        try:
            # A pod that is contradicted, or for which no card is left, is stopped by the next look at it.
            if await self._contradicted(pod):
                cache.refute(pod)
            elif decided := cache.decide(pod, cards):
                said = {"uid": pod.uid, "annotations": {marks.CARDS: json.dumps(decided)}}
                await self._client.patch(path_of(pod), {"metadata": said})
        except BackendError as error:
            _log.warning("it is not written yet which cards a pod has", pod=pod.key, error=str(error))

    async def _contradicted(self, pod: Pod) -> bool:
        """Return whether KAI's ConfigMap says that a pod has something else than it was assigned. Raises BackendError.

        Without its ConfigMap no container starts, and some modes of KAI make none: one that is missing says nothing.
        """
        if not pod.config_map or pod.part is None:
            return False
        found = await self._client.find(f"/api/v1/namespaces/{pod.namespace}/configmaps/{pod.config_map}-{_MAIN}")
        return found is not None and kai.contradicts(found.get("data") or {}, pod.part, len(pod.devices))
