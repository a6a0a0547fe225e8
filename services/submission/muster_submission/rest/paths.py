"""Paths of the API's records in the words of 2.18: what a REST answer says is wrong stands in the body under that path.

Called where an error becomes an answer. Pure. Holds: a path that no record has is left as it is.
"""

from __future__ import annotations

import re
from typing import Final

from muster_submission.rest.org_units import RULES

_QUOTA: Final = {
    "node_pool": "nodePool",
    "gpu_deserved": "gpu.deserved",
    "gpu_limit": "gpu.limit",
    "over_quota_weight_milli": "gpu.overQuotaWeight",
    "cpu_milli_deserved": "cpu.deserved",
    "cpu_milli_limit": "cpu.limit",
    "cpu_over_quota_weight_milli": "cpu.overQuotaWeight",
    "memory_bytes_deserved": "memory.deserved",
    "memory_bytes_limit": "memory.limit",
    "memory_over_quota_weight_milli": "memory.overQuotaWeight",
}
_WHOLE: Final = {
    "namespace": "requestedNamespace",
    "quotas": "resources",
    "label_key": "labelKey",
    "label_value": "labelValue",
    "over_provisioning_ratio": "overProvisioningRatio",
    "memory_as_slices": "memoryAsSlices",
    "home_cluster": "clusterId",
    "department": "parentId",
}
_FIRST: Final = {
    "default_node_pools": "defaultNodePools",
    "node_types": "nodeTypes",
    "topology_levels": "topologyLevels",
}
_RULES: Final = {f"rules.{field}": f"schedulingRules.{name}" for name, field in RULES.items()}
_ENTRY: Final = re.compile(r"quotas\.(\d+)(?:\.(\w+))?")


def rest_path(path: str) -> str:
    """The path in the words of 2.18."""
    if entry := _ENTRY.fullmatch(path):
        at, member = entry.groups()
        return f"resources.{at}" + (f".{_QUOTA.get(member, member)}" if member else "")
    first, dot, rest = path.partition(".")
    return _WHOLE.get(path) or _RULES.get(path) or f"{_FIRST.get(first, first)}{dot}{rest}"
