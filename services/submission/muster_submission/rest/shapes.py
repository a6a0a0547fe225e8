"""The shapes of workloads in the OpenAPI document, made from the catalogue: what creates take and what answers hold."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from muster_kernel.ids import NAME_LIMIT
from muster_language import Kind
from muster_language.rest.openapi import spec_schema
from muster_submission.domain.phases import DESIRED, PHASES
from muster_submission.rest.operation import ERROR, Shape

_TEXT: Final = {"type": "string"}
_ID: Final = {"type": "string", "format": "uuid"}
ACCEPTED: Final = Shape(
    "Accepted",
    {
        "type": "object",
        "description": "It is asked for and happens later.",
        "required": ["code", "message"],
        "properties": {"code": {"type": "integer"}, "message": _TEXT},
    },
)
SUBMISSION_ERROR: Final = Shape(
    "SubmissionError",
    {
        **ERROR.schema,
        "description": "Why the workload was not made.",
        "properties": {
            **ERROR.schema["properties"],
            "complianceIssues": {
                "type": "array",
                "description": "What policy has against it.",
                "items": {
                    "type": "object",
                    "required": ["field", "details"],
                    "properties": {
                        "field": {"type": "string", "description": "The path of the field."},
                        "details": {"type": "string", "description": "What is not allowed there."},
                    },
                },
            },
        },
    },
)
_MASTER_SAME: Final = {"type": "boolean", "description": "The master is like the workers; excludes masterSpec."}


@cache
def create(kind: Kind) -> Shape:
    """The body that makes a workload."""
    properties: dict[str, Any] = {
        "name": {
            "type": "string",
            "minLength": 1,
            "maxLength": NAME_LIMIT,
            "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$",
            "description": "Its name in the project, or the prefix of its name.",
        },
        "useGivenNameAsPrefix": {"type": "boolean", "default": False, "description": "Numbers are appended to name."},
        "projectId": {
            "anyOf": [{"type": "string", "minLength": 1}, {"type": "integer"}],
            "description": "The project's id, or its name.",
        },
        "clusterId": {**_ID, "description": "The cluster in which it has to run; the nil UUID means any."},
        "spec": Shape(f"{_name(kind)}Spec", {**spec_schema(kind), "description": "What to run, and with what."}),
    }
    if kind is Kind.DISTRIBUTED:
        properties["masterSpecSameAsWorker"] = _MASTER_SAME
        properties["masterSpec"] = Shape(
            "MasterSpec", {**spec_schema(kind, master=True), "description": "What the master runs, where it differs."}
        )
    schema = {
        "type": "object",
        "required": ["name", "projectId", "clusterId"],
        "additionalProperties": False,
        "properties": properties,
    }
    return Shape(f"{_name(kind)}CreationRequest", schema)


@cache
def workload(kind: Kind) -> Shape:
    """One workload as answers have it."""
    properties: dict[str, Any] = {
        "name": {"type": "string", "description": "Its name; with a prefix, the generated one."},
        "requestedName": {"type": "string", "description": "What was asked for."},
        "workloadId": {**_ID, "description": "Its id."},
        "projectId": {"type": "string", "description": "The id of its project."},
        "departmentId": {"type": "string", "description": "The id of its department."},
        "clusterId": {**_ID, "description": "Where it is placed, else the cluster asked for, else the project's."},
        "createdBy": {"type": "string", "description": "Who made it."},
        "createdAt": {"type": "string", "format": "date-time", "description": "When it was made."},
        "desiredPhase": {"enum": [str(one) for one in DESIRED], "description": "What it is meant to be."},
        "actualPhase": {"enum": [str(one) for one in PHASES], "description": "What it is."},
        "spec": {**spec_schema(kind, answer=True), "description": "The effective specification."},
        "additionalFields": {
            "type": "object",
            "description": "Values of the specification for which 2.18 has no word, by their paths.",
            "x-muster-since": "muster",
        },
        "warnings": {
            "type": "array",
            "items": _TEXT,
            "description": "What of the body was ignored, and why.",
            "x-muster-since": "muster",
        },
    }
    if kind is Kind.DISTRIBUTED:
        properties["masterSpecSameAsWorker"] = _MASTER_SAME
        properties["masterSpec"] = {**spec_schema(kind, master=True, answer=True), "description": "The master's."}
    optional = {"departmentId", "additionalFields", "warnings", "masterSpec", "masterSpecSameAsWorker"}
    needed = [name for name in properties if name not in optional]
    return Shape(f"{_name(kind)}Workload", {"type": "object", "required": needed, "properties": properties})


def _name(kind: Kind) -> str:
    return kind.word.capitalize()
