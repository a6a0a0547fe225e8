"""A workload as a row of 2.18's lists: its own names for what the envelope of one workload calls otherwise.

Called by the routes of lists. Holds: enumerations are answered in 2.18's words alone; what those words cannot say is
left out and stands in additionalFields as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp

from muster.tenancy.v1.tenancy_pb2 import Project
from muster.workload.v1 import workload_pb2 as wl
from muster_kernel.lifecycle import Phase
from muster_language.resources import is_preemptible, resource_requests
from muster_submission.adapters.places import Directory
from muster_submission.adapters.reading import Listed
from muster_submission.domain import phases
from muster_submission.domain.fields import GPU_UNITS, KIND_WORDS, SOURCE_WORDS
from muster_submission.domain.fleet import ANY_CLUSTER, cluster_uuid

MIG_PROFILES: Final = frozenset(
    ["1g.5gb", "1g.10gb", "2g.10gb", "2g.20gb", "3g.20gb", "3g.40gb", "4g.20gb", "4g.40gb", "7g.40gb", "7g.80gb"]
)
_FRAMEWORKS: Final = {
    wl.FRAMEWORK_MPI: "MPI",
    wl.FRAMEWORK_PYTORCH: "PyTorch",
    wl.FRAMEWORK_TF: "TF",
    wl.FRAMEWORK_XGBOOST: "XGBoost",
}
_PRIORITIES: Final = {1: "build", 2: "train", 3: "train", 4: "inference"}
_KINDS: Final = {number: word for word, number in KIND_WORDS.items()}
_K8S: Final = {
    **dict.fromkeys((Phase.CREATING, Phase.PENDING, Phase.INITIALIZING, Phase.RESUMING), "Pending"),
    **dict.fromkeys((Phase.RUNNING, Phase.DEGRADED, Phase.UPDATING, Phase.TERMINATING, Phase.STOPPING), "Running"),
    Phase.COMPLETED: "Succeeded",
    Phase.FAILED: "Failed",
    Phase.STOPPED: "Suspended",
}
_STOPPABLE: Final = frozenset({Phase.COMPLETED, Phase.FAILED, Phase.DELETED, Phase.DELETING, Phase.STOPPED})


def time(moment: Timestamp | datetime) -> str:
    """A moment as RFC 3339 in UTC, to the millisecond."""
    plain = moment.ToDatetime() if isinstance(moment, Timestamp) else moment.replace(tzinfo=None)
    return plain.isoformat(timespec="milliseconds") + "Z"


def phase_word(number: int) -> str:
    """A phase in 2.18's words, which have none for Deleted."""
    known = phases.phase(number) or Phase.UNKNOWN
    return str(Phase.DELETING if known is Phase.DELETED else known)


@dataclass(frozen=True, slots=True)
class Rows:
    """Writes rows for one answer. tenant_id: the integer that 2.18 calls this installation by."""

    tenant_id: int
    directory: Directory

    def row(self, listed: Listed) -> dict[str, Any]:
        """One workload."""
        shown = listed.workload
        spec = shown.effective_spec if shown.HasField("effective_spec") else shown.spec
        moved = time(listed.moved_at)
        known = phases.phase(shown.phase) or Phase.UNKNOWN
        requests = requests_of(spec)
        return {
            **self.place(listed),
            "tenantId": self.tenant_id,
            "id": shown.id,
            "name": shown.name,
            "type": _KINDS.get(int(shown.spec.kind), "Training"),
            "source": SOURCE_WORDS.get(int(shown.origin), "Other"),
            "submittedBy": shown.owner.subject,
            "priorityClassName": priority(spec),
            "preemptible": is_preemptible(spec),
            "createdAt": time(shown.created_at),
            "updatedAt": moved,
            "phaseUpdatedAt": moved,
            "k8sPhaseUpdatedAt": moved,
            "deletedAt": None if listed.deleted_at is None else time(listed.deleted_at),
            "completedAt": time(shown.finished_at) if shown.HasField("finished_at") else None,
            "phase": phase_word(listed.last_phase),
            "phaseMessage": shown.reason.message or "; ".join(shown.issues),
            "k8sPhase": _K8S.get(known, "Unknown"),
            "conditions": [_condition(one) for one in shown.conditions],
            "actionsSupport": {
                "delete": known not in {Phase.DELETED, Phase.DELETING},
                "suspend": known not in _STOPPABLE,
            },
            "runningPods": sum(one.state == "READY" for one in shown.replicas),
            "requestedPods": _requested_pods(spec, requests),
            "requestedNodePools": list(spec.node_pools.values),
            "currentNodePools": [shown.node_pool] if shown.node_pool else [],
            "workloadRequestedResources": resources(requests[-1:]),
            "podsRequestedResources": resources(requests, every=True),
            "allocatedResources": _allocated(listed, requests),
            "images": list(dict.fromkeys(image for image in (spec.image, spec.master_spec.image) if image)),
            "childrenIds": [],
            "urls": list(shown.endpoints),
            "datasources": [],
            "environments": [],
            "externalConnections": [_connection(shown, url) for url in shown.endpoints],
            "distributedFramework": _FRAMEWORKS.get(spec.framework, ""),
            "additionalFields": _additional(listed, spec),
        }

    def place(self, listed: Listed) -> dict[str, str]:
        """Where it belongs: project, department, cluster."""
        shown = listed.workload
        project = self.directory.projects.get(shown.project, Project(name=shown.project))
        department = self.directory.department(shown.project)
        return {
            "projectName": shown.project,
            "projectId": str(project.id),
            "departmentName": department.name,
            "departmentId": str(department.id),
            "namespace": project.namespace,
            "clusterId": cluster_of(shown.cluster or listed.asked_cluster or project.home_cluster),
        }


def cluster_of(name: str) -> str:
    """A cluster's UUID; the nil one where it is not known yet."""
    return cluster_uuid(name) if name else ANY_CLUSTER


def priority(spec: wl.WorkloadSpec) -> str:
    """The class by which it ranks: its own, else that of its kind."""
    return spec.priority_class or _PRIORITIES.get(int(spec.kind), "train")


def requests_of(spec: wl.WorkloadSpec) -> list[wl.ResourceRequest]:
    """What each role asks for; nothing where policy has not completed the spec, or refused it."""
    try:
        return resource_requests(spec)
    except ValueError:
        return []


def resources(requests: Iterable[wl.ResourceRequest], *, every: bool = False) -> dict[str, Any]:
    """What one pod asks for, or with `every` all of them together."""
    counted = [(one, one.count if every else 1) for one in requests]
    told: dict[str, Any] = {
        "cpu": {"request": sum(one.cpu_milli * count for one, count in counted) / 1000},
        "cpuMemory": {"request": str(sum(one.memory_bytes * count for one, count in counted))},
    }
    asked = next((one for one, _ in reversed(counted) if one.gpu_devices or one.mig_profile), None)
    if asked is None:
        return told
    told["gpu"] = {"request": sum(one.gpu_charge * count for one, count in counted) / GPU_UNITS}
    if asked.mig_profile:
        told["gpuRequestType"] = "migProfile"
        if asked.mig_profile in MIG_PROFILES:
            told["migProfile"] = [asked.mig_profile]
    elif asked.gpu_memory_bytes:
        told["gpuRequestType"] = "memory"
        told["gpuMemory"] = {"request": str(asked.gpu_memory_bytes)}
    else:
        told["gpuRequestType"] = "portion"
    return told


def _allocated(listed: Listed, requests: Iterable[wl.ResourceRequest]) -> dict[str, Any]:
    if not listed.gpus and not listed.workload.replicas:
        return {"gpu": 0, "cpu": 0, "cpuMemory": "0"}
    known = list(requests)
    return {
        "gpu": listed.gpus / GPU_UNITS,
        "cpu": sum(one.cpu_milli * one.count for one in known) / 1000,
        "cpuMemory": str(sum(one.memory_bytes * one.count for one in known)),
    }


def _requested_pods(spec: wl.WorkloadSpec, requests: Iterable[wl.ResourceRequest]) -> dict[str, int]:
    told: dict[str, int] = {"number": sum(one.count for one in requests)}
    scales: Mapping[str, str] = {
        "min": "min_scale",
        "max": "max_scale",
        "parallelism": "parallelism",
        "completions": "completions",
    }
    for name, field in scales.items():
        if spec.HasField(field):  # type: ignore[arg-type]  # names of the table above
            told[name] = getattr(spec, field)
    return told


def _condition(one: wl.Condition) -> dict[str, Any]:
    told = {
        "type": one.type,
        "status": "True" if one.status else "False",
        "message": one.reason.message,
        "reason": one.reason.code,
    }
    return told | ({"lastTransitionTime": time(one.since)} if one.HasField("since") else {})


def _connection(shown: wl.Workload, url: str) -> dict[str, Any]:
    return {"name": shown.name, "toolType": "custom", "connectionType": "ExternalUrl", "url": url}


def _additional(listed: Listed, spec: wl.WorkloadSpec) -> dict[str, Any]:
    shown = listed.workload
    told: dict[str, Any] = {"generation": shown.generation, "attempt": shown.attempt}
    if shown.reason.code:
        told["reason"] = shown.reason.code
    if shown.caused_by:
        told["causedBy"] = shown.caused_by
    if spec.framework and spec.framework not in _FRAMEWORKS:
        told["distributedFramework"] = wl.Framework.Name(spec.framework).removeprefix("FRAMEWORK_")
    if spec.mig_profile and spec.mig_profile not in MIG_PROFILES:
        told["migProfile"] = spec.mig_profile
    return told
