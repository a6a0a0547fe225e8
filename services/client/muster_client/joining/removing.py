"""What an administrator deletes once a cluster has left: what was applied at joining, and what its agent kept."""

from __future__ import annotations

from typing import Any

from muster_client.joining.installing import objects_of
from muster_client.joining.values import BusAccess, Installation
from muster_kernel.agent_rights import ACCOUNT


def removed(
    cluster: str, namespace: str, projects: tuple[str, ...], *, managed: bool, in_cluster: bool
) -> list[dict[str, Any]]:
    """The objects as `kubectl delete` takes them, each before what it needs itself.

    projects: the namespaces of projects; where the agent has made them (`managed`), they go too, with all that is in
    them. in_cluster: the agent runs as a pod there.
    """
    installation = Installation(
        cluster=cluster,
        namespace=namespace,
        projects=() if managed else projects,
        cluster_file="",
        trust="",
        submission="",
        submission_tls=False,
        submission_ca="",
        bus=BusAccess("", ""),
        application=("", ""),
        image="any" if in_cluster else "",
    )
    own, *others = objects_of(installation)
    metadata = {"name": ACCOUNT, "namespace": namespace}
    kept = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata},
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata},
    ]
    made = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in projects if managed]
    return [_named(one) for one in (*reversed(others), *kept, *made, own)]


def _named(found: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in found["metadata"].items() if key in {"name", "namespace"}}
    return {"apiVersion": found["apiVersion"], "kind": found["kind"], "metadata": metadata}
