"""Looks after pods that do not start: asks for the cluster's events where a pod says nothing, and acts on them.

Used by the Kubernetes back end. Holds: a pod that starts as it should costs no call; a question that fails changes
nothing about the pod's deadline.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from muster_chassis import logs
from muster_cluster_agent.adapters.kubernetes.acting import Acting
from muster_cluster_agent.adapters.kubernetes.client import Client
from muster_cluster_agent.domain.kubernetes import starting, substates
from muster_cluster_agent.domain.kubernetes.lines import StopRequest
from muster_cluster_agent.domain.kubernetes.pods import Pod
from muster_cluster_agent.domain.kubernetes.starting import EventSummary, Hindrance
from muster_cluster_agent.domain.model import StartStep
from muster_cluster_agent.errors import BackendError

_ASK_SECONDS: Final = 60.0  # between two questions about one pod

_log = logs.get(__name__)


@dataclass(slots=True)
class _Start:
    """What is known of one start. since: from when on a container of it waits; None: none does. told: its last step."""

    since: float | None = None
    told: StartStep | None = None
    asked: float = 0.0
    events: EventSummary = field(default_factory=EventSummary)


class StartWatch:
    """Pods of one cluster that have not started. pull_seconds: how long their images may be pulled."""

    def __init__(self, client: Client, acting: Acting, pull_seconds: float) -> None:
        self._client = client
        self._acting = acting
        self._pull_seconds = pull_seconds
        self._starts: dict[str, _Start] = {}  # by the replica's name

    def take_settled_step(self, pod: Pod, now: float) -> bool:
        """Return whether its start step has lasted long enough and was not reported yet; mark it as reported."""
        step = substates.start_step_of(pod)
        start = self._starts.get(pod.name)
        if start is None or step == start.told or not substates.is_settled(step, now):
            return False
        start.told = step
        return True

    async def look(self, pod: Pod, now: float) -> None:
        """Acts on what hinders a pod. Raises BackendError."""
        if not starting.is_starting(pod):
            self.forget(pod.name)
            return
        start = self._starts.setdefault(pod.name, _Start())
        if not starting.waits(pod):
            start.since = None
        elif start.since is None:
            start.since = now
        found = starting.hindrance_of(pod, now, now if start.since is None else start.since)
        if found is None and starting.is_slow(pod, now):
            await self._ask(pod, start, now)
            found = starting.stuck(pod, start.events, now, self._pull_seconds)
        if found is not None:
            await self._act(pod, found)

    def forget(self, name: str) -> None:
        """A pod has started, or is not there any more."""
        self._starts.pop(name, None)

    def known(self) -> set[str]:
        """The replicas that are looked after."""
        return {*self._starts}

    async def _ask(self, pod: Pod, start: _Start, now: float) -> None:
        if now - start.asked < _ASK_SECONDS:
            return
        start.asked = now
        path = f"/api/v1/namespaces/{pod.namespace}/events"
        try:
            answer = await self._client.get(path, fieldSelector=f"involvedObject.uid={pod.uid}")
        except BackendError as error:
            _log.warning("the events of a pod cannot be read", pod=pod.key, error=str(error))
            return
        items = answer.get("items") or ()
        if items:  # a cluster keeps events for an hour or less, and a pull may take longer
            start.events = starting.summary_of(items, now)

    async def _act(self, pod: Pod, found: Hindrance) -> None:
        if found.code is None:
            await self._acting.end(pod, StopRequest(fault=found.text))
        else:
            await self._acting.withdraw(pod, found.text, found.code)
