"""Looks after pods that do not start: asks for the cluster's events where a pod says nothing, and does what follows.

Used by the Kubernetes back end. Holds: a pod that starts as it should costs no call.
"""

from __future__ import annotations

from typing import Final

from muster_cluster_agent.adapters.kubernetes.acting import Acting
from muster_cluster_agent.adapters.kubernetes.client import Client
from muster_cluster_agent.domain.kubernetes import starting
from muster_cluster_agent.domain.kubernetes.observing import StopRequest
from muster_cluster_agent.domain.kubernetes.pods import Pod
from muster_cluster_agent.domain.kubernetes.starting import Hindrance

_ASK_SECONDS: Final = 60.0  # between two questions about one pod


class StartWatch:
    """Pods of one cluster that have not started. pull_seconds: how long their images may be pulled."""

    def __init__(self, client: Client, acting: Acting, pull_seconds: float) -> None:
        self._client = client
        self._acting = acting
        self._pull_seconds = pull_seconds
        self._since: dict[str, tuple[str, float]] = {}  # what a pod waits for, and since when, by the replica's name
        self._asked: dict[str, float] = {}

    async def look(self, pod: Pod, now: float) -> None:
        """Acts on what hinders a pod. Raises BackendError."""
        if not starting.is_starting(pod):
            self.forget(pod.name)
            return
        waits = starting.waits_for(pod)
        before, since = self._since.get(pod.name, ("", now))
        if bool(before) != bool(waits):  # which of its reasons it gives in turn does not matter
            since = now
        self._since[pod.name] = (waits, since)
        found = starting.hindrance_of(pod, now, since)
        if found is None and not waits and starting.is_slow(pod, now):
            found = await self._ask(pod, now)
        if found is not None:
            await self._act(pod, found)

    def forget(self, name: str) -> None:
        """A pod has started, or is not there any more."""
        self._since.pop(name, None)
        self._asked.pop(name, None)

    def known(self) -> set[str]:
        """The replicas that are looked after."""
        return {*self._since}

    async def _ask(self, pod: Pod, now: float) -> Hindrance | None:
        if now - self._asked.get(pod.name, 0.0) < _ASK_SECONDS:
            return None
        self._asked[pod.name] = now
        path = f"/api/v1/namespaces/{pod.namespace}/events"
        answer = await self._client.get(path, fieldSelector=f"involvedObject.uid={pod.uid}")
        return starting.hindrance_in(answer.get("items") or (), pod, now, self._pull_seconds)

    async def _act(self, pod: Pod, found: Hindrance) -> None:
        if found.code is None:
            await self._acting.end(pod, StopRequest(fault=found.text))
        else:
            await self._acting.withdraw(pod, found.text, found.code)
