"""JSON schemas of clusters, nodes, node pools and their figures, as the document shows them."""

from __future__ import annotations

from typing import Final

from muster_submission.domain.fleet import LARGEST_RATIO, MOST_LEVELS
from muster_submission.rest.cluster_bodies import PLACEMENTS, STATES
from muster_submission.rest.operation import array_of, record

_TEXT: Final = {"type": "string"}
_TIME: Final = {"type": "string", "format": "date-time"}
_UUID: Final = {"type": "string", "format": "uuid"}
_OBJECT: Final = {"type": "object"}
_WORD: Final = {"type": ["string", "null"], "enum": [*PLACEMENTS, None]}
_STRATEGY: Final = record("PlacementStrategy", [], "How replicas are spread over nodes.", cpu=_WORD, gpu=_WORD)
_RATIO: Final = {"type": ["integer", "null"], "minimum": 1, "maximum": LARGEST_RATIO}
_LABEL: Final = {"type": ["string", "null"], "maxLength": 317}
_LEVELS: Final = {
    "type": ["array", "null"],
    "items": {"type": "string", "maxLength": 317},
    "maxItems": MOST_LEVELS,
    "description": "Keys of labels that say which nodes are close to each other, the widest first.",
}
_SLICES: Final = {
    "type": ["boolean", "null"],
    "description": "Whether a request for GPU memory gets the smallest MIG slice that holds it.",
}
_UPDATABLE: Final = {
    "labelKey": _LABEL,
    "labelValue": _LABEL,
    "placementStrategy": {"anyOf": [_STRATEGY, {"type": "null"}]},
    "overProvisioningRatio": _RATIO,
    "topologyLevels": _LEVELS,
    "memoryAsSlices": _SLICES,
}
POOL: Final = record(
    "NodePool",
    ["id", "name", "clusterId", "status"],
    "The nodes of a cluster that have one label.",
    id={"type": "integer"},
    name=_TEXT,
    clusterId=_UUID,
    labelKey=_TEXT,
    labelValue=_TEXT,
    placementStrategy=_STRATEGY,
    overProvisioningRatio={"type": "integer"},
    topologyLevels=array_of(_TEXT),
    memoryAsSlices={"type": "boolean"},
    createdAt=_TIME,
    updatedAt=_TIME,
    deletedAt={"type": ["string", "null"], "format": "date-time"},
    createdBy=_TEXT,
    updatedBy=_TEXT,
    status={"type": "string", "enum": ["Empty", "Ready", "Unschedulable"]},
    statusMessage=_TEXT,
    nodes={"type": "string", "description": "The names of its nodes, a JSON array in a text."},
    isDefault={"type": "boolean"},
)
POOL_CREATION: Final = record(
    "NodePoolCreation", ["name"], "A node pool to make.", name={"type": "string", "maxLength": 63}, **_UPDATABLE
)
NEW_POOL: Final = record(
    "NodePoolOfCluster",
    ["name", "clusterId"],
    "A node pool to make in a cluster.",
    name={"type": "string", "maxLength": 63},
    clusterId=_UUID,
    **_UPDATABLE,
)
POOL_UPDATE: Final = record("NodePoolUpdate", [], "What changes; what is left out stays.", **_UPDATABLE)
POOL_LABELS: Final = record("NodePoolLabels", [], "The label of its nodes.", labelKey=_LABEL, labelValue=_LABEL)
CLUSTER: Final = record(
    "Cluster",
    ["uuid", "tenantId", "name", "createdAt"],
    "A cluster of the fleet.",
    uuid=_UUID,
    tenantId={"type": "integer"},
    name=_TEXT,
    createdAt=_TIME,
    lastLiveness=_TIME,
    status=record(
        "ClusterStatus",
        ["state"],
        "How it is.",
        state={"type": "string", "enum": [*STATES.values(), "Unknown"]},
        conditions=array_of(_OBJECT),
        operands=_OBJECT,
        platform=_OBJECT,
        backend={"type": "string", "description": "Muster's own: local or kubernetes."},
        dependencies=_OBJECT,
    ),
)
CLUSTER_CREATION: Final = record(
    "ClusterCreation",
    ["name"],
    "A cluster to register.",
    name={"type": "string", "minLength": 1, "maxLength": 40},
    domain={"type": ["string", "null"]},
    version={"type": ["string", "null"]},
)
NODE: Final = record(
    "Node",
    ["status", "nodePool", "createdAt", "name", "clusterUuid", "updatedAt"],
    "A node of a cluster.",
    status={"type": "string", "enum": ["Ready", "NotReady", "Unknown"]},
    conditions=array_of(record("NodeCondition", ["type", "reason"], "Why.", type=_TEXT, reason=_TEXT, message=_TEXT)),
    taints=array_of(
        record("NodeTaint", ["key", "effect"], "Keeps replicas away.", key=_TEXT, value=_TEXT, effect=_TEXT)
    ),
    nodePool=_TEXT,
    createdAt=_TIME,
    updatedAt=_TIME,
    name=_TEXT,
    clusterUuid=_UUID,
    gpuInfo=record("GpuInfo", ["gpuType", "gpuCount"], "Its GPUs.", gpuType=_TEXT, gpuCount={"type": "integer"}),
)
NODES: Final = record("Nodes", ["nodes"], "Nodes.", nodes=array_of(NODE))
_SAMPLE: Final = record("Sample", ["value", "timestamp"], "A value at a moment.", value=_TEXT, timestamp=_TIME)
MEASUREMENTS: Final = record(
    "FleetMeasurements",
    ["measurements"],
    "Figures over time; those that are not kept over time have their present value, or none.",
    measurements=array_of(
        record(
            "FleetMeasurement", ["type", "values"], "One figure.", type=_TEXT, labels=_OBJECT, values=array_of(_SAMPLE)
        )
    ),
)
_GROUP: Final = record(
    "NodeGroup", ["key", "value", "name"], "By what it is counted.", key=_TEXT, value=_TEXT, name=_TEXT
)
TELEMETRY: Final = record(
    "NodeTelemetry",
    ["type", "timestamp", "values"],
    "A figure of this moment.",
    type=_TEXT,
    timestamp=_TIME,
    values=array_of(record("NodeFigure", ["value", "groups"], "A value.", value=_TEXT, groups=array_of(_GROUP))),
)
