"""What departments and projects may look like: their names, namespaces, quotas, limits and rules.

Called when somebody makes or changes one. A quota below what is in use is legal and stops nothing, so nothing here
asks what is in use. Holds: everything that is wrong is said at once, each with the path of its field.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from muster_kernel.ids import check_name
from muster_kernel.quantities import GPU, MILLI
from muster_kernel.sentences import is_one
from muster_submission.domain.problems import Problem

DEFAULT_DEPARTMENT: Final = "default"
NAMESPACE_PREFIX: Final = "runai-"
NAME_LIMIT: Final = 63 - len(NAMESPACE_PREFIX)
MOST_POOLS: Final = 100
LARGEST_WEIGHT: Final = 1_000_000  # thousandths
LARGEST_QUOTA: Final = 7000 * 10_000_000  # in 1/7,000 GPU: ten million devices
LARGEST_CPU: Final = 10**12  # thousandths of a core
LARGEST_MEMORY: Final = 1 << 60  # bytes
LARGEST_RANK: Final = 1_000
LONGEST_RULE: Final = 10 * 366 * 24 * 3600  # seconds
LONGEST_TEXT: Final = 1_000
_RESERVED: Final = "runai"
_RESERVED_PREFIX: Final = "kube-"
_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_MODEL: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_. ]{0,61}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class Share:
    """What is deserved of one resource, and the most that may be held. None: not counted, no limit."""

    deserved: int | None
    limit: int | None = None
    weight: int | None = None


@dataclass(frozen=True, slots=True)
class Quota:
    """What is checked of a quota in one node pool, in 1/7,000 GPU."""

    node_pool: str
    deserved: int
    limit: int | None
    weight: int
    cpu: Share = Share(None)
    memory: Share = Share(None)


@dataclass(frozen=True, slots=True)
class Limits:
    """What departments and projects have beside quotas. rules: seconds by the field's name; None: no rule."""

    models: Sequence[tuple[str, int, int | None]] = ()
    users: Sequence[str] = ()
    """The node pools of the limits per user; '': all of them together."""
    rules: Mapping[str, int | None] = field(default_factory=dict)
    training_types: Sequence[str] = ()
    workspace_types: Sequence[str] = ()
    rank: int = 0
    description: str = ""


@dataclass(frozen=True, slots=True)
class _Measure:
    """How a resource is counted, and what its fields are called. Sentences say it in the units that people write."""

    deserved: str
    limit: str
    weight: str
    largest: int
    unit: int
    word: str
    one: str  # what a whole one or a part of it is called

    def said(self, amount: int) -> str:
        shown = decimal(amount, self.unit)
        return f"{shown} {self.one if is_one(shown) else self.word}"


_GPU: Final = _Measure("gpu_deserved", "gpu_limit", "over_quota_weight_milli", LARGEST_QUOTA, GPU, "GPUs", "GPU")
_CPU: Final = _Measure(
    "cpu_milli_deserved", "cpu_milli_limit", "cpu_over_quota_weight_milli", LARGEST_CPU, MILLI, "cores", "core"
)
_MEMORY: Final = _Measure(
    "memory_bytes_deserved",
    "memory_bytes_limit",
    "memory_over_quota_weight_milli",
    LARGEST_MEMORY,
    1 << 20,
    "MiB",
    "MiB",
)


def decimal(amount: int, unit: int) -> str:
    """An amount in larger units, with as many of three decimals as it has."""
    return f"{amount / unit:.3f}".rstrip("0").rstrip(".")


def namespace_of(project: str, asked: str) -> str:
    """The namespace of a project: the one asked for, else `runai-<name>`."""
    return asked or f"{NAMESPACE_PREFIX}{project}"


def check_project(name: str, namespace: str, quotas: Sequence[Quota], pools: Sequence[str]) -> list[Problem]:
    """Everything that is wrong with a project that somebody asks for. `namespace` empty: it follows from the name."""
    problems = [*_name("name", name, NAME_LIMIT if not namespace else 63)]
    if namespace:
        problems.extend(_name("namespace", namespace, 63))
        if namespace == _RESERVED or namespace.startswith(_RESERVED_PREFIX):
            problems.append(
                Problem("namespace", f"{namespace!r} is reserved: any but {_RESERVED} and {_RESERVED_PREFIX}*")
            )
    return [*problems, *check_default_pools(pools), *check_quotas(quotas)]


def check_department(name: str, quotas: Sequence[Quota]) -> list[Problem]:
    """Everything that is wrong with a department that somebody asks for."""
    return [*_name("name", name, 63), *check_quotas(quotas)]


def check_default_pools(pools: Sequence[str]) -> list[Problem]:
    """The node pools that are tried where a workload names none."""
    problems = [found for at, pool in enumerate(pools) for found in _name(f"default_node_pools.{at}", pool, 63)]
    problems.extend(_twice("default_node_pools", "node pool", pools))
    if len(pools) > MOST_POOLS:
        problems.append(Problem("default_node_pools", f"{len(pools)} node pools: at most {MOST_POOLS}"))
    return problems


def check_quotas(quotas: Sequence[Quota]) -> list[Problem]:
    """Quotas together: each of them, one a node pool, not too many."""
    problems = [found for at, quota in enumerate(quotas) for found in check_quota(f"quotas.{at}", quota)]
    named = [quota.node_pool for quota in quotas]
    problems.extend(
        Problem("quotas", f"node pool {pool} has {named.count(pool)} quotas: one is allowed")
        for pool in sorted({pool for pool in named if named.count(pool) > 1})
    )
    if len(quotas) > MOST_POOLS:
        problems.append(Problem("quotas", f"{len(quotas)} node pools: at most {MOST_POOLS}"))
    return problems


def check_quota(path: str, quota: Quota) -> list[Problem]:
    """Everything that is wrong with one quota."""
    problems = [*_name(f"{path}.node_pool", quota.node_pool, 63)]
    gpu = Share(quota.deserved, quota.limit, quota.weight)
    for share, measure in ((gpu, _GPU), (quota.cpu, _CPU), (quota.memory, _MEMORY)):
        problems.extend(_share(path, share, measure))
    return problems


def check_limits(asked: Limits, department: Mapping[str, int | None] | None = None) -> list[Problem]:
    """Everything that is wrong beside quotas. department: the rules above, which a project may only tighten."""
    problems = [*_models(asked.models), *_users(asked.users), *_rules(asked.rules, department or {})]
    for path, types in (("training", asked.training_types), ("workspace", asked.workspace_types)):
        problems.extend(_node_types(f"node_types.{path}", types))
    if asked.rank > LARGEST_RANK:
        problems.append(Problem("rank", f"{asked.rank}: 0 to {LARGEST_RANK} are allowed"))
    if len(asked.description) > LONGEST_TEXT or "\x00" in asked.description:
        problems.append(Problem("description", f"at most {LONGEST_TEXT} characters, none of them NUL"))
    return problems


def _share(path: str, share: Share, measure: _Measure) -> Iterable[Problem]:
    deserved, limit, most = share.deserved or 0, share.limit, measure.said(measure.largest)
    if deserved > measure.largest:
        yield Problem(f"{path}.{measure.deserved}", f"{measure.said(deserved)} is too much: at most {most}")
    if limit is not None and limit > measure.largest:
        yield Problem(f"{path}.{measure.limit}", f"{measure.said(limit)} is too much: at most {most}, or none")
    if limit is not None and limit < deserved:
        said = f"{measure.said(limit)} is below the {measure.said(deserved)} deserved: at least as much, or none"
        yield Problem(f"{path}.{measure.limit}", said)
    if share.weight is not None and share.weight > LARGEST_WEIGHT:
        given, most = (decimal(weight, MILLI) for weight in (share.weight, LARGEST_WEIGHT))
        yield Problem(f"{path}.{measure.weight}", f"{given} is no weight: 0 to {most} are allowed")


def _models(models: Sequence[tuple[str, int, int | None]]) -> Iterable[Problem]:
    for at, (model, deserved, limit) in enumerate(models):
        path = f"model_quotas.{at}"
        if not _MODEL.fullmatch(model):
            yield Problem(f"{path}.model", f"{model[:80]!r} is no GPU model: such as A100-40GB")
        yield from _share(path, Share(deserved, limit), _GPU)
    yield from _twice("model_quotas", "GPU model", [model for model, _, _ in models])
    if len(models) > MOST_POOLS:
        yield Problem("model_quotas", f"{len(models)} models: at most {MOST_POOLS}")


def _users(pools: Sequence[str]) -> Iterable[Problem]:
    for at, pool in enumerate(pools):
        if pool:
            yield from _name(f"user_limits.{at}.node_pool", pool, 63)
    yield from _twice("user_limits", "node pool", [pool or "(all)" for pool in pools])
    if len(pools) > MOST_POOLS:
        yield Problem("user_limits", f"{len(pools)} limits: at most {MOST_POOLS}")


def _rules(rules: Mapping[str, int | None], above: Mapping[str, int | None]) -> Iterable[Problem]:
    for name, seconds in rules.items():
        if seconds is None:
            continue
        cap = above.get(name)
        if not 1 <= seconds <= LONGEST_RULE:
            yield Problem(f"rules.{name}", f"{seconds}: 1 to {LONGEST_RULE} seconds, or none")
        elif cap is not None and seconds > cap:
            yield Problem(f"rules.{name}", f"{seconds} loosens the department's rule: at most {cap} seconds")


def _node_types(path: str, types: Sequence[str]) -> Iterable[Problem]:
    for at, one in enumerate(types):
        if not _LABEL_VALUE.fullmatch(one):
            yield Problem(f"{path}.{at}", f"{one[:80]!r} is no node type: the value of a label, at most 63 characters")
    yield from _twice(path, "node type", types)
    if len(types) > MOST_POOLS:
        yield Problem(path, f"{len(types)} node types: at most {MOST_POOLS}")


def _twice(path: str, what: str, names: Sequence[str]) -> Iterable[Problem]:
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Problem(path, f"{what} {name} stands {names.count(name)} times: once is allowed")


def _name(path: str, text: str, limit: int) -> Iterable[Problem]:
    try:
        check_name(text, limit=limit)
    except ValueError as error:
        yield Problem(path, str(error))
