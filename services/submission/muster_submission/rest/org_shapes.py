"""JSON schemas of projects, departments and their quotas, as the document shows them.

Called by their routes. Members that Muster adds to the 2.18 API are described as such.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from muster_submission.domain.tenancy import LONGEST_RULE
from muster_submission.rest.operation import Shape, array_of, record
from muster_submission.rest.org_units import RULES

_NUMBER: Final = {"type": "number", "minimum": 0}
_NO_LIMIT: Final = {"type": ["number", "null"], "minimum": -1}
_TIME: Final = {"type": "string", "format": "date-time"}
_TEXT: Final = {"type": "string"}
_UUID: Final = {"type": "string", "format": "uuid"}


def _share(name: str, required: Sequence[str], said: str, **more: Any) -> Shape:
    deserved = _NUMBER if "deserved" in required else {"type": ["number", "null"], "minimum": -1}
    weight = {"type": ["number", "null"], "minimum": 0, "maximum": 1000}
    return record(name, required, said, deserved=deserved, limit=_NO_LIMIT, overQuotaWeight=weight, **more)


GPU: Final = _share("GpuQuota", ["deserved"], "GPUs, decimal; a limit of null or -1 is none.")
CPU: Final = _share("CpuQuota", [], "Millicores; null: not counted.")
MEMORY: Final = _share(
    "MemoryQuota", ["units"], "Memory; null: not counted.", units={"type": "string", "enum": ["Mib", "MB", "GB"]}
)
POOL_NAME: Final = record(
    "PoolReference",
    [],
    "A node pool; none: the pool default. A quota is the same in all clusters.",
    id=_TEXT,
    name=_TEXT,
)
QUOTA: Final = record(
    "PoolResources", ["gpu"], "A quota in one node pool.", nodePool=POOL_NAME, gpu=GPU, cpu=CPU, memory=MEMORY
)
QUOTA_CHANGE: Final = record(
    "PoolResourcesChange",
    [],
    "What changes of a quota in one node pool.",
    nodePool=POOL_NAME,
    gpu=Shape("GpuQuotaChange", {**GPU.schema, "required": []}),
    cpu=CPU,
    memory=MEMORY,
)
_SECONDS: Final = {"type": ["integer", "null"], "minimum": 1, "maximum": LONGEST_RULE}
RULES_SHAPE: Final = record("SchedulingRules", [], "Limits of runs, in seconds.", **dict.fromkeys(RULES, _SECONDS))
TYPES: Final = record(
    "NodeTypes", [], "Values of the node label run.ai/type.", training=array_of(_TEXT), workspace=array_of(_TEXT)
)
_AMOUNT: Final = record(
    "QuotaAmount",
    [],
    "GPUs, millicores and MB.",
    gpu={"type": "number"},
    cpu={"type": "number"},
    memory={"type": "number"},
)
_SUMS: Final = {"allocated": _AMOUNT, "allocatedNonPreemptible": _AMOUNT, "requested": _AMOUNT}
_STATUS: Final = {
    "phase": _TEXT,
    "nodePoolQuotaStatuses": array_of(
        record("PoolQuotaStatus", [], "What is in use in one pool.", nodePoolId=_TEXT, nodePoolName=_TEXT, **_SUMS)
    ),
    "quotaStatus": record("QuotaStatus", [], "What is in use in all.", **_SUMS),
}
_PARENT: Final = record("ParentDepartment", [], "The department.", id=_TEXT, name=_TEXT)
_UNIT: Final = {
    "id": _TEXT,
    "name": _TEXT,
    "description": _TEXT,
    "clusterId": _UUID,
    "resources": array_of(QUOTA),
    "schedulingRules": RULES_SHAPE,
    "nodeTypes": TYPES,
    "createdAt": _TIME,
    "updatedAt": _TIME,
    "createdBy": _TEXT,
    "updatedBy": _TEXT,
}
_ALWAYS: Final = ["id", "name", "clusterId", "resources", "status", "createdAt", "updatedAt"]
PROJECT: Final = record(
    "Project",
    _ALWAYS,
    "A project: the queue into which workloads go.",
    **_UNIT,
    defaultNodePools=array_of(_TEXT),
    requestedNamespace=_TEXT,
    parentId=_TEXT,
    parent=_PARENT,
    status=record(
        "ProjectStatus",
        [],
        "How it is.",
        namespace=_TEXT,
        phaseMessage=_TEXT,
        additionalStatusData={"type": "object"},
        **_STATUS,
    ),
)
DEPARTMENT: Final = record(
    "Department",
    _ALWAYS,
    "A department over projects.",
    **_UNIT,
    status=record("DepartmentStatus", [], "How it is.", **_STATUS),
)
_DESCRIPTION: Final = {"type": ["string", "null"], "maxLength": 1000}
_CHANGEABLE: Final = {
    "description": _DESCRIPTION,
    "schedulingRules": {"anyOf": [RULES_SHAPE, {"type": "null"}]},
    "nodeTypes": {"anyOf": [TYPES, {"type": "null"}]},
    "resources": array_of(QUOTA),
}
_POOLS: Final = {"type": ["array", "null"], "items": _TEXT}
_NAME: Final = {"type": "string", "minLength": 1, "maxLength": 63}
_OPTIONAL: Final = {"type": ["string", "null"]}
PROJECT_CREATION: Final = record(
    "ProjectCreation",
    ["name", "clusterId", "resources"],
    "A project to make.",
    name=_NAME,
    clusterId=_UUID,
    parentId=_OPTIONAL,
    requestedNamespace=_OPTIONAL,
    defaultNodePools=_POOLS,
    **_CHANGEABLE,
)
PROJECT_UPDATE: Final = record(
    "ProjectUpdate", ["resources"], "A project as it should be.", defaultNodePools=_POOLS, **_CHANGEABLE
)
DEPARTMENT_CREATION: Final = record(
    "DepartmentCreation",
    ["name", "clusterId", "resources"],
    "A department to make.",
    name=_NAME,
    clusterId=_UUID,
    **_CHANGEABLE,
)
DEPARTMENT_UPDATE: Final = record("DepartmentUpdate", ["resources"], "A department as it should be.", **_CHANGEABLE)
COUNT: Final = record("HowMany", ["count"], "How many there are.", count={"type": "integer", "minimum": 0})


def page_of(name: str, member: str, shape: Shape) -> Shape:
    """A page of a list: the rows, and the offset of the next page where there is one."""
    following = {"type": "integer", "description": "The offset of the next page; missing on the last."}
    return record(name, [member], "A page.", **{member: array_of(shape), "next": following})
