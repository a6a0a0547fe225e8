"""A reason with its numbers, and the sentence that they make for a person.

Made by whoever decides, from the codes of reasons.py; published with its sentence.
Holds: every code names its numbers in the catalogue below, and a Reason carries exactly these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from muster_kernel.quantities import format_bytes, format_gpu, format_milli_cpu
from muster_kernel.reasons import Unsupported, WaitingReason

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
_NONE_SHARED: Final = "needs {requested_bytes} of GPU memory on one GPU; its node pools have no GPU that can be shared"
_NONE_SLICED: Final = (
    "needs {requested_bytes} of GPU memory on one GPU, which its node pools give as MIG slices; "
    "no GPU there is in MIG mode"
)
_HOST_CPU: Final = "needs {requested_cpu} CPU on one node; the largest node has {largest_cpu}"
_HOST_MEMORY: Final = "needs {requested_bytes} of memory on one node; the largest node has {largest_bytes}"
_NEVER_CLOSE: Final = (
    "its {replicas:replica has|replicas have} to run close together, and no domain of that level holds them, "
    "even if idle; the best has room for {room}"
)
# Only each few of them have to be close together.
_NEVER_GROUPED: Final = (
    "each {group} of its {replicas} replicas have to run in one domain of their level; "
    "idle nodes have room for {room} of them so"
)
_NOT_GROUPED: Final = (
    "its {replicas} replicas would fit, but not each {group} of them in one domain of their level; "
    "there is room for {room} of them so"
)
_APART: Final = (
    "its {replicas:replica|replicas} would fit, but not as close together as required; "
    "the best domain has room for {room}"
)
_OF_MODEL: Final = (
    "non-preemptible work uses {used} of the {deserved:GPU|GPUs} of this model "
    "that the {queue} deserves ({short} short)"
)
_SLICE: Final = (
    "needs {requested_bytes} of GPU memory on one GPU, which its node pools give as MIG slices; "
    "the largest has {largest_bytes}"
)
_BESIDE: Final = (
    "needs {requested:GPU|GPUs}, {requested_cpu} CPU and {requested_bytes} of memory on one node; "
    "the most beside so many GPUs is {largest_cpu} CPU and {largest_bytes}"
)
_CLOSED: Final = "{closed:node that could hold it|nodes that could hold it} {why}"
_NO_MODEL: Final = (
    "its {replicas:replica gets a MIG slice|replicas get MIG slices} of one GPU model, "
    "and no model of its node pools holds them all, even if idle"
)
# What is said instead where a number is 0, and so says nothing.
_WITHOUT: Final = {
    WaitingReason.DEVICE_TOO_SMALL: ("largest_bytes", _NONE_SHARED),
    WaitingReason.SLICE_TOO_SMALL: ("largest_bytes", _NONE_SLICED),
    WaitingReason.ONE_MODEL: ("room", _NO_MODEL),
}
# Why nodes take no new work: of one and of several.
_CLOSED_WHY: Final = {
    "cordoned": ("is cordoned", "are cordoned"),
    "closing": ("has to be empty", "have to be empty"),
    "down": ("is out of service", "are out of service"),
    "silent": ("is in a silent cluster", "are in silent clusters"),
}
# A department's quota or limit for a reader who may not see the department: with its figures he could compute what
# other projects hold.
_DEPARTMENT: Final = {
    "Quota": "its department has too little quota left for non-preemptible work",
    "Limit": "its department is at its limit",
    "NoWeight": "its department uses what it deserves, and has no weight beyond that",
}
_CATALOGUE: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    WaitingReason.NO_CLUSTER: ("no cluster in which it may run has nodes of its node pools", ()),
    WaitingReason.NO_POOL: ("no cluster has a node in the node pools it asks for", ()),
    WaitingReason.DATA_ELSEWHERE: ("its data is in a cluster that cannot run it now", ()),
    WaitingReason.DATA_MISSING: ("no cluster that it may use has every claim and ConfigMap that it mounts", ()),
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
        ("replicas", "room", "group"),
    ),
    WaitingReason.TOPOLOGY: (
        _APART,
        ("replicas", "room", "group"),
    ),
    WaitingReason.TOO_FEW_DOMAINS: (
        "its replicas have to stand apart: it needs {replicas} {apart}, and the pool has {room} that could hold one",
        ("replicas", "room", "apart"),
    ),
    WaitingReason.APART: (
        "its replicas have to stand apart: it needs {replicas} {apart}, and {room:has|have} room for one now",
        ("replicas", "room", "apart"),
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
    WaitingReason.SLICE_TOO_SMALL: (
        _SLICE,
        ("requested_bytes", "largest_bytes"),
    ),
    WaitingReason.NO_SUCH_SLICE: (
        "no GPU gives the MIG slice that it asks for: of {devices:GPU|GPUs}, {mig:is|are} in MIG mode",
        ("devices", "mig"),
    ),
    WaitingReason.ALL_SLICED: (
        "needs {requested:GPU|GPUs}, not a MIG slice; its node pools have {mig:GPU|GPUs} in MIG mode and no other",
        ("requested", "mig"),
    ),
    WaitingReason.RESOURCE_TOO_LARGE: (
        "needs {asked} of a named resource on one node; the largest node has {most}",
        ("asked", "most"),
    ),
    WaitingReason.STORAGE_TOO_LARGE: (
        "needs {requested_bytes} of ephemeral storage on one node; the largest node has {largest_bytes}",
        ("requested_bytes", "largest_bytes"),
    ),
    WaitingReason.NOT_ON_ONE_NODE: (
        _BESIDE,
        ("requested", "requested_cpu", "requested_bytes", "largest_cpu", "largest_bytes"),
    ),
    WaitingReason.NO_SUCH_NODE: ("no node could hold one replica of it, even if idle", ()),
    WaitingReason.ONE_MODEL: (_NO_MODEL + "; the best has room for {room}", ("replicas", "room")),
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
        _OF_MODEL,
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
    WaitingReason.REPLICAS_FULL: (
        "{nodes:node has|nodes have} enough free for it, but may run no more pods",
        ("nodes",),
    ),
    WaitingReason.FRAGMENTED: (
        "{free:GPU is|GPUs are} free in sum, but not where {requested} could be placed together",
        ("requested", "free"),
    ),
    WaitingReason.NODES_UNAVAILABLE: (_CLOSED, ("cordoned", "closing", "down", "silent")),
    WaitingReason.REFUSED: ("{nodes:node that could hold it has|nodes that could hold it have} refused it", ("nodes",)),
    WaitingReason.BEHIND_OTHERS: ("{workloads:workload is|workloads are} ahead of it", ("workloads",)),
    WaitingReason.NOT_EVALUATED: ("it has not been looked at yet", ()),
    WaitingReason.QUARANTINED: (
        "it is set aside: the scheduler failed on it or its node pool; an operator sees why: muster quarantine list",
        (),
    ),
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

    @property
    def of_department(self) -> bool:
        """Whether it is about what a department holds, which is more than its reader's own work."""
        return self.named().get("queue") == 1

    def sentence(self, *, department: bool = True) -> str:
        """The reason for a person. department: whether he may know what his department holds and deserves."""
        named = self.named()
        if self.of_department and not department:
            return _DEPARTMENT[self.code.value.rpartition("Over")[2]]
        shown = {name: _shown(name, value) for name, value in named.items()}
        if self.code is WaitingReason.NODES_UNAVAILABLE:
            shown = {"closed": _Counted(sum(named.values())), "why": _Counted(_why_closed(named))}
        return _template(self.code, named).format(**shown)


def _why_closed(named: dict[str, int]) -> str:
    """Why nodes take no new work, each cause with its number where there are several."""
    told = [(many, _CLOSED_WHY[cause][many != 1]) for cause, many in named.items() if many]
    if len(told) == 1:
        return told[0][1]
    return f"take no new work: {', '.join(f'{many} {words}' for many, words in told)}"


def _template(code: WaitingReason, named: dict[str, int]) -> str:
    """The sentence of a code, of what lacks alone: who reads two amounts looks for what is wrong with both."""
    number, without = _WITHOUT.get(code, ("", ""))
    if without and not named[number]:
        return without
    match code:
        case WaitingReason.TOO_LARGE_TOGETHER if named["requested"] <= named["largest"]:
            return _MORE_THAN if named["room"] else _TOO_MANY
        case WaitingReason.TOO_LARGE_FOR_DOMAIN if named["group"]:
            return _NEVER_GROUPED
        case WaitingReason.TOPOLOGY if named["group"]:
            return _NOT_GROUPED
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
    if name == "apart":
        return _Counted("nodes" if value else "domains of the label that it names")
    if name == "lack":
        return _Counted(_lack(value))
    if name.endswith("_cpu"):
        return _Counted(format_milli_cpu(value))
    return _Counted(format_bytes(value) if name.endswith("_bytes") else value)


def _lack(value: int) -> str:
    """What a cluster refuses; a later scheduler may know more of that."""
    known = {each.value: each.words for each in Unsupported}
    return known.get(value, "what it asks for")
