"""Which nodes are close to each other: the domains that nodes' labels form, level by level.

Made once for a node pool and a list of label keys (outermost first, such as block, rack), kept until a node's labels
change; read by gangs/place.py, which places gangs inside of domains.
Holds: a domain is named by its whole path, so that rack 1 of one block is not rack 1 of another; a node without the
label of a level is in no domain of that level; numbers and order follow the labels alone, never the order of reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

NOWHERE: Final = -1  # the domain of a node without that level's label

Labels = Iterable[tuple[str, str]]
_Path = tuple[str | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Topology:
    """The levels of one node pool with n nodes.

    keys: label keys, outermost first. domain: int32[levels, n], the domain of each node or NOWHERE; domains of a level
    count from 0. names: the paths of each level's domains. order: int64[n], node ordinals such that every domain's
    nodes stand together; nodes without a label stand behind the others. apart: int32[n], the domains that hold one
    replica of a gang each, NOWHERE for nodes that hold none; None where replicas may stand beside each other.
    """

    keys: tuple[str, ...]
    domain: NDArray[np.int32]
    names: tuple[tuple[str, ...], ...]
    order: NDArray[np.int64]
    apart: NDArray[np.int32] | None = None

    def level(self, key: str) -> int | None:
        """The number of the level with that label key, 0 the outermost; None where the pool has no such level."""
        return self.keys.index(key) if key in self.keys else None

    def size(self, level: int) -> int:
        """How many domains a level has."""
        return len(self.names[level])


def topology_of(keys: Sequence[str], labels: Sequence[Labels]) -> Topology:
    """The topology of nodes 0..n-1 with these labels. A key that is given twice counts once."""
    levels = tuple(dict.fromkeys(keys))
    paths = [_path(levels, dict(each)) for each in labels]
    domain = np.full((len(levels), len(paths)), NOWHERE, np.int32)
    names: list[tuple[str, ...]] = []
    for level in range(len(levels)):
        cut = [path[: level + 1] for path in paths]
        found = sorted({path for path in cut if path[-1] is not None}, key=_labelled_first)
        number = {path: ordinal for ordinal, path in enumerate(found)}
        domain[level] = [number.get(path, NOWHERE) for path in cut]
        names.append(tuple("/".join(part or "-" for part in path) for path in found))
    order = sorted(range(len(paths)), key=lambda node: (_labelled_first(paths[node]), node))
    return Topology(levels, domain, tuple(names), np.array(order, np.int64))


def flat(nodes: int) -> Topology:
    """The topology of a pool whose nodes are all alike."""
    return Topology((), np.empty((0, nodes), np.int32), (), np.arange(nodes, dtype=np.int64))


def _path(keys: Sequence[str], labels: dict[str, str]) -> _Path:
    return tuple(labels.get(key) for key in keys)


def _labelled_first(path: _Path) -> tuple[tuple[bool, str], ...]:
    return tuple((part is None, part or "") for part in path)
