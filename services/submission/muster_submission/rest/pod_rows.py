"""A replica as 2.18's pod. Muster has no pods of its own to list: a workload's last status names its replicas.

Called by the routes of pods. Holds: a replica's name gives its id, so that the id needs no book and stays.
"""

from __future__ import annotations

import uuid
from typing import Any, Final

from muster.workload.v1 import workload_pb2 as wl
from muster_submission.adapters.reading import Listed
from muster_submission.domain.fields import GPU_UNITS
from muster_submission.rest.workload_rows import MIG_PROFILES, Rows, priority, requests_of, time

_PODS: Final = uuid.UUID("c1f6a6b2-7d7e-5a53-9c6e-2f0c1d8a4b90")
_STATES: Final = {
    "CREATED": "Pending",
    "STARTING": "Pending",
    "READY": "Running",
    "SUCCEEDED": "Succeeded",
    "FAILED": "Failed",
    "LOST": "Unknown",
}
_OVER: Final = frozenset({"Succeeded", "Failed"})


def pod_id(replica: str) -> str:
    """The id of the pod that a replica is."""
    return str(uuid.uuid5(_PODS, replica))


def state(replica: wl.Replica) -> str:
    """The phase that Kubernetes would tell; GONE has the one in which it ended."""
    if replica.state == "GONE":
        return "Failed" if replica.exit_code else "Succeeded"
    return _STATES.get(replica.state, "Unknown")


def completed(replica: wl.Replica) -> bool:
    """Whether it has ended."""
    return state(replica) in _OVER


def pod(rows: Rows, listed: Listed, replica: wl.Replica, *, full: bool) -> dict[str, Any]:
    """One pod; `full` adds the names of its workload and project."""
    shown = listed.workload
    spec = shown.effective_spec if shown.HasField("effective_spec") else shown.spec
    place = rows.place(shown.project, shown.cluster or listed.asked_cluster)
    moved = time(listed.moved_at)
    told: dict[str, Any] = {
        "tenantId": rows.tenant_id,
        "id": pod_id(replica.name),
        "name": replica.name,
        "workloadId": shown.id,
        "clusterId": place["clusterId"],
        "projectId": place["projectId"],
        "priorityClassName": priority(spec),
        "nodeName": replica.node,
        "createdAt": time(shown.started_at if shown.HasField("started_at") else shown.created_at),
        "updatedAt": moved,
        "k8sPhase": state(replica),
        "k8sPhaseUpdatedAt": moved,
        "completedAt": time(shown.finished_at) if completed(replica) and shown.HasField("finished_at") else None,
        "deletedAt": None if listed.deleted_at is None else time(listed.deleted_at),
        "containers": [{"name": replica.role or "main", "image": spec.image}],
        "currentNodePool": shown.node_pool,
        "requestedNodePools": list(spec.node_pools.values),
        "tolerations": [],
        **_resources(spec, replica),
    }
    return told | ({"workloadName": shown.name, "projectName": shown.project} if full else {})


def _resources(spec: wl.WorkloadSpec, replica: wl.Replica) -> dict[str, Any]:
    asked = next((one for one in requests_of(spec) if one.role == replica.role), None)
    if asked is None:
        return {}
    gpu = asked.gpu_charge / GPU_UNITS
    amounts: dict[str, Any] = {"cpu": {"request": asked.cpu_milli / 1000}, "gpu": {"request": gpu}}
    amounts["cpuMemory"] = {"request": str(asked.memory_bytes)}
    held = {"gpu": gpu if replica.devices else 0, "cpu": asked.cpu_milli / 1000, "cpuMemory": str(asked.memory_bytes)}
    if asked.mig_profile in MIG_PROFILES:
        amounts |= {"gpuRequestType": "migProfile", "migProfile": asked.mig_profile}
    elif gpu:
        amounts["gpuRequestType"] = "memory" if asked.gpu_memory_bytes else "portion"
    return {"requestedResources": amounts, "allocatedResources": held}
