"""A workload as a row of 2.18's lists: its own names for what the envelope of one workload calls otherwise.

Called by the routes of lists. Holds: enumerations are answered in 2.18's words alone; what those words cannot say is
left out and stands in additionalFields as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import msgspec
from google.protobuf.timestamp_pb2 import Timestamp

from muster.tenancy.v1.tenancy_pb2 import Department, Project
from muster.workload.v1 import workload_pb2 as wl
from muster_kernel.lifecycle import Phase
from muster_language.resources import is_preemptible, resource_requests
from muster_submission.adapters import views
from muster_submission.adapters.places import Directory
from muster_submission.domain import phases
from muster_submission.domain.fields import GPU_UNITS, KIND_WORDS, SOURCE_WORDS
from muster_submission.domain.fleet import ANY_CLUSTER, cluster_uuid
from muster_submission.domain.others import Other, filled

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
_CATEGORIES: Final = {1: "Build", 2: "Train", 3: "Train", 4: "Deploy"}
"""What a kind of workload is for, in the words of clients after 2.18."""
_KINDS: Final = {number: word for word, number in KIND_WORDS.items()}
_K8S: Final = {
    **dict.fromkeys((Phase.CREATING, Phase.PENDING, Phase.INITIALIZING, Phase.RESUMING), "Pending"),
    **dict.fromkeys((Phase.RUNNING, Phase.DEGRADED, Phase.UPDATING, Phase.TERMINATING, Phase.STOPPING), "Running"),
    Phase.COMPLETED: "Succeeded",
    Phase.FAILED: "Failed",
    Phase.STOPPED: "Suspended",
}
_LEAVING: Final = frozenset({Phase.DELETED, Phase.DELETING})
_NOTHING: Final = wl.Workload()
_NO_PROJECT: Final = Project()
_NO_DEPARTMENT: Final = Department()
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
class Lasting:
    """What of a row stays until its spec or its verdict changes: written once, and kept as it is sent."""

    json: bytes
    """The members, without the braces around them."""
    asked_cluster: str
    additional: Mapping[str, Any]
    cpu: float
    memory: str
    said: str
    """What policy said against it."""


def lasting_of(row: Any) -> Lasting:
    """The lasting part, from a row with the columns of row_reading.LASTING."""
    spec = wl.WorkloadSpec.FromString(row["spec"] if row["effective_spec"] is None else row["effective_spec"])
    requests = requests_of(spec)
    framework = _FRAMEWORKS.get(spec.framework, "")
    told = {
        "id": row["id"],
        "name": row["name"],
        "type": _KINDS.get(row["kind"], "Training"),
        "source": SOURCE_WORDS.get(row["origin"], "Other"),
        "submittedBy": wl.Owner.FromString(row["owner"]).subject,
        "priorityClassName": priority(spec),
        # What clients after 2.18 read instead, and with it.
        "priority": priority(spec),
        "category": _CATEGORIES.get(row["kind"], "Train"),
        "preemptible": is_preemptible(spec),
        "createdAt": time(row["created_at"]),
        "requestedPods": _requested_pods(spec, requests),
        "requestedNodePools": list(spec.node_pools.values),
        "workloadRequestedResources": resources(requests[-1:]),
        "podsRequestedResources": resources(requests, every=True),
        "images": list(dict.fromkeys(image for image in (spec.image, spec.master_spec.image) if image)),
        "childrenIds": [],
        "datasources": [],
        "environments": [],
        "distributedFramework": framework,
    }
    return Lasting(
        msgspec.json.encode(told)[1:-1],
        row["asked_cluster"],
        _additional(spec, row["caused_by"], framework),
        sum(one.cpu_milli * one.count for one in requests) / 1000,
        str(sum(one.memory_bytes * one.count for one in requests)),
        "; ".join(json.loads(row["issues"])),
    )


@dataclass(frozen=True, slots=True)
class Rows:
    """Writes rows for one answer. tenant_id: the integer that 2.18 calls this installation by."""

    tenant_id: int
    directory: Directory
    scope: frozenset[str] | None = frozenset()
    """The projects whose workloads the caller may read, and so be told of by name; None: all."""

    def row(self, row: Any, lasting: Lasting) -> bytes:
        """One workload as JSON. row: the columns of row_reading.MOVING."""
        moved = time(row["moved_at"])
        known = phases.phase(row["phase"]) or Phase.UNKNOWN
        status = _NOTHING if row["status"] is None else wl.Workload.FromString(row["status"])
        urls = list(status.endpoints)
        told = {
            **self.place(row["project"], row["cluster"] or lasting.asked_cluster),
            "tenantId": self.tenant_id,
            "updatedAt": moved,
            "phaseUpdatedAt": moved,
            "k8sPhaseUpdatedAt": moved,
            "deletedAt": None if row["deleted_at"] is None else time(row["deleted_at"]),
            "completedAt": None if row["finished_at"] is None else time(row["finished_at"]),
            "phase": phase_word(row["last_phase"]),
            "phaseMessage": self.said(row["reason_message"], views.other(row)) or lasting.said,
            "k8sPhase": _K8S.get(known, "Unknown"),
            "conditions": [_condition(one) for one in status.conditions],
            "actionsSupport": {"delete": known not in _LEAVING, "suspend": known not in _STOPPABLE},
            "runningPods": sum(one.state == "READY" for one in status.replicas),
            "currentNodePools": [row["node_pool"]] if row["node_pool"] else [],
            "allocatedResources": _allocated(row["gpus"], lasting, held=bool(row["gpus"] or status.replicas)),
            "urls": urls,
            "externalConnections": [_connection(url) for url in urls],
            "additionalFields": {
                **lasting.additional,
                "generation": row["generation"],
                "attempt": row["attempt"],
                **({"reason": row["reason_code"]} if row["reason_code"] else {}),
                **_trials(status),
            },
        }
        return b"{" + lasting.json + b"," + msgspec.json.encode(told)[1:]

    def said(self, text: str, other: Other | None) -> str:
        """A stored text for the caller."""
        return filled(text, other, self.scope)

    def place(self, project: str, cluster: str) -> dict[str, str]:
        """Where something belongs: project, department, and the cluster of that name, else the project's own."""
        known = self.directory.projects.get(project, _NO_PROJECT)
        department = self.directory.departments.get(known.department, _NO_DEPARTMENT)
        return {
            "projectName": project,
            "projectId": str(known.id),
            "departmentName": department.name,
            "departmentId": str(department.id),
            "namespace": known.namespace,
            "clusterId": cluster_of(cluster or known.home_cluster),
        }


@lru_cache(maxsize=1000)
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


def _allocated(gpus: int, lasting: Lasting, *, held: bool) -> dict[str, Any]:
    if not held:
        return {"gpu": 0, "cpu": 0, "cpuMemory": "0"}
    return {"gpu": gpus / GPU_UNITS, "cpu": lasting.cpu, "cpuMemory": lasting.memory}


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


def _trials(status: wl.Workload) -> dict[str, Any]:
    """How far a series of trials is; nothing for every other workload."""
    if not status.HasField("trials"):
        return {}
    told = status.trials
    return {"trials": {"done": told.done, "completions": told.total, "parallelism": told.at_once}}


def _condition(one: wl.Condition) -> dict[str, Any]:
    told = {
        "type": one.type,
        "status": "True" if one.status else "False",
        "message": one.reason.message,
        "reason": one.reason.code,
    }
    return told | ({"lastTransitionTime": time(one.since)} if one.HasField("since") else {})


def _connection(url: str) -> dict[str, Any]:
    return {"name": url, "toolType": "custom", "connectionType": "ExternalUrl", "url": url}


def _additional(spec: wl.WorkloadSpec, caused_by: str, framework: str) -> dict[str, Any]:
    """What 2.18's words cannot say."""
    told: dict[str, Any] = {}
    if caused_by:
        told["causedBy"] = caused_by
    if spec.framework and not framework:
        told["distributedFramework"] = wl.Framework.Name(spec.framework).removeprefix("FRAMEWORK_")
    if spec.mig_profile and spec.mig_profile not in MIG_PROFILES:
        told["migProfile"] = spec.mig_profile
    return told
