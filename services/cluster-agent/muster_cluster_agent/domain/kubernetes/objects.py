"""Claims and ConfigMaps of one namespace as the inventory names them (kubernetes.md 10.4). Pure.

Holds: an entry fits one record of Kafka, however many objects the namespace has.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import Final

from muster_cluster_agent.domain.fleet import NamespaceObjects

MOST_NAMES: Final = 2_000
"""Names of each kind in one entry."""
MOST_BYTES: Final = 256 << 10
"""Bytes of the names of each kind in one entry: names have up to 253 bytes."""


def objects_of(namespace: str, claims: Iterable[str], config_maps: Iterable[str]) -> NamespaceObjects:
    """Return the entry of a namespace: the first names in their order, and whether there are more."""
    all_claims, all_maps = sorted(claims), sorted(config_maps)
    named_claims, named_maps = _first(all_claims), _first(all_maps)
    truncated = len(named_claims) < len(all_claims) or len(named_maps) < len(all_maps)
    return NamespaceObjects(namespace, named_claims, named_maps, truncated)


def _first(names: list[str]) -> tuple[str, ...]:
    few = names[:MOST_NAMES]
    sizes = accumulate(len(name) + 3 for name in few)  # a name has a tag and a length of two bytes at most
    return tuple(name for name, size in zip(few, sizes, strict=True) if size <= MOST_BYTES)
