"""The admission policy that keeps an agent's writes inside the namespaces of its projects.

RBAC cannot select namespaces by label, so an agent that makes namespaces has its rights in all of them. The API server
itself denies what is outside (ValidatingAdmissionPolicy, Kubernetes 1.30).
"""

from __future__ import annotations

from typing import Any

from muster_client.joining.values import Installation, manifest
from muster_kernel.cluster_labels import CLUSTER, MANAGED_BY, MANAGER, PROJECT

_API = "admissionregistration.k8s.io/v1"


def admission(installation: Installation) -> list[dict[str, Any]]:
    """The policy and its binding. They name no namespace, so that they hold for those that come later."""
    name = installation.cluster_wide_name
    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [everything]},
        "matchConditions": [
            {"name": "by-the-agent", "expression": f"request.userInfo.username == {_text(installation.user)}"},
            {
                "name": "outside-its-own-namespace",
                "expression": f"!has(request.namespace) || request.namespace != {_text(installation.namespace)}",
            },
            # The agent asks what it may do by creating reviews, which are no objects of any namespace.
            {"name": "no-review", "expression": "request.resource.group != 'authorization.k8s.io'"},
        ],
        "validations": [
            {
                "expression": f"request.resource.resource == 'namespaces' ? {_makes(installation.cluster)} "
                f": {_inside(installation.cluster)}",
                "message": f"an agent of Muster writes only to namespaces that have the label {PROJECT} and "
                "belong to no other cluster of Muster",
                "reason": "Forbidden",
            }
        ],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    return [
        manifest(installation, _API, "ValidatingAdmissionPolicy", name, spec=spec),
        manifest(installation, _API, "ValidatingAdmissionPolicyBinding", name, spec=binding),
    ]


def _makes(cluster: str) -> str:
    """Whether the request makes a namespace of a project; the agent changes none."""
    labels = "object.metadata.labels"
    return (
        f"(request.operation == 'CREATE' && has({labels}) && '{PROJECT}' in {labels} "
        f"&& '{MANAGED_BY}' in {labels} && {labels}['{MANAGED_BY}'] == '{MANAGER}' "
        f"&& '{CLUSTER}' in {labels} && {labels}['{CLUSTER}'] == {_text(cluster)})"
    )


def _inside(cluster: str) -> str:
    """Whether the object belongs into a namespace of a project."""
    labels = "namespaceObject.metadata.labels"
    return (
        f"(namespaceObject != null && has({labels}) && '{PROJECT}' in {labels} "
        f"&& (!('{CLUSTER}' in {labels}) || {labels}['{CLUSTER}'] == {_text(cluster)}))"
    )


def _text(value: str) -> str:
    """A text in CEL. The values are names of the API and ids of clusters, which have neither quotes nor backslashes."""
    return f"'{value}'"
