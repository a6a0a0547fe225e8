"""A pod as a replica: what it is now, when it is GONE and by which evidence, and how it ended (kubernetes.md 8).

Called by the Kubernetes back end for each of its pods after each change. Pure.
Holds: a pod that is merely away is never evidence, and neither is a phase that the cluster's own collector wrote; an
end that the main container reached by itself wins over what happened to its pod later.
"""

from __future__ import annotations

from typing import Final

from muster_cluster_agent.domain.budgets import Spent
from muster_cluster_agent.domain.kubernetes.lines import StopRequest
from muster_cluster_agent.domain.kubernetes.manifests import MAIN
from muster_cluster_agent.domain.kubernetes.pods import Container, Pod
from muster_cluster_agent.domain.model import Ended, Observed, Pattern
from muster_cluster_agent.domain.torch_record import message_of

NEVER_BOUND: Final = "never-bound"
REJECTED: Final = "rejected-by-kubelet"
VANISHED: Final = "vanished"
TERMINATED: Final = "containers-terminated"
_COLLECTED: Final = "DeletionByPodGC"
_DISRUPTED: Final = frozenset({"Evicted", "Preempting", "Shutdown", "NodeLost", "NodeShutdown", "Terminated"})
# The kubelet's words where a pod spent its own limit of local storage: no fault of the cluster.
_OWN_STORAGE: Final = ("exceeds the total limit", "exceeds the limit", "exceeded its local ephemeral storage limit")
# Of a container whose own code the kubelet or its runtime no longer knows.
_LOST_REASONS: Final = frozenset({"ContainerStatusUnknown", "Unknown"})
_NOT_ASKED: Final = StopRequest()


def observed(
    pod: Pod,
    *,
    boot: str,
    charge: int,
    asked: StopRequest | None = None,
    gone_at: float | None = None,
    evidence: str = "",
    given: tuple[str, ...] | None = (),
) -> Observed:
    """The replica that a pod is.

    given: the devices that its claim has; None: none yet, so that it is not ready. asked: why it is to stop. evidence:
    by what it is GONE, seen at `gone_at`; empty: it is not. Raises ValueError for a pod without a replica, or with a
    pattern that no agent wrote.
    """
    replica = pod.replica
    if replica is None:
        raise ValueError(f"pod {pod.key} is no replica")
    stop = asked or _NOT_ASKED
    main = pod.container(MAIN)
    ended = _ended(pod, main, asked)
    return Observed(
        *replica.identity,
        boot=boot,
        pattern=Pattern(pod.pattern),
        created_at=pod.created_at,
        started_at=main.started_at if main is not None else None,
        ready=main is not None and main.ready and ended is None and pod.deleted_at is None and given is not None,
        stop_reason=stop.reason,
        stop_grace=stop.grace,
        ended=ended,
        fault=stop.fault or (_fault(pod) if evidence and ended is None else ""),
        unasked=pod.deleted_at is not None and asked is None and _is_unexplained(pod, ended),
        fault_is_start=bool(stop.fault) or _failed_before_main(pod, main, asked),
        gone=bool(evidence),
        gone_at=gone_at,
        evidence=evidence,
        charge=charge,
        devices=given or (),
        moved=bool(given) and {*(given or ())} != {*pod.devices},
        project=pod.project,
        workload=pod.workload,
        endpoints=tuple(f"http://{pod.ip}:{port}" for port in pod.ports) if pod.ip else (),
        service=pod.addresses,
    )


def evidence_of(pod: Pod, *, holds_devices: bool = False) -> str:
    """By what it is certain that no process of the pod is left; empty: it is not (architecture rule 7).

    holds_devices: the cluster has not released its device claim yet.
    """
    ran = [one for one in pod.containers if one.ran]
    if not pod.node:
        return NEVER_BOUND if pod.deleted_at is not None and not ran else ""
    if not pod.terminal or holds_devices:
        return ""
    if ran:
        return TERMINATED if all(one.code is not None for one in ran) else ""
    # A phase that the cluster's collector wrote is no word of the kubelet: the machine may be starting the pod.
    disruption = pod.conditions.get("DisruptionTarget")
    return "" if disruption is not None and disruption.reason == _COLLECTED else REJECTED


def is_refused(pod: Pod, asked: StopRequest | None) -> bool:
    """Whether its node's kubelet refused it before any container was made. asked: why it is to stop."""
    return evidence_of(pod) == REJECTED and pod.deleted_at is None and not (asked or _NOT_ASKED).fault


def _ended(pod: Pod, main: Container | None, asked: StopRequest | None) -> Ended | None:
    """How its command ended; None: it has not, or was never started."""
    if main is None or main.code is None or not main.ran:
        return None
    at = main.ended_at if main.ended_at is not None else pod.created_at
    if main.reason == "OOMKilled":
        return Ended(main.code, at, message_of(main.message) or "OOMKilled", Spent.MEMORY)
    if any(words in pod.message for words in _OWN_STORAGE):
        return Ended(main.code, at, pod.message, Spent.FILE)
    disruption = _disruption(pod, at, asked)
    if disruption:
        return Ended(main.code, at, disruption, disrupted=True)
    text = message_of(main.message) or ("" if main.code == 0 else main.reason)
    return Ended(main.code, at, text, disrupted=main.reason in _LOST_REASONS)


def _is_unexplained(pod: Pod, ended: Ended | None) -> bool:
    """Whether nothing but the deletion of its pod says why it ended, or has not ended yet."""
    return "DisruptionTarget" not in pod.conditions and (ended is None or ended.disrupted)


def _disruption(pod: Pod, ended_at: float, asked: StopRequest | None) -> str:
    """What of the node or the cluster ended the pod before its command had ended; empty: nothing."""
    condition = pod.conditions.get("DisruptionTarget")
    if condition is not None and condition.status and condition.at <= ended_at:
        return f"{condition.reason}: {condition.message}" if condition.message else condition.reason
    if pod.reason in _DISRUPTED:
        return f"{pod.reason}: {pod.message}" if pod.message else pod.reason
    if pod.deleted_at is not None and pod.deleted_at <= ended_at and asked is None:
        return "its pod was deleted by others"
    return ""


def _fault(pod: Pod) -> str:
    """Why a pod is gone whose command never ended by itself."""
    if pod.reason or pod.message:
        return ": ".join(text for text in (pod.reason, pod.message) if text)
    failed = next((one for one in pod.containers if one.code), None)
    if failed is not None:
        text = f"container {failed.name} ended with {failed.code} before the command was started"
        return f"{text}: {failed.message.strip()}" if failed.message.strip() else text
    return "its pod was deleted before the command was started"


def _failed_before_main(pod: Pod, main: Container | None, asked: StopRequest | None) -> bool:
    """Whether an init container or a sidecar failed while the main one had not run."""
    failed = [one for one in pod.containers if one.code and one.reason not in _LOST_REASONS]
    if not failed or (main is not None and main.ran):
        return False
    return not _disruption(pod, max(one.ended_at or pod.created_at for one in failed), asked)
