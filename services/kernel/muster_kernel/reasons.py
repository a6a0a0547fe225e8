"""Why something is as it is: the codes, never free text.

The scheduler stores and publishes them with their numbers (sentences.py); keeping both apart from the text is what
lets a program act on a reason, and a test or a translation read it.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Final


class WaitingReason(StrEnum):
    """Why a workload is not placed, from what can never work to what only needs a moment. One dominates."""

    NO_CLUSTER = "NoCluster"
    NO_POOL = "NoPool"
    NO_PROJECT = "NoProject"
    DATA_ELSEWHERE = "DataElsewhere"
    DATA_MISSING = "DataMissing"
    NOT_SUPPORTED = "NotSupported"
    WRONG_NODE_TYPE = "WrongNodeType"
    NOT_TOLERATED = "NotTolerated"
    NO_SUCH_LEVEL = "NoSuchLevel"
    UNEVEN_GROUPS = "UnevenGroups"
    TOO_LARGE_FOR_DOMAIN = "TooLargeForDomain"
    TOO_FEW_DOMAINS = "TooFewDomains"
    TOO_LARGE = "TooLarge"
    HOST_TOO_LARGE = "HostTooLarge"
    DEVICE_TOO_SMALL = "DeviceTooSmall"
    SLICE_TOO_SMALL = "SliceTooSmall"
    NO_SUCH_SLICE = "NoSuchSlice"
    ALL_SLICED = "AllSliced"
    RESOURCE_TOO_LARGE = "ResourceTooLarge"
    STORAGE_TOO_LARGE = "StorageTooLarge"
    NOT_ON_ONE_NODE = "NotOnOneNode"
    NO_SUCH_NODE = "NoSuchNode"
    ONE_MODEL = "OneModel"
    TOO_LARGE_TOGETHER = "TooLargeTogether"
    OVER_LIMIT = "OverLimit"
    NO_WEIGHT = "NoWeight"
    OVER_QUOTA = "OverQuota"
    CPU_OVER_LIMIT = "CpuOverLimit"
    CPU_OVER_QUOTA = "CpuOverQuota"
    MEMORY_OVER_LIMIT = "MemoryOverLimit"
    MEMORY_OVER_QUOTA = "MemoryOverQuota"
    MODEL_OVER_LIMIT = "ModelOverLimit"
    MODEL_OVER_QUOTA = "ModelOverQuota"
    USER_OVER_LIMIT = "UserOverLimit"
    USER_RUNS_ENOUGH = "UserRunsEnough"
    BACKOFF = "Backoff"
    CLAIM = "WaitsForClaim"
    RESERVED = "Reserved"
    NO_CAPACITY = "NoCapacity"
    NO_HOST_CAPACITY = "NoHostCapacity"
    REPLICAS_FULL = "ReplicasFull"
    FRAGMENTED = "Fragmented"
    TOPOLOGY = "Topology"
    APART = "Apart"
    NODES_UNAVAILABLE = "NodesUnavailable"
    REFUSED = "Refused"
    BEHIND_OTHERS = "BehindOthers"
    NOT_EVALUATED = "NotEvaluated"
    QUARANTINED = "Quarantined"


class FailureClass(StrEnum):
    """What ended a replica, and so which budget a restart is taken from."""

    NONE = "None"
    OURS = "Ours"
    INFRASTRUCTURE = "Infrastructure"
    START = "Start"
    OUT_OF_MEMORY = "OutOfMemory"
    RETRYABLE_EXIT = "RetryableExit"
    EXIT = "Exit"


class ChangeReason(StrEnum):
    """Why a phase changed."""

    ADMITTED = "Admitted"
    POLICY_REFUSED = "PolicyRefused"
    PLACED = "Placed"
    ALL_READY = "AllReady"
    SOME_READY = "SomeReady"
    REPLICAS_LOST = "ReplicasLost"
    NODE_LOST = "NodeLost"
    SUCCEEDED = "Succeeded"
    EXIT_LIMIT = "ExitLimit"
    INFRASTRUCTURE_LIMIT = "InfrastructureLimit"
    START_FAILED = "StartFailed"
    OUT_OF_MEMORY = "OutOfMemory"
    RESTART = "Restart"
    PREEMPTED = "Preempted"
    TERMINATED_AFTER_PREEMPTION = "TerminatedAfterPreemption"
    SUSPENDED = "Suspended"
    RESUMED = "Resumed"
    DELETED = "Deleted"
    RUN_TIME_LIMIT = "RunTimeLimit"
    IDLE_LIMIT = "IdleLimit"
    NODE_CLOSING = "NodeClosing"
    BELOW_MINIMUM = "BelowMinimum"
    AGENT_REFUSED = "AgentRefused"
    CLUSTER_SILENT = "ClusterSilent"
    CLUSTER_BACK = "ClusterBack"
    CLUSTER_LOST = "ClusterLost"
    CLUSTER_REMOVED = "ClusterRemoved"
    REPLICAS_GONE = "ReplicasGone"
    NEW_REVISION = "NewRevision"
    AUTO_DELETED = "AutoDeleted"


class RefusalScope(StrEnum):
    """What an agent's refusal holds for."""

    NODE = "Node"
    CLUSTER = "Cluster"
    WORKLOAD = "Workload"


class RefusalCode(StrEnum):
    """Why an agent does not carry an assignment out, or not for one of its replicas."""

    INVALID_COMMAND = "InvalidCommand"
    BAD_RECORD = "BadRecord"
    AGENT_ERROR = "AgentError"
    UNKNOWN_NODE = "UnknownNode"
    NODE_NOT_READY = "NodeNotReady"
    UNKNOWN_DEVICE = "UnknownDevice"
    DEVICE_IN_USE = "DeviceInUse"
    FOREIGN_TAKEN = "ForeignTaken"
    GATED = "Gated"
    START_DEADLINE = "StartDeadline"
    NAMESPACE_QUOTA = "NamespaceQuota"
    NAMESPACE_NOT_OURS = "NamespaceNotOurs"
    ADMISSION_DENIED = "AdmissionDenied"
    WEBHOOK_FAILED = "WebhookFailed"
    MISSING_OBJECT = "MissingObject"
    MUTATED = "Mutated"
    UNSUPPORTED = "Unsupported"
    NAME_CONFLICT = "NameConflict"
    NAME_IN_USE = "NameInUse"

    @property
    def scope(self) -> RefusalScope:
        """What a refusal with this code holds for."""
        if self in _OF_WORKLOAD:
            return RefusalScope.WORKLOAD
        return RefusalScope.NODE if self in _OF_NODE else RefusalScope.CLUSTER

    @property
    def permanent(self) -> bool:
        """Whether only another spec or another cluster profile changes it."""
        return self in _PERMANENT


_OF_WORKLOAD: Final = frozenset({RefusalCode.INVALID_COMMAND, RefusalCode.BAD_RECORD})
_OF_NODE: Final = frozenset(
    {RefusalCode.UNKNOWN_NODE, RefusalCode.NODE_NOT_READY, RefusalCode.UNKNOWN_DEVICE, RefusalCode.DEVICE_IN_USE}
    | {RefusalCode.FOREIGN_TAKEN, RefusalCode.START_DEADLINE}
)
_PERMANENT: Final = _OF_WORKLOAD | {RefusalCode.MUTATED, RefusalCode.UNSUPPORTED, RefusalCode.NAME_CONFLICT}


class PreemptionCause(StrEnum):
    """Why a workload gives its place up though nothing of it failed."""

    RECLAIM = "Reclaim"
    PREEMPTION = "Preemption"
    CONSOLIDATION = "Consolidation"
    DRAIN = "Drain"
    LIMIT = "Limit"
    NODE_LOST = "NodeLost"

    @property
    def sentence(self) -> str:
        """The cause for a person. The workload that takes the place is OTHER: not every reader may know its name."""
        return _CAUSES[self]


OTHER: Final = "another workload"
"""What a workload is called in a stored text; its name is filled in for each reader who may know it."""
HIDDEN: Final = "a workload of another project"
"""What it is called to a reader who may not know its name."""
_CAUSES: Final[dict[str, str]] = {
    PreemptionCause.RECLAIM: f"gives its place to {OTHER}: its project holds more than its fair share",
    PreemptionCause.PREEMPTION: f"gives its place to {OTHER}, which may displace it within their project",
    PreemptionCause.CONSOLIDATION: f"moves elsewhere so that {OTHER} fits",
    PreemptionCause.DRAIN: "leaves its node, which has to be empty",
    PreemptionCause.LIMIT: f"gives its place to {OTHER}: a limit of their project or department is reached",
    PreemptionCause.NODE_LOST: "gives its place up: a node with replicas that it needs does not answer",
}


class Constraint(StrEnum):
    """What excluded a node for a request, counted in an explanation."""

    WRONG_CLUSTER = "WrongCluster"
    DATA_MISSING = "DataMissing"
    WRONG_POOL = "WrongPool"
    WRONG_NODE_TYPE = "WrongNodeType"
    MODEL_CLOSED = "ModelClosed"
    CLUSTER_NOT_SUPPORTED = "ClusterNotSupported"
    CLUSTER_SILENT = "ClusterSilent"
    NODE_UNAVAILABLE = "NodeUnavailable"
    TAINTED = "Tainted"
    CLOSES_TOO_SOON = "ClosesTooSoon"
    REFUSED_BEFORE = "RefusedBefore"
    RESERVED = "Reserved"
    NO_GPU = "NoGpu"
    DEVICE_TOO_SMALL = "DeviceTooSmall"
    UNHEALTHY = "Unhealthy"
    NO_IDLE_GPU = "NoIdleGpu"
    TOO_FEW_GPUS = "TooFewGpus"
    NO_PORTION = "NoPortion"
    NO_DEVICE_MEMORY = "NoDeviceMemory"
    NO_SLICE = "NoSlice"
    CPU = "Cpu"
    MEMORY = "Memory"
    RESOURCE = "Resource"
    REPLICAS_FULL = "ReplicasFull"
    FITS = "Fits"


class Unsupported(IntEnum):
    """What a cluster refuses of a request, as a reason's number."""

    FIELDS = 0
    SLICES = 1
    PORTIONS = 2
    DEVICE_MEMORY = 3

    @property
    def words(self) -> str:
        """It, for a person."""
        return _LACKS[self]


_LACKS: Final[dict[int, str]] = {
    Unsupported.FIELDS: "fields that it sets",
    Unsupported.SLICES: "MIG slices",
    Unsupported.PORTIONS: "portions of GPUs",
    Unsupported.DEVICE_MEMORY: "requests for GPU memory",
}


# What would start if it did not have to be so close together.
TOO_FAR_APART: Final = frozenset(
    {WaitingReason.TOPOLOGY, WaitingReason.TOO_LARGE_FOR_DOMAIN, WaitingReason.NO_SUCH_LEVEL}
)
# What would start if its replicas might stand beside each other.
TOO_CLOSE: Final = frozenset({WaitingReason.APART, WaitingReason.TOO_FEW_DOMAINS})
# What never starts on the nodes that there are, however idle they are.
NEVER: Final = frozenset(
    {
        WaitingReason.TOO_LARGE,
        WaitingReason.HOST_TOO_LARGE,
        WaitingReason.DEVICE_TOO_SMALL,
        WaitingReason.SLICE_TOO_SMALL,
        WaitingReason.NO_SUCH_SLICE,
        WaitingReason.ALL_SLICED,
        WaitingReason.RESOURCE_TOO_LARGE,
        WaitingReason.STORAGE_TOO_LARGE,
        WaitingReason.NOT_ON_ONE_NODE,
        WaitingReason.NO_SUCH_NODE,
        WaitingReason.ONE_MODEL,
        WaitingReason.TOO_LARGE_TOGETHER,
        WaitingReason.TOO_LARGE_FOR_DOMAIN,
        WaitingReason.TOO_FEW_DOMAINS,
        WaitingReason.NO_SUCH_LEVEL,
        WaitingReason.UNEVEN_GROUPS,
    }
)

# What has no node that it may use at all, whatever those have.
NOWHERE: Final = frozenset(
    {
        WaitingReason.NO_CLUSTER,
        WaitingReason.NO_POOL,
        WaitingReason.DATA_ELSEWHERE,
        WaitingReason.DATA_MISSING,
        WaitingReason.NOT_SUPPORTED,
        WaitingReason.WRONG_NODE_TYPE,
        WaitingReason.NOT_TOLERATED,
    }
)
# What no release and no quota helps: it is no demand either, and takes nothing of others' fair shares.
IN_VAIN: Final = NEVER | NOWHERE

# What starts as soon as nodes have room for it.
FOR_ROOM: Final = frozenset(
    {
        WaitingReason.CLAIM,
        WaitingReason.RESERVED,
        WaitingReason.NO_CAPACITY,
        WaitingReason.NO_HOST_CAPACITY,
        WaitingReason.REPLICAS_FULL,
        WaitingReason.FRAGMENTED,
        WaitingReason.TOPOLOGY,
        WaitingReason.APART,
        WaitingReason.NODES_UNAVAILABLE,
    }
)

_RETRYABLE_CODES: Final = frozenset({130, 137, 138, 143})


def classify_exit(code: int) -> FailureClass:
    """The class of a command's own exit code. 128 + n stands for a signal n; 0 is no failure."""
    if code == 0:
        return FailureClass.NONE
    return FailureClass.RETRYABLE_EXIT if code in _RETRYABLE_CODES else FailureClass.EXIT
