"""The rights that an agent needs in a Kubernetes cluster, and the names of what it is installed as.

One table for its three readers: `muster clusters join` grants the rights, `muster clusters check` asks the API server
for each of them, and docs/guides/kubernetes-clusters.md lists them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

ACCOUNT: Final = "muster-agent"
"""The agent's ServiceAccount, and the name of most of what it is installed with."""


class Scope(StrEnum):
    """Where a right holds."""

    CLUSTER = "the cluster"
    PROJECTS = "namespaces of projects"
    OWN = "its own namespace"


@dataclass(frozen=True, slots=True)
class Right:
    """Verbs on some resources of one API group.

    group: empty for the core group. resources: as the API names them, such as `pods/log`. managed: needed only where
    the agent makes the namespaces of projects by itself. mig_manager: needed only where the agent changes MIG layouts.
    """

    scope: Scope
    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    managed: bool = False
    mig_manager: bool = False


RIGHTS: Final = (
    Right(Scope.CLUSTER, "", ("pods", "nodes", "namespaces", "configmaps"), ("get", "list", "watch")),
    Right(Scope.CLUSTER, "", ("persistentvolumeclaims",), ("list", "watch")),
    Right(Scope.CLUSTER, "", ("namespaces",), ("create",), managed=True),
    Right(Scope.CLUSTER, "", ("nodes",), ("patch",), mig_manager=True),
    Right(Scope.CLUSTER, "scheduling.k8s.io", ("priorityclasses",), ("get",)),
    Right(Scope.CLUSTER, "node.k8s.io", ("runtimeclasses",), ("get",)),
    Right(Scope.CLUSTER, "networking.k8s.io", ("ingressclasses",), ("get",)),
    Right(Scope.CLUSTER, "networking.k8s.io", ("ingresses",), ("list",)),
    Right(Scope.CLUSTER, "storage.k8s.io", ("storageclasses",), ("list",)),
    Right(Scope.CLUSTER, "resource.k8s.io", ("resourceslices", "resourceclaims"), ("list", "watch")),
    Right(Scope.CLUSTER, "resource.k8s.io", ("deviceclasses",), ("get",)),
    Right(Scope.PROJECTS, "", ("events",), ("list",)),
    Right(Scope.PROJECTS, "", ("pods", "configmaps"), ("create", "patch", "delete")),
    Right(Scope.PROJECTS, "", ("pods/log",), ("get",)),
    Right(Scope.PROJECTS, "", ("services",), ("create", "get", "patch", "delete")),
    Right(Scope.PROJECTS, "networking.k8s.io", ("ingresses",), ("create", "get", "patch", "delete")),
    Right(Scope.PROJECTS, "policy", ("poddisruptionbudgets",), ("create", "get", "patch", "delete")),
    Right(Scope.PROJECTS, "networking.k8s.io", ("networkpolicies",), ("create", "get", "delete")),
    Right(Scope.PROJECTS, "", ("persistentvolumeclaims", "secrets"), ("create", "get", "delete")),
    Right(Scope.PROJECTS, "resource.k8s.io", ("resourceclaims",), ("create", "get", "delete")),
    Right(Scope.OWN, "coordination.k8s.io", ("leases",), ("get", "create", "update")),
    Right(Scope.OWN, "", ("configmaps",), ("get", "create", "patch", "delete")),
)


def priority_class(cluster: str) -> str:
    """The PriorityClass of a cluster's pods, with `preemptionPolicy: Never`: Muster alone decides what is preempted."""
    return f"muster-{cluster}"


def rights(scope: Scope, *, managed: bool, mig_manager: bool = False) -> tuple[Right, ...]:
    """The rights of a scope. managed: the agent makes the namespaces of projects by itself.

    mig_manager: the agent sets the label of nodes by which a mig-manager knows their MIG layout.
    """
    return tuple(
        right
        for right in RIGHTS
        if right.scope is scope and (managed or not right.managed) and (mig_manager or not right.mig_manager)
    )
