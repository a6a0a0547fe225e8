"""Pods as the API has them, in the states that their replicas are judged by."""

from __future__ import annotations

from typing import Any

from muster_cluster_agent.domain.kubernetes import marks
from muster_cluster_agent.domain.kubernetes.marks import Owner
from muster_cluster_agent.domain.kubernetes.pods import Pod, pod_of
from muster_cluster_agent.domain.model import ReplicaKey

OWNER = Owner("11111111-1111-4111-8111-111111111111", "c")
KEY = ReplicaKey("w-x-g1-a0-worker-0-r0", "33333333-3333-4333-8333-333333333333", 1, 0, "worker", 0, 0, "n-0")
BOUND = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"}


def at(second: int) -> str:
    """A moment of the first minute of 2026."""
    return f"2026-01-01T00:00:{second:02d}Z"


def raw(
    status: dict[str, Any] | None = None,
    *,
    node: str = "n-0",
    deleted: int | None = None,
    owner: Owner = OWNER,
) -> dict[str, Any]:
    """One pod of Muster. deleted: the second at which its deletion was asked for, with a grace of 10 s."""
    metadata: dict[str, Any] = {
        "name": KEY.name,
        "namespace": "runai-p",
        "uid": "u",
        "resourceVersion": "7",
        "creationTimestamp": at(0),
        "labels": marks.replica_labels(owner, "p", KEY),
        "annotations": {marks.PATTERN: "single", marks.NAME: "bert"},
        "finalizers": [marks.GONE],
    }
    if deleted is not None:
        metadata |= {"deletionTimestamp": at(deleted + 10), "deletionGracePeriodSeconds": 10}
    spec = {"nodeName": node, "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending", "conditions": [BOUND], **(status or {})}}


def pod(status: dict[str, Any] | None = None, **more: Any) -> Pod:
    """The same, as it is kept in memory."""
    return pod_of(raw(status, **more), OWNER)


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    """The main container waits."""
    return {"containerStatuses": [{"name": "main", "state": {"waiting": {"reason": reason, "message": message}}}]}


def running(*, ready: bool = True) -> dict[str, Any]:
    """The main container runs."""
    state = {"running": {"startedAt": at(5)}}
    return {
        "phase": "Running",
        "containerStatuses": [{"name": "main", "ready": ready, "containerID": "c://1", "state": state}],
    }


def ended(code: int, reason: str = "Error", *, second: int = 20, message: str = "", **more: Any) -> dict[str, Any]:
    """The main container has ended."""
    what = {"exitCode": code, "reason": reason, "startedAt": at(5), "finishedAt": at(second), "containerID": "c://1"}
    status = {"name": "main", "containerID": "c://1", "state": {"terminated": {**what, "message": message}}}
    return {"phase": "Succeeded" if code == 0 else "Failed", "containerStatuses": [status], **more}


def disruption(reason: str, second: int) -> dict[str, Any]:
    """The condition of a pod that its cluster ends."""
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "words"}
    return {"conditions": [BOUND, {**condition, "lastTransitionTime": at(second)}]}
