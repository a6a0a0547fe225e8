"""Why something is as it is: codes with the numbers they carry, never free text.

The scheduler stores and publishes a `Reason`; the client turns it into a sentence with `sentence`. Keeping code and
numbers apart is what lets a program act on a reason and a translation or a test read it.
Holds: every code names its numbers in the catalogue below, and a Reason carries exactly these.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final

from muster_kernel.quantities import format_bytes, format_gpu, format_milli_cpu


class WaitingReason(StrEnum):
    """Why a workload is not placed, from what can never work to what only needs a moment. One dominates."""

    NO_CLUSTER = "NoCluster"
    NO_POOL = "NoPool"
    NO_PROJECT = "NoProject"
    NOT_SUPPORTED = "NotSupported"
    WRONG_NODE_TYPE = "WrongNodeType"
    NOT_TOLERATED = "NotTolerated"
    NO_SUCH_LEVEL = "NoSuchLevel"
    UNEVEN_GROUPS = "UnevenGroups"
    TOO_LARGE_FOR_DOMAIN = "TooLargeForDomain"
    TOO_LARGE = "TooLarge"
    HOST_TOO_LARGE = "HostTooLarge"
    DEVICE_TOO_SMALL = "DeviceTooSmall"
    NO_SUCH_SLICE = "NoSuchSlice"
    NO_SUCH_NODE = "NoSuchNode"
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
    FRAGMENTED = "Fragmented"
    TOPOLOGY = "Topology"
    NODES_UNAVAILABLE = "NodesUnavailable"
    BEHIND_OTHERS = "BehindOthers"
    NOT_EVALUATED = "NotEvaluated"


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


class Constraint(StrEnum):
    """What excluded a node for a request, counted in an explanation."""

    WRONG_CLUSTER = "WrongCluster"
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
# What never starts on the nodes that there are, however idle they are.
NEVER: Final = frozenset(
    {
        WaitingReason.TOO_LARGE,
        WaitingReason.HOST_TOO_LARGE,
        WaitingReason.DEVICE_TOO_SMALL,
        WaitingReason.NO_SUCH_SLICE,
        WaitingReason.NO_SUCH_NODE,
        WaitingReason.TOO_LARGE_TOGETHER,
        WaitingReason.TOO_LARGE_FOR_DOMAIN,
        WaitingReason.NO_SUCH_LEVEL,
        WaitingReason.UNEVEN_GROUPS,
    }
)

# What has no node that it may use at all, whatever those have.
NOWHERE: Final = frozenset(
    {
        WaitingReason.NO_CLUSTER,
        WaitingReason.NO_POOL,
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
        WaitingReason.FRAGMENTED,
        WaitingReason.TOPOLOGY,
    }
)

_UNITS: Final = frozenset({"used", "deserved", "short", "requested", "free", "largest", "limit"})


class _Counted(str):
    """A number that brings its noun along: `{free:GPU|GPUs}` reads "1 GPU", "0.5 GPU", "3 GPUs"."""

    __slots__ = ()

    def __format__(self, nouns: str) -> str:
        one, _, many = nouns.partition("|")
        return f"{self} {one if is_one(self) else many}" if nouns else str(self)


def is_one(amount: str) -> bool:
    """Whether a shown amount takes the singular: one, and parts of one."""
    return amount == "1" or amount.startswith("0.") or (" " not in amount and "/" in amount)


_TOGETHER: Final = (
    "needs {replicas:replica|replicas} with {requested:GPU|GPUs} at once, more than idle nodes hold together; "
    "the largest node pool has {largest:GPU|GPUs}"
)
# What lacks for these gangs are not GPUs.
_MORE_THAN: Final = "needs {replicas:replica|replicas} at once; the idle nodes of its node pool hold {room}"
_TOO_MANY: Final = "needs {replicas:replica|replicas} at once, more than the idle nodes of its node pool hold together"
_HOST: Final = (
    "needs {requested_cpu} CPU and {requested_bytes} of memory on one node; "
    "the most is {largest_cpu} CPU and {largest_bytes}"
)
_HOST_CPU: Final = "needs {requested_cpu} CPU on one node; the largest node has {largest_cpu}"
_HOST_MEMORY: Final = "needs {requested_bytes} of memory on one node; the largest node has {largest_bytes}"
_NEVER_CLOSE: Final = (
    "its {replicas:replica has|replicas have} to run close together, and no domain of that level holds them, "
    "even if idle; the best has room for {room}"
)
_APART: Final = (
    "its {replicas:replica|replicas} would fit, but not as close together as required; "
    "the best domain has room for {room}"
)
_CATALOGUE: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    WaitingReason.NO_CLUSTER: ("no registered cluster is allowed for it", ()),
    WaitingReason.NO_POOL: ("no cluster has a node in the node pools it asks for", ()),
    WaitingReason.NO_PROJECT: ("its project is not known to the scheduler yet", ()),
    WaitingReason.NOT_SUPPORTED: (
        "{clusters:cluster does|clusters do} not support {lack}",
        ("clusters", "lack"),
    ),
    WaitingReason.WRONG_NODE_TYPE: (
        "no node of its node pools will do: of {nodes}, {wrong:is|are} of a type that it may not use",
        ("wrong", "nodes"),
    ),
    WaitingReason.NO_SUCH_LEVEL: (
        "it is to run inside one domain of its topology, and no node has the label of that level",
        (),
    ),
    WaitingReason.UNEVEN_GROUPS: (
        "{replicas:replica does|replicas do} not divide into groups of {group}",
        ("replicas", "group"),
    ),
    WaitingReason.TOO_LARGE_FOR_DOMAIN: (
        _NEVER_CLOSE,
        ("replicas", "room"),
    ),
    WaitingReason.TOPOLOGY: (
        _APART,
        ("replicas", "room"),
    ),
    WaitingReason.NOT_TOLERATED: (
        "no node of its node pools will do: of {nodes}, {tainted:has|have} a taint that it does not tolerate",
        ("tainted", "nodes"),
    ),
    WaitingReason.TOO_LARGE: (
        "needs {requested:GPU|GPUs} on one node; the largest node has {largest}",
        ("requested", "largest"),
    ),
    WaitingReason.HOST_TOO_LARGE: (
        _HOST,
        ("requested_cpu", "requested_bytes", "largest_cpu", "largest_bytes"),
    ),
    WaitingReason.DEVICE_TOO_SMALL: (
        "needs {requested_bytes} of GPU memory on one GPU; the largest GPU that can be shared has {largest_bytes}",
        ("requested_bytes", "largest_bytes"),
    ),
    WaitingReason.NO_SUCH_SLICE: (
        "no GPU gives the MIG slice that it asks for: of {devices:GPU|GPUs}, {mig:is|are} in MIG mode",
        ("devices", "mig"),
    ),
    WaitingReason.NO_SUCH_NODE: ("no node could hold one replica of it, even if idle", ()),
    WaitingReason.TOO_LARGE_TOGETHER: (
        _TOGETHER,
        ("replicas", "requested", "largest", "room"),
    ),
    WaitingReason.OVER_QUOTA: (
        "non-preemptible work uses {used} of the {deserved:GPU|GPUs} that the {queue} deserves ({short} short)",
        ("used", "deserved", "short", "queue"),
    ),
    WaitingReason.OVER_LIMIT: (
        "the {queue} uses {used} of the {limit:GPU|GPUs} that it may hold at most ({short} short)",
        ("used", "limit", "short", "queue"),
    ),
    WaitingReason.NO_WEIGHT: (
        "the {queue} uses {used} of the {deserved:GPU|GPUs} that it deserves, and has no weight beyond ({short} short)",
        ("used", "deserved", "short", "queue"),
    ),
    WaitingReason.CPU_OVER_QUOTA: (
        "non-preemptible work uses {used_cpu} of the {deserved_cpu} CPU that the {queue} deserves ({short_cpu} short)",
        ("used_cpu", "deserved_cpu", "short_cpu", "queue"),
    ),
    WaitingReason.CPU_OVER_LIMIT: (
        "the {queue} uses {used_cpu} of the {limit_cpu} CPU that it may hold at most ({short_cpu} short)",
        ("used_cpu", "limit_cpu", "short_cpu", "queue"),
    ),
    WaitingReason.MEMORY_OVER_QUOTA: (
        "non-preemptible work uses {used_bytes} of the {deserved_bytes} the {queue} deserves ({short_bytes} short)",
        ("used_bytes", "deserved_bytes", "short_bytes", "queue"),
    ),
    WaitingReason.MEMORY_OVER_LIMIT: (
        "the {queue} uses {used_bytes} of the {limit_bytes} of memory that it may hold ({short_bytes} short)",
        ("used_bytes", "limit_bytes", "short_bytes", "queue"),
    ),
    WaitingReason.MODEL_OVER_LIMIT: (
        "the {queue} uses {used} of the {limit:GPU|GPUs} of this model that it may hold at most ({short} short)",
        ("used", "limit", "short", "queue"),
    ),
    WaitingReason.MODEL_OVER_QUOTA: (
        "non-preemptible work uses {used} of {deserved:GPU|GPUs} of this model the {queue} deserves ({short} short)",
        ("used", "deserved", "short", "queue"),
    ),
    WaitingReason.USER_OVER_LIMIT: (
        "its user holds {used} of the {limit:GPU|GPUs} that one user may hold in the project ({short} short)",
        ("used", "limit", "short"),
    ),
    WaitingReason.USER_RUNS_ENOUGH: (
        "its user has {running} of the {most:workload|workloads} that one user may run at once in the project",
        ("running", "most"),
    ),
    WaitingReason.BACKOFF: ("it restarts after a pause, {seconds} s left", ("seconds",)),
    WaitingReason.CLAIM: (
        "room has been made for it; {workloads:workload is|workloads are} still leaving",
        ("workloads",),
    ),
    WaitingReason.RESERVED: (
        "it would fit only on what is reserved; {nodes:node is|nodes are} kept for a workload whose turn comes first",
        ("nodes",),
    ),
    WaitingReason.NO_CAPACITY: (
        "{requested:GPU is|GPUs are} asked for and {free:is|are} free in the pool",
        ("requested", "free"),
    ),
    WaitingReason.NO_HOST_CAPACITY: (
        "no node has the CPU and memory free for its {replicas:replica|replicas}",
        ("replicas",),
    ),
    WaitingReason.FRAGMENTED: (
        "{free:GPU is|GPUs are} free in sum, but not where {requested} could be placed together",
        ("requested", "free"),
    ),
    WaitingReason.NODES_UNAVAILABLE: (
        "{nodes:node that could hold it takes|nodes that could hold it take} no new work",
        ("nodes",),
    ),
    WaitingReason.BEHIND_OTHERS: ("{workloads:workload is|workloads are} ahead of it", ("workloads",)),
    WaitingReason.NOT_EVALUATED: ("it has not been looked at yet", ()),
}


@dataclass(frozen=True, slots=True)
class Reason:
    """A waiting reason and its numbers, as the catalogue orders them. GPUs count 1/7,000, CPUs 1/1,000.

    `queue` says whose quota: 0 the project's, 1 its department's.
    """

    code: WaitingReason
    numbers: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Refuses numbers that the code does not have."""
        named = number_names(self.code)
        if len(named) != len(self.numbers):
            raise ValueError(f"{self.code} carries {named}, not {len(self.numbers)} numbers")

    def named(self) -> dict[str, int]:
        """The numbers under their names."""
        return dict(zip(number_names(self.code), self.numbers, strict=True))

    def sentence(self) -> str:
        """The reason for a person."""
        named = self.named()
        return _template(self.code, named).format(**{name: _shown(name, value) for name, value in named.items()})


def _template(code: WaitingReason, named: dict[str, int]) -> str:
    """The sentence of a code, of what lacks alone: who reads two amounts looks for what is wrong with both."""
    match code:
        case WaitingReason.TOO_LARGE_TOGETHER if named["requested"] <= named["largest"]:
            return _MORE_THAN if named["room"] else _TOO_MANY
        case WaitingReason.HOST_TOO_LARGE if named["requested_bytes"] <= named["largest_bytes"]:
            return _HOST_CPU
        case WaitingReason.HOST_TOO_LARGE if named["requested_cpu"] <= named["largest_cpu"]:
            return _HOST_MEMORY
    return _CATALOGUE[code][0]


def number_names(code: WaitingReason) -> tuple[str, ...]:
    """The names of the numbers that a reason carries."""
    return _CATALOGUE[code][1]


def _shown(name: str, value: int) -> _Counted:
    if name in _UNITS:
        return _Counted(format_gpu(value))
    if name == "queue":
        return _Counted("department" if value else "project")
    if name == "lack":
        return _Counted(_LACKS.get(value, "what it asks for"))  # a later scheduler may know more of them
    if name.endswith("_cpu"):
        return _Counted(format_milli_cpu(value))
    return _Counted(format_bytes(value) if name.endswith("_bytes") else value)


_RETRYABLE_CODES: Final = frozenset({130, 137, 138, 143})


def classify_exit(code: int) -> FailureClass:
    """The class of a command's own exit code. 128 + n stands for a signal n; 0 is no failure."""
    if code == 0:
        return FailureClass.NONE
    return FailureClass.RETRYABLE_EXIT if code in _RETRYABLE_CODES else FailureClass.EXIT
