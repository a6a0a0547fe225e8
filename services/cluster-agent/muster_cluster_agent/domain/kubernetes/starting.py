"""What keeps a pod from starting, and what follows: another place, or a failed start (kubernetes.md 8.1, 8.2 and 9.1).

Called by the Kubernetes back end every few seconds for each pod that has not started. Pure: the time is an argument.
Holds: nothing waits for ever; only time without progress counts, and an image that is being pulled is progress.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from muster_cluster_agent.domain.kubernetes.manifests import MAIN
from muster_cluster_agent.domain.kubernetes.pods import Container, Pod, moment
from muster_kernel.reasons import RefusalCode

_UNBOUND_SECONDS: Final = 30.0  # how long the cluster's scheduler may say that a pod fits nowhere, or hold it back
_BINDING_SECONDS: Final = 600.0
_WAITING_SECONDS: Final = 60.0  # for a reason that seldom passes by itself
_STUCK_SECONDS: Final = 600.0
_REPEATED_SECONDS: Final = 180.0  # the kubelet repeats what goes on about every two minutes
_AT_ONCE: Final = frozenset({"InvalidImageName", "ErrImageNeverPull"})
_SOON: Final = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_PULL_FAILED: Final = frozenset({"ErrImagePull", "ImagePullBackOff"})
_HOPELESS_PULL: Final = re.compile(
    r"not found|forbidden|unauthorized|denied|manifest unknown|no match for platform", re.IGNORECASE
)
_PROGRESS: Final = frozenset({"Pulling", "Pulled", "Created", "Started"})
_TROUBLE: Final = frozenset(
    {"FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "FailedPrepareDynamicResources"}
)
_MISSING: Final = re.compile(
    r"(configmap|secret|persistentvolumeclaim|storageclass)[^ ]* \\?\"[^\"]+\" not found|couldn't find key"
    r"|device class [^ ]+ does not exist",
    re.IGNORECASE,
)
_BEING_BOUND: Final = "unbound immediate PersistentVolumeClaims"


@dataclass(frozen=True, slots=True)
class Hindrance:
    """Why a pod does not start. code: it is refused, and placed again; None: its start has failed."""

    text: str
    code: RefusalCode | None = None


@dataclass(frozen=True, slots=True)
class EventSummary:
    """What the events of a pod say of its start. pulling: an image of it is being pulled."""

    hindrance: Hindrance | None = None
    pulling: bool = False


def is_starting(pod: Pod) -> bool:
    """Whether its own container has not run yet, and may still."""
    main = pod.container(MAIN)
    return pod.deleted_at is None and not pod.terminal and (main is None or not main.ran)


def hindrance_of(pod: Pod, now: float, since: float) -> Hindrance | None:
    """What the pod itself says; None: nothing, or it may pass. since: from when on one of its containers has waited."""
    if not pod.node:
        return _unbound(pod, now)
    for one in pod.containers:
        if one.waiting in _AT_ONCE or (now - since >= _WAITING_SECONDS and _is_hopeless(one)):
            text = f"{one.waiting}: {one.message}" if one.message else one.waiting
            return Hindrance(text, RefusalCode.MISSING_OBJECT if _MISSING.search(one.message) else None)
    return None


def waits(pod: Pod) -> bool:
    """Whether a container of it waits for something that seldom passes by itself."""
    return any(one.waiting in _AT_ONCE | _SOON | _PULL_FAILED for one in pod.containers)


def is_slow(pod: Pod, now: float) -> bool:
    """Whether a bound pod has not moved for so long that the cluster's events are worth asking for."""
    return bool(pod.node) and now - _moved_at(pod) >= _WAITING_SECONDS


def summary_of(events: Iterable[Mapping[str, Any]], now: float) -> EventSummary:
    """What the events of a slow pod say. What came before the newest progress is solved, and counts no more."""
    ordered = sorted(events, key=_at)
    moved = next((one for one in reversed(ordered) if one.get("reason") in _PROGRESS), None)
    if moved is not None and moved["reason"] == "Pulling":
        return EventSummary(pulling=True)
    after = _at(moved) if moved is not None else 0.0
    trouble = [one for one in ordered if one.get("reason") in _TROUBLE and _at(one) > after]
    if not trouble:
        return EventSummary()
    text = f"{trouble[-1]['reason']}: {trouble[-1].get('message', '')}"
    lasts = int(trouble[-1].get("count") or 0) > 1 and now - _at(trouble[-1]) < _REPEATED_SECONDS
    missing = lasts and _MISSING.search(text) is not None
    return EventSummary(Hindrance(text, RefusalCode.MISSING_OBJECT if missing else None))


def stuck(pod: Pod, events: EventSummary, now: float, pull_seconds: float) -> Hindrance | None:
    """What follows for a slow pod from what its events said last.

    pull_seconds: how long its images may be pulled, and how long a container before its own may run.
    """
    if events.hindrance is not None and events.hindrance.code is not None:
        return events.hindrance
    waited = now - _moved_at(pod)
    if events.pulling:
        text = f"its image was not pulled within {pull_seconds:.0f} s"
        return Hindrance(text) if waited >= pull_seconds else None
    preparing = next((one for one in pod.containers if one.ran and one.code is None and not one.lasting), None)
    if preparing is not None:  # such as a checkout
        text = f"container {preparing.name} did not end within {pull_seconds:.0f} s"
        return Hindrance(text) if waited >= pull_seconds else None
    if waited < _STUCK_SECONDS:
        return None
    said = next((f"{one.waiting}: {one.message}" for one in pod.containers if one.waiting and one.message), "")
    return events.hindrance or Hindrance(
        said or f"nothing has changed for {_STUCK_SECONDS:.0f} s; the cluster reports no reason"
    )


def _is_hopeless(one: Container) -> bool:
    """Whether another minute changes nothing. A pull that broke off is tried again by the kubelet, and may work."""
    return one.waiting in _SOON or (one.waiting in _PULL_FAILED and _HOPELESS_PULL.search(one.message) is not None)


def _unbound(pod: Pod, now: float) -> Hindrance | None:
    condition = pod.conditions.get("PodScheduled")
    said = (condition.message or condition.reason) if condition is not None else ""
    # The condition as it is now, not an event.
    if condition is not None and not condition.status and now - condition.at >= _UNBOUND_SECONDS:
        if condition.reason == "SchedulingGated":
            return Hindrance(f"something in the cluster holds the pod back: {said}", RefusalCode.GATED)
        if condition.reason == "Unschedulable" and _MISSING.search(said):
            return Hindrance(said, RefusalCode.MISSING_OBJECT)
        if condition.reason == "Unschedulable" and _BEING_BOUND not in said:
            text = f"the cluster's scheduler finds no place on its node: {said}"
            return Hindrance(text, RefusalCode.FOREIGN_TAKEN)
    if now - pod.created_at < _BINDING_SECONDS:
        return None
    text = said or "no scheduler of the cluster has looked at it"
    return Hindrance(f"it was not bound within {_BINDING_SECONDS:.0f} s: {text}", RefusalCode.START_DEADLINE)


def _moved_at(pod: Pod) -> float:
    """When something of it has last moved, as far as its status says."""
    bound = pod.conditions.get("PodScheduled")
    times = [pod.created_at, bound.at if bound is not None else 0.0]
    times += [at for one in pod.containers for at in (one.started_at, one.ended_at) if at is not None]
    return max(times)


def _at(event: Mapping[str, Any]) -> float:
    series = event.get("series") or {}
    said = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return moment(said) or 0.0
