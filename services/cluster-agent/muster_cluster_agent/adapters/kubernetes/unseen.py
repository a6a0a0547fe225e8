"""Pods that were asked for and that the followed copy of the cluster does not show yet.

Used by `acting.py`. Holds: from the moment at which the API server is asked for a pod until it is known whether the pod
is there, its replica counts as created, so that no other is made in its place.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from muster_cluster_agent.adapters.kubernetes.cache import Cache
from muster_cluster_agent.domain.actions import Answer, Outcome
from muster_cluster_agent.domain.model import Observed
from muster_cluster_agent.domain.plan import ReplicaPlan


@dataclass(frozen=True, slots=True)
class UnseenPod:
    """A replica whose pod was asked for at that moment (monotonic seconds).

    confirmed: the server has it. unwanted: it was to be stopped since.
    """

    plan: ReplicaPlan
    at: float
    confirmed: bool = False
    unwanted: bool = False


class UnseenPods:
    """One cluster's unseen pods, by the replica's name. clock: seconds since 1970."""

    def __init__(self, cache: Cache, clock: Callable[[], float]) -> None:
        self._cache = cache
        self._clock = clock
        self._pods: dict[str, UnseenPod] = {}
        self._names: dict[str, set[str]] = {}  # by workload: of very many pods only a few are asked for at once
        self._under_way: set[str] = set()  # replicas whose pods are being asked for now
        cache.pod_listeners.append(lambda pod: self.forget(pod.name))

    def __contains__(self, name: str) -> bool:
        """Whether the pod of a replica was asked for and not seen, as far as was looked."""
        return name in self._pods

    def begin(self, name: str) -> None:
        """The pod of a replica, and what it needs, are being asked for."""
        self._under_way.add(name)

    def finish(self, name: str) -> None:
        """The calls for a pod have ended."""
        self._under_way.discard(name)

    def is_being_made(self, name: str) -> bool:
        """Return whether the pod of a replica may come into being."""
        return name in self._pods or name in self._under_way

    def add(self, plan: ReplicaPlan) -> None:
        """The API server is asked for the pod of a replica."""
        self._pods[plan.name] = UnseenPod(plan, time.monotonic())
        self._names.setdefault(plan.workload_id, set()).add(plan.name)

    def note(self, name: str, answer: Answer, *, earlier: bool) -> None:
        """Note what an answer says of a pod. earlier: a call for it whose answer was lost may still have its effect."""
        made = self._pods.get(name)
        if made is None or answer.outcome is Outcome.UNKNOWN:
            return
        if answer.outcome is not Outcome.REFUSED:
            self._pods[name] = replace(made, confirmed=True)
        elif earlier:
            self._pods[name] = replace(made, unwanted=True)
        else:
            self.forget(name)

    def give_up(self, name: str) -> None:
        """A pod is not wanted any more, should it be there."""
        self._pods[name] = replace(self._pods[name], unwanted=True)

    def forget(self, name: str) -> None:
        """A pod is seen, or is certainly not there."""
        made = self._pods.pop(name, None)
        if made is None:
            return
        names = self._names[made.plan.workload_id]
        names.discard(name)
        if not names:
            del self._names[made.plan.workload_id]

    def replicas(self, workload_id: str | None = None) -> list[Observed]:
        """Return the replicas of unseen pods, all or those of one workload."""
        names = self._pods if workload_id is None else self._names.get(workload_id, ())
        self._drop_seen(names)
        return [self._as_created(self._pods[name]) for name in sorted(names) if name in self._pods]

    def pods(self) -> list[UnseenPod]:
        """Return every unseen pod."""
        self._drop_seen(self._pods)
        return [*self._pods.values()]

    def is_under_way(self, name: str) -> bool:
        """Return whether a call for the pod of a replica has not ended."""
        return name in self._under_way

    def _drop_seen(self, names: Iterable[str]) -> None:
        for name in [name for name in names if name in self._cache.by_name or name in self._cache.ends]:
            self.forget(name)

    def _as_created(self, made: UnseenPod) -> Observed:
        node = self._cache.views().get(made.plan.node)
        return Observed(
            *made.plan.identity,
            boot=node.boot if node is not None else "",
            pattern=made.plan.pattern,
            created_at=self._clock(),
            project=made.plan.project,
            workload=made.plan.workload,
        )
