"""Clusters, nodes and node pools as 2.18 shows them. Pure: called by their routes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from muster.fleet.v1 import fleet_pb2 as fleet
from muster.tenancy.v1 import tenancy_pb2 as tenancy
from muster_submission.domain.fleet import DEFAULT_POOL, cluster_uuid
from muster_submission.rest.org_units import moment

STATES: Final = {
    fleet.CLUSTER_STATE_REGISTERED: "WaitingToConnect",
    fleet.CLUSTER_STATE_READY: "Connected",
    fleet.CLUSTER_STATE_STALE: "ServiceIssues",
    fleet.CLUSTER_STATE_UNKNOWN: "Disconnected",
}
PLACEMENTS: Final = {"binpack": tenancy.PLACEMENT_STRATEGY_BINPACK, "spread": tenancy.PLACEMENT_STRATEGY_SPREAD}
_WORDS: Final = {number: word for word, number in PLACEMENTS.items()}
_WHOLE: Final = 1000
_UNUSABLE: Final = {"unhealthy", "foreign"}


def _no_new_work(issue: str) -> dict[str, str]:
    """Why a cluster gets no new work."""
    return {"type": "Available", "status": "False", "reason": "AgentVersion", "message": issue}


def write_cluster(cluster: fleet.Cluster, made: datetime, tenant: int, *, full: bool) -> dict[str, Any]:
    """A cluster. full: with its status."""
    shown: dict[str, Any] = {
        "uuid": cluster_uuid(cluster.id),
        "tenantId": tenant,
        "name": cluster.id,
        "createdAt": made.isoformat(),
    }
    if cluster.agent_version:
        shown["version"] = cluster.agent_version
    if cluster.HasField("heard_at"):
        shown["lastLiveness"] = moment(cluster.heard_at)
    if full:
        shown["status"] = {
            "state": STATES.get(cluster.state, "Unknown"),
            "conditions": [_no_new_work(cluster.issue)] if cluster.issue else [],
            "operands": {},
            "platform": {},  # its words are distributions of Kubernetes: what the back end is stands beside it
            "backend": cluster.profile.backend,
            "dependencies": {"required": {}, "optional": {}},
        }
    return shown


def write_node(node: fleet.NodeView, made: datetime, now: datetime) -> dict[str, Any]:
    """A node. made: when its cluster was heard of first, the earliest that it can have been there."""
    shown: dict[str, Any] = {
        "status": "Ready" if ready(node) else "NotReady",
        "conditions": [_condition(node)],
        "taints": [{"key": one.key, "value": one.value, "effect": one.effect} for one in node.taints],
        "nodePool": node.pool or DEFAULT_POOL,
        "createdAt": made.isoformat(),
        "name": node.name,
        "clusterUuid": cluster_uuid(node.cluster),
        "updatedAt": now.isoformat(),
    }
    if node.devices:
        shown["gpuInfo"] = {"gpuType": node.devices[0].model, "gpuCount": len(node.devices)}
    return shown


def write_pool(pool: tenancy.NodePool, nodes: Iterable[fleet.NodeView]) -> dict[str, Any]:
    """A node pool with the nodes that are in it."""
    inside = [node for node in nodes if (node.cluster, node.pool or DEFAULT_POOL) == (pool.cluster, pool.name)]
    status, said = _pool_status(inside)
    placement = {"cpu": pool.cpu_placement, "gpu": pool.gpu_placement}
    shown: dict[str, Any] = {
        "id": pool.id,
        "name": pool.name,
        "clusterId": cluster_uuid(pool.cluster),
        "placementStrategy": {kind: _WORDS.get(one, "binpack") for kind, one in placement.items()},
        "overProvisioningRatio": pool.over_provisioning_ratio or 1,
        "topologyLevels": list(pool.topology_levels),
        "memoryAsSlices": pool.memory_as_slices,
        "createdAt": moment(pool.created_at),
        "updatedAt": moment(pool.updated_at),
        "deletedAt": None,
        "createdBy": pool.created_by,
        "updatedBy": pool.updated_by,
        "status": status,
        "statusMessage": said,
        "nodes": json.dumps(sorted(node.name for node in inside)),
        "isDefault": pool.name == DEFAULT_POOL,
    }
    if pool.label_key:
        shown.update(labelKey=pool.label_key, labelValue=pool.label_value)
    return shown


def ready(node: fleet.NodeView) -> bool:
    """Whether it takes new replicas."""
    return node.state == fleet.NODE_STATE_READY


def usable(node: fleet.NodeView) -> int:
    """How many of its devices work."""
    return sum(device.mode not in _UNUSABLE for device in node.devices)


def free(node: fleet.NodeView) -> float:
    """How many devices' worth is free."""
    return sum(device.free_milli for device in node.devices) / _WHOLE


def _condition(node: fleet.NodeView) -> dict[str, str]:
    word = fleet.NodeState.Name(node.state).removeprefix("NODE_STATE_")
    reason = "".join(part.capitalize() for part in word.split("_"))
    return {"type": "Ready" if ready(node) else "NotReady", "reason": reason, "message": ""}


def _pool_status(inside: Sequence[fleet.NodeView]) -> tuple[str, str]:
    if not inside:
        return "Empty", "no node is in it"
    good = sum(ready(node) for node in inside)
    if good:
        return "Ready", f"{good} of {len(inside)} nodes take replicas"
    return "Unschedulable", f"none of {len(inside)} nodes takes replicas"
