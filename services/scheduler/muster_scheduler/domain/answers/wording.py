"""The words in which amounts, requests and excluded nodes are told to a person.

Used by explanations. Holds: an amount of one takes the singular, of nodes as of GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from muster_kernel.quantities import GPU, format_bytes, format_gpu
from muster_kernel.reasons import Constraint, Unsupported
from muster_kernel.sentences import is_one
from muster_scheduler.domain.asked.requests import STORAGE, Kind, Role, Shape
from muster_scheduler.domain.asked.workloads import SECOND, Request

_FEW: Final = 2  # of a unit: below that the smaller one is told


def _has(what: str) -> tuple[str, str]:
    return f"has {what}", f"have {what}"


# What is said of one node and of several.
PHRASES: Final[dict[Constraint, tuple[str, str]]] = {
    Constraint.DATA_MISSING: (
        "is in a cluster without the data of the workload",
        "are in clusters without the data of the workload",
    ),
    Constraint.WRONG_CLUSTER: ("is in a cluster that it may not use", "are in clusters that it may not use"),
    Constraint.WRONG_POOL: ("is in another node pool", "are in other node pools"),
    Constraint.WRONG_NODE_TYPE: ("is of another type", "are of another type"),
    Constraint.MODEL_CLOSED: _has("GPUs of a model of which a quota leaves too few"),
    Constraint.RESERVED: (
        "is kept for a workload whose turn comes first",
        "are kept for a workload whose turn comes first",
    ),
    Constraint.CLUSTER_SILENT: (
        "is in a cluster that was not heard lately, or whose agent has an unfit version",
        "are in clusters that were not heard lately, or whose agents have an unfit version",
    ),
    Constraint.NODE_UNAVAILABLE: ("takes no new work", "take no new work"),
    Constraint.TAINTED: _has("a taint that it does not tolerate"),
    Constraint.CLOSES_TOO_SOON: _has("to be empty before its longest run would be over"),
    Constraint.REFUSED_BEFORE: ("refused it lately", "refused it lately"),
    Constraint.NO_GPU: _has("no such GPU"),
    Constraint.DEVICE_TOO_SMALL: _has("GPUs with too little memory"),
    Constraint.NO_IDLE_GPU: _has("no idle GPU"),
    Constraint.TOO_FEW_GPUS: _has("too few idle GPUs"),
    Constraint.NO_PORTION: _has("no GPU with that portion free"),
    Constraint.NO_DEVICE_MEMORY: _has("no GPU with that much memory free"),
    Constraint.NO_SLICE: _has("no room for that MIG slice"),
    Constraint.CPU: _has("too little free CPU"),
    Constraint.MEMORY: _has("too little free memory"),
    Constraint.REPLICAS_FULL: ("may run no more pods", "may run no more pods"),
    Constraint.FITS: ("would do", "would do"),
}
# The same of nodes that would be too small even if nobody were on them: no wait helps there.
IDLE_PHRASES: Final[dict[Constraint, tuple[str, str]]] = {
    Constraint.NO_IDLE_GPU: _has("no whole GPU"),
    Constraint.TOO_FEW_GPUS: _has("too few GPUs"),
    Constraint.NO_PORTION: _has("too few GPUs to share"),
    Constraint.NO_DEVICE_MEMORY: _has("too few GPUs with that much memory"),
    Constraint.NO_SLICE: _has("no GPU that gives that MIG slice"),
    Constraint.CPU: _has("too little CPU"),
    Constraint.MEMORY: _has("too little memory"),
}


def not_supported(lack: Unsupported, fields: Sequence[str]) -> tuple[str, str]:
    """What is said of one node and of several in clusters that refuse something. fields: those that they refuse."""
    named = ", ".join(fields) or lack.words
    return f"is in a cluster that does not support {named}", f"are in clusters that do not support {named}"


def unhealthy(number: int) -> tuple[str, str]:
    """What is said of one node and of several that have so many unhealthy GPUs each, and would do if they had none."""
    gpu = "1 unhealthy GPU" if number == 1 else f"{number} unhealthy GPUs"
    return f"has {gpu} and too little free beside", f"have {gpu} each and too little free beside"


def in_mig(number: int) -> tuple[str, str]:
    """The texts for one node and for several that have so many GPUs in MIG mode each, which give slices alone."""
    gpu = "1 GPU" if number == 1 else f"{number} GPUs"
    rest = f"{gpu} in MIG mode, for slices alone, and too few others"
    return _has(rest)


def disputed(number: int) -> tuple[str, str]:
    """What is said of one node and of several that have so many GPUs each which another node reports as well."""
    gpu = "1 GPU" if number == 1 else f"{number} GPUs"
    return (
        f"has {gpu} that another node reports too, and too little free beside",
        f"have {gpu} each that other nodes report too, and too little free beside",
    )


def not_tolerated(taints: Sequence[tuple[str, str, str]]) -> tuple[str, str]:
    """What is said of one node and of several with these taints, which the workload does not tolerate."""
    one = len(taints) == 1
    named = ", ".join(taint_in_words(taint) for taint in taints)
    return _has(f"the {'taint' if one else 'taints'} {named}, which it does not tolerate")


def taint_in_words(taint: tuple[str, str, str]) -> str:
    """A taint as people write it: `team=x:NoSchedule`."""
    key, value, effect = taint
    return f"{key}={value}:{effect}" if value else f"{key}:{effect}"


def wrong_type(types: Sequence[str], allowed: Sequence[str]) -> tuple[str, str]:
    """What is said of one node and of several of such types. allowed: those that the workload may use."""
    of = f"of type {' and '.join(types)}" if types else "of no type"
    may = f"it may use {' or '.join(allowed)}" if allowed else "its own and its project's types have none in common"
    return f"is {of} ({may})", f"are {of} ({may})"


def closed_models_in_words(models: Sequence[str]) -> tuple[str, str]:
    """What is said of one node and of several with GPUs of models of which quotas leave too little."""
    return _has(f"GPUs of {' and '.join(models)}, of which a quota leaves too few")


def elsewhere(kind: str, name: str, asked: Sequence[str]) -> tuple[str, str]:
    """What is said of one node and of several in a place that is not asked for, where nothing is in those that are."""
    where = f"in {kind} {name}, not in {' or '.join(asked)}"
    return f"is {where}", f"are {where}"


def refused_by_policy(cluster: str) -> tuple[str, str]:
    """The words about one node, and about several, in a cluster whose own policy objects to the workload."""
    where = f"cluster {cluster}, whose policy does not admit the workload"
    return f"is in {where}", f"are in {where}"


def without_data(place: str) -> tuple[str, str]:
    """The words about one node, and about several, in a cluster without the data of the workload."""
    where = f"cluster {place}, where the data of the workload is"
    return f"is not in {where}", f"are not in {where}"


def without_objects(what: str) -> tuple[str, str]:
    """The words about one node, and about several, in a cluster without objects that the workload mounts."""
    return f"is in a cluster without {what}", f"are in clusters without {what}"


def too_little(names: Sequence[str], *, free: bool) -> tuple[str, str]:
    """What is said of one node and of several that lack these named resources. free: others hold them."""
    return _has(f"too little {' and '.join(names)}{' free' if free else ''}")


def asks(request: Request) -> str:
    """What a gang asks for, in words, or each of some trials; an elastic one what it needs, and how far it grows."""
    roles, trials, stretch = request.roles, request.trials, request.stretch
    parts = [_role(role, len(roles) > 1) for role in roles if role.shape.kind is not Kind.NONE] or [
        _role(role, len(roles) > 1) for role in roles
    ]
    each = ", ".join(parts) or "no replica"
    if trials:
        return f"{each} for each of {trials.completions} trials, {trials.at_once} at once"
    return f"{each}, and more up to {stretch.most} replicas while nobody waits" if stretch else each


def _role(role: Role, named: bool) -> str:  # noqa: FBT001 - whether to say whose it is
    each = shape_in_words(role.shape)
    many = f"{role.size} x {each}" if role.size != 1 else each
    return f"{many} ({role.name})" if named else many


def shape_in_words(shape: Shape) -> str:
    """What one replica asks for."""
    match shape.kind:
        case Kind.NONE:
            return _host_in_words(shape)
        case Kind.WHOLE:
            return gpus(shape.devices * GPU)
        case Kind.PORTION:
            each = f"{shape.milli / 1000:g} GPU"
            return each if shape.devices == 1 else f"{each} on each of {shape.devices} devices"
        case Kind.MEMORY:
            return f"{format_bytes(shape.bytes)} of GPU memory"
        case Kind.SLICE:
            return f"a {shape.profile} slice"


def _host_in_words(shape: Shape) -> str:
    parts = [f"{shape.cpu / 1000:g} CPU"] if shape.cpu else []
    parts += [format_bytes(shape.memory)] if shape.memory else []
    return ", ".join([*parts, *(named_amount(*each) for each in shape.extra)]) or "a place without GPUs, CPU or memory"


def named_amount(name: str, amount: int) -> str:
    """So much of a named resource: `2 vendor.example/nic`, `60Gi of ephemeral-storage`."""
    return f"{format_bytes(amount)} of {name}" if name == STORAGE else f"{amount} {name}"


def span(micros: int) -> str:
    """A length of time: `40 s`, `12 min`, `3 h 10 min`, `9 days`."""
    seconds = max(0, micros) // SECOND
    minutes, hours = seconds // 60, seconds // 3600
    if minutes < _FEW:
        return f"{seconds} s"
    if hours < _FEW:
        return f"{minutes} min"
    return f"{hours} h {minutes % 60} min" if hours < _FEW * 24 else f"{hours // 24} days"


def gpus(units: int) -> str:
    """An account in words: `1 GPU`, `0.5 GPU`, `6 GPUs`."""
    shown = format_gpu(units)
    return f"{shown} GPU" if is_one(shown) else f"{shown} GPUs"
