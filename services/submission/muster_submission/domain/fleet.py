"""Clusters and node pools as the tenancy sees them: a cluster's UUID, and what a node pool may look like.

Called where the REST API names a cluster (it knows them by UUID, Muster by name), and when somebody makes or changes a
node pool. Holds: one name has one UUID, for ever and on every instance.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from muster_kernel.ids import check_name, uuid5
from muster_submission.domain.problems import Problem

DEFAULT_POOL: Final = "default"
ANY_CLUSTER: Final = "00000000-0000-0000-0000-000000000000"
"""The UUID that means: whichever."""
LARGEST_RATIO: Final = 1000
MOST_LEVELS: Final = 8
_CLUSTERS: Final = "6f3f1c0e-58b4-5c7a-9a53-0d4f5c2b7e11"
_LABEL_PART: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def cluster_uuid(name: str) -> str:
    """The UUID of a cluster: version 5 of its name, so that it needs no book."""
    return uuid5(_CLUSTERS, name)


@dataclass(frozen=True, slots=True)
class Pool:
    """What is checked of a node pool."""

    name: str
    label_key: str
    label_value: str
    over_provisioning_ratio: int
    topology_levels: tuple[str, ...] = ()


def check_pool(pool: Pool, *, label_needed: bool = True) -> list[Problem]:
    """Everything that is wrong with a node pool that somebody asks for.

    label_needed: False for one that was seen on nodes, whose label only its agent knows.
    """
    problems = [*_name(pool.name)]
    if pool.name == DEFAULT_POOL and (pool.label_key or pool.label_value):
        problems.append(Problem("label_key", f"{DEFAULT_POOL} has the nodes that no other pool has: it has no label"))
    if pool.name != DEFAULT_POOL and (label_needed or pool.label_key or pool.label_value):
        problems.extend(_label(pool.label_key, pool.label_value))
    if pool.over_provisioning_ratio > LARGEST_RATIO:
        said = f"{pool.over_provisioning_ratio} is too large: 1 to {LARGEST_RATIO}, or left out"
        problems.append(Problem("over_provisioning_ratio", said))
    problems.extend(_levels(pool.topology_levels))
    return problems


def _levels(keys: tuple[str, ...]) -> Iterable[Problem]:
    if len(keys) > MOST_LEVELS:
        yield Problem("topology_levels", f"{len(keys)} levels are given: at most {MOST_LEVELS}")
    for place, key in enumerate(keys[:MOST_LEVELS]):
        if not _is_key(key):
            given = repr(key[:80]) if key else "nothing"
            said = f"{given} is no key of a label: such as topology.kubernetes.io/rack, its name at most 63 characters"
            yield Problem(f"topology_levels.{place}", said)
        elif key in keys[:place]:
            yield Problem(f"topology_levels.{place}", f"{key!r} is given twice: each level once, the widest first")


def _is_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    return bool(_LABEL_PART.fullmatch(name)) and (not slash or bool(_PREFIX.fullmatch(prefix)))


def _name(name: str) -> Iterable[Problem]:
    try:
        check_name(name)
    except ValueError as error:
        yield Problem("name", str(error))


def _label(key: str, value: str) -> Iterable[Problem]:
    if not _is_key(key):
        given = repr(key[:80]) if key else "nothing"
        yield Problem("label_key", f"{given} is no key of a label: such as run.ai/type, its name at most 63 characters")
    if not _LABEL_PART.fullmatch(value):
        given = repr(value[:80]) if value else "nothing"
        allowed = "letters, digits, '-', '_' and '.', at most 63 characters, first and last a letter or digit"
        yield Problem("label_value", f"{given} is no value of a label that selects nodes: {allowed}")
