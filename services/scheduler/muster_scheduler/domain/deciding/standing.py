"""The queues of one pool as a tree of accounts, and the shares by which turns are taken.

Used by the engine: queues come and change by name; the arrays of `accounts` are then made anew and keep what is held.
Shares follow `shares.tree` level by level for each resource that quotas name.
Holds: queue 0 is the root; siblings stand together, by name, a level after their parents' level.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from muster_kernel.quantities import GPU
from muster_scheduler.domain.deciding.accounts import ENDLESS, UNNAMED, Tree, empty_tree
from muster_scheduler.domain.deciding.shapes import CPU, MEBIBYTES, QUEUE, UNITS
from muster_scheduler.domain.deciding.values import QueueSpec
from muster_scheduler.domain.fleet.columns import Columns, Ints64
from muster_scheduler.domain.shares.tree import Branch, fair_shares

ROOT: Final = ""
_STEPS: Final = (GPU, 1_000, 1_024)  # 1 GPU, 1 CPU, 1 GiB
_MEBIBYTE: Final = 1 << 20


class Standing:
    """The queues and their accounts."""

    def __init__(self) -> None:
        """Begins with the root alone."""
        self.specs: dict[str, QueueSpec] = {}
        self.rows: dict[str, int] = {ROOT: 0}
        self.names: list[str] = [ROOT]
        self.tree: Tree = empty_tree([-1])

    def put(self, specs: Sequence[QueueSpec]) -> None:
        """Takes queues as they stand now.

        Raises ValueError for a queue without name, or of which nobody knows the parent, or that stands below itself.
        """
        known = self.specs | {spec.name: spec for spec in specs}
        names = _ordered(known)
        held = {name: (self.tree.allocated[row].copy(), self.tree.bound[row].copy()) for name, row in self.rows.items()}
        self.specs, self.names, self.rows = known, names, {name: row for row, name in enumerate(names)}
        self.tree = empty_tree([-1] + [self.rows[known[name].parent] for name in names[1:]])
        for row, name in enumerate(names):
            if name in held:
                self.tree.allocated[row], self.tree.bound[row] = held[name]
            if name:
                self.tree.deserved[row] = [UNNAMED if x is None else x for x in known[name].deserved]
                self.tree.limit[row] = [ENDLESS if x is None else x for x in known[name].limit]

    def share(self, columns: Columns, shapes: Ints64, counts: Ints64) -> None:
        """Divides the pool anew: what runs and what waits is what queues want. counts: int64[classes] who waits."""
        wanted = self.tree.allocated.copy()
        leaves = self.tree.children == 0
        wanted[~leaves] = 0
        asked = shapes[:, (UNITS, CPU, MEBIBYTES)] * counts[:, None]
        known = shapes[:, QUEUE] >= 0
        np.add.at(wanted, shapes[known, QUEUE], asked[known])
        for resource, total in enumerate(_totals(columns)):
            if (self.tree.deserved[:, resource] != UNNAMED).any():
                self._divide(resource, total, wanted[:, resource].tolist())

    def _divide(self, resource: int, total: int, wanted: list[int]) -> None:
        branches = [self._branch(name, resource, wanted[row]) for row, name in enumerate(self.names) if row]
        shares = fair_shares(total, branches, _STEPS[resource])
        self.tree.share[0, resource] = total
        self.tree.share[1:, resource] = [share.fair for share in shares]

    def _branch(self, name: str, resource: int, wanted: int) -> Branch:
        spec = self.specs[name]
        return Branch(
            name,
            self.rows[spec.parent] - 1,
            spec.deserved[resource],
            spec.limit[resource],
            spec.weight,
            spec.rank,
            wanted,
        )


def _totals(columns: Columns) -> tuple[int, ...]:
    return (
        int(columns.idle_total.sum()) * GPU,
        int(columns.cpu_total.sum()),
        int(columns.memory_total.sum()) // _MEBIBYTE,
    )


def _ordered(specs: dict[str, QueueSpec]) -> list[str]:
    children: dict[str, list[str]] = {}
    for name in sorted(specs):
        if name == ROOT:
            raise ValueError("a queue needs a name; the empty one is the root")
        children.setdefault(specs[name].parent, []).append(name)
    names, at = [ROOT], 0
    while at < len(names):
        names += children.pop(names[at], [])
        at += 1
    if children:
        lost = sorted(name for below in children.values() for name in below)
        raise ValueError(f"queues {lost} hang at parents that are unknown or below themselves: {sorted(children)}")
    return names
