"""Bodies of projects and departments in 2.18, both ways: what is sent becomes the messages of the gRPC API, and back.

Called by routes/projects.py and routes/departments.py. Pure: names, ids and amounts in use come in as arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp

from muster.fleet.v1.fleet_pb2 import Account, Amount
from muster.tenancy.v1.tenancy_pb2 import Department, NodeTypes, Project, SchedulingRules
from muster_submission.domain.fleet import ANY_CLUSTER, cluster_uuid
from muster_submission.domain.tenancy import LONGEST_RULE
from muster_submission.rest import amounts, quotas
from muster_submission.rest.members import Findings, join
from muster_submission.rest.quotas import Pools

RULES: Final = {
    "interactiveJobTimeLimitSeconds": "interactive_time_limit_seconds",
    "interactiveJobMaxIdleDurationSeconds": "interactive_idle_limit_seconds",
    "interactiveJobPreemptIdleDurationSeconds": "interactive_preemptible_idle_limit_seconds",
    "trainingJobMaxIdleDurationSeconds": "training_idle_limit_seconds",
    "trainingJobTimeLimitSeconds": "training_time_limit_seconds",
}
UPDATABLE: Final = ("description", "schedulingRules", "defaultNodePools", "nodeTypes", "resources")
READY: Final = "Ready"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the answer about a project or department takes from elsewhere. accounts: of the projects in it."""

    pools: Pools
    accounts: Iterable[Account] = ()


def read_project(body: Mapping[str, Any], pools: Pools, found: Findings) -> Project:
    """What can change of a project."""
    return Project(
        description=found.text(body.get("description"), "description"),
        quotas=quotas.read(body.get("resources"), "resources", pools, found),
        rules=_read_rules(body.get("schedulingRules"), found),
        default_node_pools=found.texts(body.get("defaultNodePools"), "defaultNodePools"),
        node_types=_read_types(body.get("nodeTypes"), found),
    )


def read_department(body: Mapping[str, Any], pools: Pools, found: Findings) -> Department:
    """What can change of a department."""
    return Department(
        description=found.text(body.get("description"), "description"),
        quotas=quotas.read(body.get("resources"), "resources", pools, found),
        rules=_read_rules(body.get("schedulingRules"), found),
        node_types=_read_types(body.get("nodeTypes"), found),
    )


def write_project(project: Project, department: Department | None, around: Surroundings) -> dict[str, Any]:
    """A project as 2.18 shows it."""
    status = {
        "namespace": project.namespace,
        "phase": READY,
        "phaseMessage": "",
        **_quota_status(around),
        "additionalStatusData": {},
    }
    shown = {
        "schedulingRules": _write_rules(project.rules),
        "defaultNodePools": list(project.default_node_pools),
        "nodeTypes": _write_types(project.node_types),
        "requestedNamespace": project.namespace,
        "status": status,
    }
    if department is not None:
        shown["parentId"] = str(department.id)
        shown["parent"] = {"id": str(department.id), "name": department.name}
    return {**_common(project, around), **shown}


def write_department(department: Department, around: Surroundings) -> dict[str, Any]:
    """A department as 2.18 shows it."""
    return {
        **_common(department, around),
        "schedulingRules": _write_rules(department.rules),
        "nodeTypes": _write_types(department.node_types),
        "status": {"phase": READY, **_quota_status(around)},
    }


def shown_cluster(name: str) -> str:
    """The id of a home cluster; the one that means any where there is none."""
    return cluster_uuid(name) if name else ANY_CLUSTER


def moment(stamp: Timestamp) -> str:
    """A time as the API writes it."""
    return stamp.ToJsonString()


def _common(unit: Project | Department, around: Surroundings) -> dict[str, Any]:
    return {
        "id": str(unit.id),
        "name": unit.name,
        "description": unit.description,
        "clusterId": shown_cluster(unit.home_cluster),
        "resources": quotas.write(unit.quotas, around.pools),
        "createdAt": moment(unit.created_at),
        "updatedAt": moment(unit.updated_at),
        "createdBy": unit.created_by,
        "updatedBy": unit.updated_by,
    }


def _read_rules(value: Any, found: Findings) -> SchedulingRules | None:
    if value is None:
        return None
    rules = SchedulingRules()
    for name, given in found.object(value, "schedulingRules", RULES).items():
        seconds = found.integer(given, join("schedulingRules", name), 1, LONGEST_RULE)
        if seconds is not None:
            setattr(rules, RULES[name], seconds)
    return rules


def _write_rules(rules: SchedulingRules) -> dict[str, Any]:
    fields = {name: field for name, field in RULES.items() if rules.HasField(field)}  # type: ignore[arg-type]
    return {name: getattr(rules, field) for name, field in fields.items()}


def _read_types(value: Any, found: Findings) -> NodeTypes | None:
    if value is None:
        return None
    given = found.object(value, "nodeTypes", ("training", "workspace"))
    return NodeTypes(
        training=found.texts(given.get("training"), "nodeTypes.training"),
        workspace=found.texts(given.get("workspace"), "nodeTypes.workspace"),
    )


def _write_types(types: NodeTypes) -> dict[str, Any]:
    return {"training": list(types.training), "workspace": list(types.workspace)}


def _quota_status(around: Surroundings) -> dict[str, Any]:
    """What is held and asked for, by node pool and in all."""
    by_pool: dict[str, list[Account]] = {}
    for account in around.accounts:
        by_pool.setdefault(account.node_pool, []).append(account)
    return {
        "nodePoolQuotaStatuses": [
            {"nodePoolName": name, "nodePoolId": around.pools.id_of(name), **_sums(held)}
            for name, held in sorted(by_pool.items())
        ],
        "quotaStatus": _sums([account for held in by_pool.values() for account in held]),
    }


def _sums(held: list[Account]) -> dict[str, Any]:
    return {
        "allocated": _amount([one.allocated for one in held]),
        "allocatedNonPreemptible": _amount([one.allocated_non_preemptible for one in held]),
        "requested": _amount([one.requested for one in held]),
    }


def _amount(parts: list[Amount]) -> dict[str, float | int]:
    memory = sum(part.memory_bytes for part in parts)
    return {
        "gpu": amounts.gpus(sum(part.gpu for part in parts)),
        "cpu": sum(part.cpu_milli for part in parts),
        "memory": round(memory / amounts.MEGABYTE, 3),
    }
