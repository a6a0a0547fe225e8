"""What the answers about workloads look like, as JSON schemas: rows, pods, events, records, counts, measurements.

Read by the routes of lists, and from there by the OpenAPI document. The names are those of the 2.18 API.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from muster_submission.domain.fields import KIND_WORDS, PHASE_WORDS, SOURCE_WORDS
from muster_submission.rest.operation import Shape

_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_WHOLE: Final = {"type": "integer"}
_TRUTH: Final = {"type": "boolean"}
_NUMBER: Final = {"type": "number"}
_TIME: Final = {"type": "string", "format": "date-time"}
_TIME_OR_NULL: Final = {"type": ["string", "null"], "format": "date-time"}
_OBJECT: Final = {"type": "object", "additionalProperties": True}
_PHASE: Final = {"type": "string", "enum": list(PHASE_WORDS)}


def _object(**members: Any) -> Mapping[str, Any]:
    return {"type": "object", "required": sorted(members), "properties": members}


REQUESTED: Final = Shape(
    "RequestedResources",
    {
        "type": "object",
        "description": "What is asked for: GPUs and CPU cores as numbers, memory in bytes.",
        "properties": {
            "gpuRequestType": {"type": "string", "enum": ["portion", "memory", "migProfile"]},
            "gpu": {"type": "object", "properties": {"request": _NUMBER, "limit": _NUMBER}},
            "gpuMemory": {"type": "object", "properties": {"request": _TEXT, "limit": _TEXT}},
            "cpu": {"type": "object", "properties": {"request": _NUMBER, "limit": _NUMBER}},
            "cpuMemory": {"type": "object", "properties": {"request": _TEXT, "limit": _TEXT}},
            "migProfile": {"type": ["array", "string"], "items": _TEXT},
        },
    },
)
ROW: Final = Shape(
    "WorkloadRow",
    {
        **_object(
            tenantId=_WHOLE,
            id={"type": "string", "format": "uuid"},
            name=_TEXT,
            type={"type": "string", "enum": list(KIND_WORDS)},
            source={"type": "string", "enum": sorted(set(SOURCE_WORDS.values()))},
            submittedBy=_TEXT,
            priorityClassName=_TEXT,
            priority=_TEXT,
            category={"type": "string", "enum": ["Build", "Train", "Deploy"]},
            preemptible=_TRUTH,
            clusterId=_TEXT,
            projectName=_TEXT,
            projectId=_TEXT,
            departmentName=_TEXT,
            departmentId=_TEXT,
            namespace=_TEXT,
            createdAt=_TIME,
            updatedAt=_TIME,
            phaseUpdatedAt=_TIME,
            k8sPhaseUpdatedAt=_TIME,
            deletedAt=_TIME_OR_NULL,
            completedAt=_TIME_OR_NULL,
            phase=_PHASE,
            phaseMessage=_TEXT,
            k8sPhase=_TEXT,
            conditions={"type": "array", "items": _OBJECT},
            actionsSupport=_object(delete=_TRUTH, suspend=_TRUTH),
            runningPods=_WHOLE,
            requestedPods=_OBJECT,
            requestedNodePools=_TEXTS,
            currentNodePools=_TEXTS,
            workloadRequestedResources=REQUESTED,
            podsRequestedResources=REQUESTED,
            allocatedResources=_OBJECT,
            images=_TEXTS,
            childrenIds={"type": "array", "items": _OBJECT},
            urls=_TEXTS,
            datasources={"type": "array", "items": _OBJECT},
            environments={"type": "array", "items": _OBJECT},
            externalConnections={"type": "array", "items": _OBJECT},
            distributedFramework=_TEXT,
            additionalFields=_OBJECT,
        ),
        "description": "A workload as lists show it. workloadRequestedResources is for one pod, pods.. for all.",
    },
)
POD: Final = Shape(
    "WorkloadPod",
    {
        "type": "object",
        "description": "A replica of a workload.",
        "required": ["id", "name", "workloadId", "clusterId", "k8sPhase", "containers", "createdAt", "tenantId"],
        "properties": {
            "id": {"type": "string", "format": "uuid"},
            "name": _TEXT,
            "workloadId": {"type": "string", "format": "uuid"},
            "workloadName": _TEXT,
            "projectName": _TEXT,
            "clusterId": _TEXT,
            "k8sPhase": {"type": "string", "enum": ["Pending", "Running", "Succeeded", "Failed", "Unknown"]},
            "containers": {"type": "array", "items": _OBJECT},
            "createdAt": _TIME,
            "completedAt": _TIME_OR_NULL,
            "deletedAt": _TIME_OR_NULL,
            "tenantId": _WHOLE,
            "requestedResources": REQUESTED,
        },
    },
)
EVENT: Final = Shape(
    "WorkloadEvent",
    {
        "description": "Something that happened to a workload.",
        **_object(
            createdAt=_TIME,
            id=_TEXT,
            type={"type": "string", "enum": ["Normal", "Warning"]},
            clusterId=_TEXT,
            message=_TEXT,
            reason=_TEXT,
            source=_TEXT,
            involvedObject=_object(uid=_TEXT, kind=_TEXT, name=_TEXT, namespace=_TEXT),
        ),
    },
)
RECORD: Final = Shape(
    "WorkloadRecord",
    {
        "description": "A change of phase, or an event.",
        **_object(
            meta=_object(creationTimestamp=_TIME, type={"type": "string", "enum": ["Event", "PhaseUpdate"]}),
            spec={
                "type": "object",
                "properties": {"event": EVENT, "phaseUpdate": _object(phase=_PHASE, phaseMessage=_TEXT)},
            },
        ),
    },
)
_NEXT: Final = {"type": "integer", "description": "The offset of the next page; absent where this is the last."}


def page(name: str, member: str, item: Shape) -> Shape:
    """An answer of many, with where the next page begins."""
    described = {"type": "object", "description": "A page.", "required": [member]}
    return Shape(name, {**described, "properties": {member: {"type": "array", "items": item}, "next": _NEXT}})


ROWS: Final = page("WorkloadRows", "workloads", ROW)
PODS: Final = page("WorkloadPods", "pods", POD)
EVENTS: Final = page("WorkloadEvents", "events", EVENT)
RECORDS: Final = page("WorkloadRecords", "records", RECORD)
MEASUREMENTS: Final = Shape(
    "Measurements",
    {
        "description": "Samples by kind of measurement; a kind that Muster does not measure has none.",
        **_object(
            measurements={
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["type", "values"],
                    "properties": {
                        "type": _TEXT,
                        "labels": _OBJECT,
                        "values": {"type": "array", "items": _object(value=_TEXT, timestamp=_TIME)},
                    },
                },
            }
        ),
    },
)
TELEMETRY: Final = Shape(
    "Telemetry",
    {
        "description": "One number a group, as of now.",
        **_object(
            type=_TEXT,
            timestamp=_TIME,
            values={
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["value"],
                    "properties": {"value": _TEXT, "groups": {"type": "array", "items": _OBJECT, "maxItems": 2}},
                },
            },
        ),
    },
)
BATCH: Final = Shape(
    "WorkloadBatch",
    {
        "type": "object",
        "description": "One action on up to 100 workloads.",
        "required": ["action", "ids"],
        "additionalProperties": False,
        "properties": {
            "action": {"type": "string", "enum": ["delete", "suspend", "resume"]},
            "ids": {"type": "array", "items": {"type": "string", "format": "uuid"}, "minItems": 1, "maxItems": 100},
        },
    },
)
BATCHED: Final = Shape(
    "WorkloadBatchResult",
    {
        "description": "What became of each workload, in the order of the request.",
        **_object(
            results={
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["id", "code", "message"],
                    "properties": {
                        "id": _TEXT,
                        "code": {"type": "integer", "minimum": 200, "maximum": 599},
                        "message": _TEXT,
                    },
                },
            }
        ),
    },
)
