"""The objects of an agent's installation, in the order in which they can be applied."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from muster_client.joining.admission import admission
from muster_client.joining.deployment import deployment
from muster_client.joining.values import Installation, manifest
from muster_kernel.agent_rights import ACCOUNT, Right, Scope, priority_class, rights

CONFIG: Final = "muster-agent-config"
SECRET: Final = "muster-agent-credentials"  # noqa: S105 - the name of an object
_RBAC: Final = "rbac.authorization.k8s.io/v1"
_GROUP: Final = "rbac.authorization.k8s.io"


def objects_of(installation: Installation) -> list[dict[str, Any]]:
    """All objects; without the Secret where there are no credentials to show."""
    namespace = installation.namespace
    return [
        manifest(installation, "v1", "Namespace", namespace),
        manifest(installation, "v1", "ServiceAccount", ACCOUNT, namespace=namespace),
        *_rights(installation),
        *admission(installation),
        _priority(installation),
        *_files(installation),
        *(deployment(installation, CONFIG, SECRET) if installation.image else []),
    ]


def _rights(installation: Installation) -> Iterable[dict[str, Any]]:
    """What the agent may do: in the cluster, in its own namespace, and in namespaces of projects.

    Namespaces that the agent makes are not known beforehand, so its rights there hold everywhere; the admission policy
    keeps its writes inside.
    """
    managed = installation.managed
    reading, projects = installation.cluster_wide_name, f"{installation.cluster_wide_name}-projects"
    yield _role(installation, reading, rights(Scope.CLUSTER, managed=managed, mig_manager=installation.mig_manager))
    yield _binding(installation, reading, reading)
    yield _role(installation, projects, rights(Scope.PROJECTS, managed=managed))
    # Without a subject where namespaces are listed: it ends what an earlier installation has bound everywhere.
    yield _binding(installation, projects, projects, bound_to_agent=managed)
    for namespace in installation.projects:
        yield _binding(installation, ACCOUNT, projects, namespace=namespace)
    own = rights(Scope.OWN, managed=managed)
    yield _role(installation, ACCOUNT, own, namespace=installation.namespace)
    yield _binding(installation, ACCOUNT, ACCOUNT, namespace=installation.namespace, role="Role")


def _role(installation: Installation, name: str, found: Iterable[Right], *, namespace: str = "") -> dict[str, Any]:
    kind = "Role" if namespace else "ClusterRole"
    rules = [{"apiGroups": [one.group], "resources": [*one.resources], "verbs": [*one.verbs]} for one in found]
    return manifest(installation, _RBAC, kind, name, namespace=namespace, rules=rules)


def _binding(
    installation: Installation,
    name: str,
    bound: str,
    *,
    namespace: str = "",
    role: str = "ClusterRole",
    bound_to_agent: bool = True,
) -> dict[str, Any]:
    return manifest(
        installation,
        _RBAC,
        "RoleBinding" if namespace else "ClusterRoleBinding",
        name,
        namespace=namespace,
        roleRef={"apiGroup": _GROUP, "kind": role, "name": bound},
        subjects=[{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": installation.namespace}]
        if bound_to_agent
        else [],
    )


def _priority(installation: Installation) -> dict[str, Any]:
    """The class of the pods. They preempt nothing: which workload gives way is decided by Muster."""
    return manifest(
        installation,
        "scheduling.k8s.io/v1",
        "PriorityClass",
        priority_class(installation.cluster),
        value=0,
        preemptionPolicy="Never",
        description="Pods of Muster, which decides by itself which workload gives way to which.",
    )


def _files(installation: Installation) -> Iterable[dict[str, Any]]:
    """What the agent reads: its cluster file and whom it trusts; and its credentials."""
    bus, namespace = installation.bus, installation.namespace
    data = {"cluster.yaml": installation.cluster_file, "trust.json": installation.trust}
    authorities = {"kafka-ca.pem": bus.ca, "submission-ca.pem": installation.submission_ca}
    data |= {name: text for name, text in authorities.items() if text}
    yield manifest(installation, "v1", "ConfigMap", CONFIG, namespace=namespace, data=data)
    if installation.application is not None:
        identifier, secret = installation.application
        content = {"application.json": json.dumps({"id": identifier, "secret": secret})}
        if bus.password:
            content["kafka-password"] = bus.password
        yield manifest(installation, "v1", "Secret", SECRET, namespace=namespace, type="Opaque", stringData=content)
