"""What keeps a pod from starting, and what follows: another place, or a failed start (kubernetes.md 8.1, 8.2 and 9.1).

Called by the Kubernetes back end every few seconds for each pod that has not started. Pure: the time is an argument.
Holds: nothing waits for ever; only time without progress counts, and an image that is being pulled is progress.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from muster_cluster_agent.domain.kubernetes.manifests import MAIN
from muster_cluster_agent.domain.kubernetes.pods import Pod, moment
from muster_kernel.reasons import RefusalCode

_UNBOUND_SECONDS: Final = 30.0  # how long the cluster's scheduler may say that a pod fits nowhere, or hold it back
_BINDING_SECONDS: Final = 600.0
_WAITING_SECONDS: Final = 60.0  # for a reason that seldom passes by itself
_STUCK_SECONDS: Final = 600.0
_AT_ONCE: Final = frozenset({"InvalidImageName", "ErrImageNeverPull"})
_SOON: Final = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "ErrImagePull", "ImagePullBackOff"}
)
_MISSING: Final = "CreateContainerConfigError"
_PULLS: Final = frozenset({"Pulling", "Pulled", "BackOff", "Failed"})
_TROUBLE: Final = frozenset({"FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "FailedScheduling"})


@dataclass(frozen=True, slots=True)
class Hindrance:
    """Why a pod does not start. code: it is refused, and placed again; None: its start has failed."""

    text: str
    code: RefusalCode | None = None


def is_starting(pod: Pod) -> bool:
    """Whether its own container has not run yet, and may still."""
    main = pod.container(MAIN)
    return pod.deleted_at is None and not pod.terminal and (main is None or not main.ran)


def hindrance_of(pod: Pod, now: float, since: float) -> Hindrance | None:
    """What the pod itself says; None: nothing, or it may pass. since: from when on it has said the same."""
    if not pod.node:
        return _unbound(pod, now)
    for one in pod.containers:
        if one.waiting in _AT_ONCE or (one.waiting in _SOON and now - since >= _WAITING_SECONDS):
            text = f"{one.waiting}: {one.message}" if one.message else one.waiting
            return Hindrance(text, RefusalCode.MISSING_OBJECT if one.waiting == _MISSING else None)
    return None


def waits_for(pod: Pod) -> str:
    """What its containers wait for, so that a change of it is seen."""
    return ", ".join(one.waiting for one in pod.containers if one.waiting in _AT_ONCE | _SOON)


def is_slow(pod: Pod, now: float) -> bool:
    """Whether a bound pod has not moved for so long that the cluster's events are worth asking for."""
    return bool(pod.node) and now - _moved_at(pod) >= _WAITING_SECONDS


def hindrance_in(events: Iterable[Mapping[str, Any]], pod: Pod, now: float, pull_seconds: float) -> Hindrance | None:
    """What the events of a slow pod say. pull_seconds: how long its images may be pulled."""
    told = sorted(events, key=_at)
    newest = next((one for one in reversed(told) if one.get("reason") in _TROUBLE), None)
    text = f"{newest['reason']}: {newest.get('message', '')}" if newest is not None else ""
    if newest is not None and newest["reason"] == "FailedMount" and "not found" in text:
        return Hindrance(text, RefusalCode.MISSING_OBJECT)
    waited = now - _moved_at(pod)
    pulled = next((one for one in reversed(told) if one.get("reason") in _PULLS), None)
    if pulled is not None and pulled["reason"] == "Pulling":
        late = waited >= pull_seconds
        return Hindrance(f"its image was not pulled within {pull_seconds:.0f} s") if late else None
    if waited < _STUCK_SECONDS:
        return None
    return Hindrance(text or f"nothing has moved for {_STUCK_SECONDS:.0f} s, and the cluster says not why")


def _unbound(pod: Pod, now: float) -> Hindrance | None:
    condition = pod.conditions.get("PodScheduled")
    # The condition as it is now, not an event. A volume that is being bound is no condition of this kind.
    if condition is not None and not condition.status and now - condition.at >= _UNBOUND_SECONDS:
        said = condition.message or condition.reason
        if condition.reason == "Unschedulable":
            text = f"the cluster's scheduler finds no place on its node: {said}"
            return Hindrance(text, RefusalCode.FOREIGN_TAKEN)
        if condition.reason == "SchedulingGated":
            return Hindrance(f"something in the cluster holds the pod back: {said}", RefusalCode.GATED)
    if now - pod.created_at < _BINDING_SECONDS:
        return None
    text = f"no scheduler of the cluster has bound it for {_BINDING_SECONDS:.0f} s"
    return Hindrance(text, RefusalCode.START_DEADLINE)


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
