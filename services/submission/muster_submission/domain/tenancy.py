"""What a project may look like: its names, its namespace, its quotas.

Called when somebody makes a project or sets a quota. A quota below what is in use is legal and stops nothing, so
nothing here asks what is in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from muster_kernel.ids import check_name
from muster_submission.domain.problems import Problem

DEFAULT_DEPARTMENT: Final = "default"
NAMESPACE_PREFIX: Final = "runai-"
NAME_LIMIT: Final = 63 - len(NAMESPACE_PREFIX)
MOST_POOLS: Final = 100
LARGEST_WEIGHT: Final = 1_000_000  # thousandths
LARGEST_QUOTA: Final = 7000 * 10_000_000  # in 1/7,000 GPU: ten million devices
_RESERVED: Final = "runai"
_RESERVED_PREFIX: Final = "kube-"


@dataclass(frozen=True, slots=True)
class Quota:
    """What is checked of a quota in one node pool, in 1/7,000 GPU."""

    node_pool: str
    deserved: int
    limit: int | None
    weight: int


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
    for position, pool in enumerate(pools):
        problems.extend(_name(f"default_node_pools.{position}", pool, 63))
    for position, quota in enumerate(quotas):
        problems.extend(check_quota(f"quotas.{position}", quota))
    named = [quota.node_pool for quota in quotas]
    problems.extend(
        Problem("quotas", f"node pool {pool} has {named.count(pool)} quotas: one is allowed")
        for pool in sorted({pool for pool in named if named.count(pool) > 1})
    )
    if len(quotas) > MOST_POOLS or len(pools) > MOST_POOLS:
        problems.append(Problem("quotas", f"more than {MOST_POOLS} node pools"))
    return problems


def check_quota(path: str, quota: Quota) -> list[Problem]:
    """Everything that is wrong with one quota."""
    problems = [*_name(f"{path}.node_pool", quota.node_pool, 63)]
    if quota.deserved > LARGEST_QUOTA:
        problems.append(
            Problem(f"{path}.gpu_deserved", f"{quota.deserved} is too large: at most {LARGEST_QUOTA} (1/7,000 GPU)")
        )
    if quota.limit is not None and quota.limit < quota.deserved:
        problems.append(
            Problem(
                f"{path}.gpu_limit", f"{quota.limit} is below gpu_deserved {quota.deserved}: at least as much, or none"
            )
        )
    if quota.weight > LARGEST_WEIGHT:
        problems.append(Problem(f"{path}.over_quota_weight_milli", f"{quota.weight}: 0 to {LARGEST_WEIGHT} are allowed"))
    return problems


def _name(path: str, text: str, limit: int) -> Iterable[Problem]:
    try:
        check_name(text, limit=limit)
    except ValueError as error:
        yield Problem(path, str(error))
