"""The vendor's models as judges of our answers: the SDK never checks an answer itself, so the tests do.

`judge("get_projects", body)` validates an answer against the model of that operation, with its paths, enumerations and
types, and against what the API requires although the models drop it.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from pydantic import TypeAdapter

MODELS: Final[Mapping[str, str]] = {
    "create_project": "GetProjects200ResponseProjectsInner",
    "get_project": "GetProjects200ResponseProjectsInner",
    "update_project": "GetProjects200ResponseProjectsInner",
    "update_project_resources": "GetProjects200ResponseProjectsInner",
    "patch_project_resources": "GetProjects200ResponseProjectsInner",
    "get_projects": "GetProjects200Response",
    "create_department": "GetDepartments200ResponseDepartmentsInner",
    "get_department": "GetDepartments200ResponseDepartmentsInner",
    "update_department": "GetDepartments200ResponseDepartmentsInner",
    "update_department_resources": "GetDepartments200ResponseDepartmentsInner",
    "patch_department_resources": "GetDepartments200ResponseDepartmentsInner",
    "get_departments": "GetDepartments200Response",
    "get_clusters": "[DisplayedCluster]",
    "create_cluster": "DisplayedCluster",
    "get_cluster": "DisplayedCluster",
    "get_nodes": "Nodes",
    "get_cluster_metrics": "MetricsResponse",
    "get_pool_metrics": "MetricsResponse",
    "get_node_telemetry": "TelemetryResponse",
    "get_node_pools": "[NodePool1]",
    "create_node_pool": "NodePool1",
    "create_token": "TokenResponse",
    "get_access_rules": "GetAccessRules200Response",
    "count_access_rules": "CountAccessRules200Response",
    "create_access_rule": "AccessRule",
    "get_access_rule": "AccessRuleById",
    "get_roles": "[Role1]",
    "get_role": "Role1",
    "get_permissions": "[Permission]",
    "get_applications": "[Application]",
    "get_application": "Application",
    "update_application": "Application",
    "create_application": "ApplicationPostResponse",
    "regenerate_application_secret": "RegenerateApplicationSecret200Response",
    "get_audit": "[AuditLogRecord]",
    "create_workspace": "Workspace1",
    "get_workspace": "Workspace1",
    "create_training": "Training1",
    "get_training": "Training1",
    "create_distributed": "DistributedWorkload",
    "get_distributed": "DistributedWorkload",
    "create_inference": "Inference1",
    "get_inference": "Inference1",
    "get_workloads": "GetWorkloads200Response",
    "get_workload": "Workload",
    "count_workloads": "CountAccessRules200Response",
    "get_workload_events": "GetWorkloadEvents200Response",
    "get_workload_history": "GetWorkloadHistory200Response",
    "get_workload_pods": "ListPods200Response",
    "list_pods": "ListPods200Response",
    "count_pods": "CountAccessRules200Response",
    "get_workload_metrics": "MetricsResponse",
    "get_workloads_telemetry": "TelemetryResponse",
    "submission_error": "SubmissionError",
    "error": "Error",
}
"""The model of each operation's success, in brackets where it answers a list; `error` of every refusal."""
_SDK: Final[Any] = import_module("runai.models")


def judge(operation: str, body: Any) -> Any:
    """The answer as the model has it. Raises pydantic's ValidationError."""
    name = MODELS[operation]
    if name.startswith("["):
        return [TypeAdapter(_model(name)).validate_python(one) for one in body]
    return TypeAdapter(_model(name)).validate_python(body)


def members(operation: str) -> frozenset[str]:
    """The members of an object answer, as they are called on the wire."""
    return frozenset(field.alias or name for name, field in _model(MODELS[operation]).model_fields.items())


def _model(name: str) -> Any:
    return getattr(_SDK, name.strip("[]"))
