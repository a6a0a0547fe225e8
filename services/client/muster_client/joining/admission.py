"""The admission policies that keep an agent's writes inside the namespaces of its projects.

RBAC cannot select namespaces by label, so an agent that makes namespaces has its rights in all of them. It cannot grant
one label of a node either. The API server itself denies what is outside (ValidatingAdmissionPolicy, Kubernetes 1.30).
"""

from __future__ import annotations

from typing import Any

from muster_client.joining.values import Installation, manifest
from muster_kernel.cluster_labels import CLUSTER, MANAGED_BY, MANAGER, PROJECT

MIG_LABELS = ("nvidia.com/mig.config", "nvidia.com/mig.config.state")
"""The labels of a node that a mig-manager follows and answers in; the agent sets the one and removes the other."""
_API = "admissionregistration.k8s.io/v1"
_IS_NODE = "request.resource.group == '' && request.resource.resource == 'nodes'"
_LISTS = ("metadata.finalizers", "metadata.ownerReferences")
_KEPT = ("metadata.annotations", *_LISTS, "spec")


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
            {"name": "no-node", "expression": f"!({_IS_NODE})"},  # nodes have a policy of their own
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
    return [*_bound(installation, name, spec), *_bound(installation, f"{name}-nodes", _of_nodes(installation))]


def _bound(installation: Installation, name: str, spec: dict[str, Any]) -> list[dict[str, Any]]:
    binding = {"policyName": name, "validationActions": ["Deny"]}
    return [
        manifest(installation, _API, "ValidatingAdmissionPolicy", name, spec=spec),
        manifest(installation, _API, "ValidatingAdmissionPolicyBinding", name, spec=binding),
    ]


def _of_nodes(installation: Installation) -> dict[str, Any]:
    """The agent changes two labels of nodes, by which a mig-manager is asked for a layout, and nothing else of them."""
    rule = {"apiGroups": [""], "apiVersions": ["*"], "operations": ["*"], "resources": ["nodes", "nodes/*"]}
    asked = "[" + ", ".join(_text(label) for label in MIG_LABELS) + "]"
    same = " && ".join(f"({_given('object', field)}) == ({_given('oldObject', field)})" for field in _KEPT)
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [
            {"name": "by-the-agent", "expression": f"request.userInfo.username == {_text(installation.user)}"}
        ],
        "variables": [
            {"name": "before", "expression": _given("oldObject", "metadata.labels")},
            {"name": "after", "expression": _given("object", "metadata.labels")},
        ],
        "validations": [
            {
                "expression": "request.operation == 'UPDATE' && !has(request.subResource) "
                f"&& variables.after.all(key, key in {asked} "
                "|| (key in variables.before && variables.before[key] == variables.after[key])) "
                f"&& variables.before.all(key, key in {asked} || key in variables.after) && {same}",
                "message": f"an agent of Muster changes only the labels {' and '.join(MIG_LABELS)} of a node",
                "reason": "Forbidden",
            }
        ],
    }


def _given(of: str, field: str) -> str:
    """A map or list of an object that may be missing there."""
    empty = "[]" if field in _LISTS else "{}"
    return f"has({of}.{field}) ? {of}.{field} : {empty}"


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
