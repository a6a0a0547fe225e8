"""The index over the live columns of one pool: where one replica goes that is placed alone, or a batch of them.

Kept by the capacity of the pool, which writes every changed row through it; asked by placement for single replicas in
pools that pack or spread, and by the cycle for many heads at once. Derived: made of the columns when first asked for.
Holds: the index stands for the rows as they are (`check`); a few sets of eligible nodes are remembered, by what is in
them, so that they need not be undone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from muster_scheduler.domain.asked.requests import Shape
from muster_scheduler.domain.deciding.accounts import Tree
from muster_scheduler.domain.deciding.batch import PLACED, Heads, decide
from muster_scheduler.domain.deciding.bitmaps import fill
from muster_scheduler.domain.deciding.index import index_of, most_idle
from muster_scheduler.domain.deciding.rewriting import rewrite
from muster_scheduler.domain.deciding.searching import search
from muster_scheduler.domain.deciding.shapes import BINPACK, ELIGIBLE, SPREAD, STRATEGY, Terms, row_of
from muster_scheduler.domain.fleet.columns import Bools, Columns, Ints64, record_of
from muster_scheduler.domain.fleet.eligibility import Eligibility
from muster_scheduler.domain.fleet.nodes import Node
from muster_scheduler.domain.fleet.taking import Run

_SETS: Final = 513  # of eligible nodes; the first is that of all
_SHAPES: Final = 4_096


class Outcome(NamedTuple):
    """placed: int64[m, PLACED], as `batch.decide` writes it; left: what is left of the budget."""

    placed: Ints64
    left: int


class Seeker:
    """One pool."""

    __slots__ = ("_columns", "_index", "_sets", "_shapes", "numbers")

    def __init__(self, columns: Columns) -> None:
        """Indexes the columns, which have to be written through `renew` from now on."""
        everyone = np.ones(len(columns), np.bool_)
        self._columns, self._index = columns, index_of(columns, everyone, _SETS)
        self._sets: dict[bytes, int] = {everyone.tobytes(): 0}
        self._shapes: dict[Shape, Ints64] = {}
        self.numbers: dict[Eligibility, int] = {}  # of sets that are the same at any time, for whoever asked for them

    def renew(self, nodes: Iterable[Node]) -> None:
        """These nodes are as the books say now."""
        rewrite(self._index, np.frombuffer(bytearray().join(map(record_of, nodes)), np.int64))

    def find(self, shape: Shape, eligible: Bools, *, spread: bool = False) -> tuple[Run | None, int]:
        """The best eligible node for one replica with its devices, and how many nodes had to be tested for that."""
        asked = self._asked(shape)
        asked[ELIGIBLE] = self._set(eligible)
        asked[STRATEGY] = SPREAD if spread else BINPACK
        found = search(self._index, asked)
        run = Run(found.node, 0, 1, found.mask, found.start) if found.node >= 0 else None
        return run, found.visits

    def decide(self, tree: Tree, shapes: Ints64, heads: Heads, visits: int) -> Outcome:
        """Places a batch of heads in rows and index; the books have to follow. shapes: the row of each head's class.

        visits: the budget, as `find` counts them, a hundred of them and each head one.
        """
        placed = np.zeros((len(shapes), PLACED), np.int64)
        count, left = decide(self._index, tree, shapes, heads, placed, visits)
        return Outcome(placed[:count], left)

    def number(self, eligible: Bools) -> int | None:
        """The row of a set of eligible nodes, for the shapes of a batch; None where no row is free for it.

        The rows in `numbers` are forgotten with the sets.
        """
        content = eligible.tobytes()
        known = self._sets.get(content)
        if known is None and len(self._sets) < _SETS:
            known = self._sets[content] = len(self._sets)
            fill(self._index.eligible, known, eligible)
        return known

    def _asked(self, shape: Shape) -> Ints64:
        known = self._shapes.get(shape)
        if known is None:
            if len(self._shapes) >= _SHAPES:
                self._shapes.clear()
            known = self._shapes[shape] = np.array(row_of(shape, Terms()), np.int64)
        return known

    def _set(self, eligible: Bools) -> int:
        known = self.number(eligible)
        if known is None:
            # All but that of all nodes are forgotten: which set has which number decides nothing.
            self._sets = {everyone: row for everyone, row in self._sets.items() if row == 0}
            self.numbers.clear()
            known = self._sets[eligible.tobytes()] = len(self._sets)
            fill(self._index.eligible, known, eligible)
        return known

    def check(self) -> None:
        """Raises AssertionError where the index is not what the rows say."""
        everyone = np.ones(len(self._columns), np.bool_)
        fresh = index_of(self._columns, everyone, most=most_idle(self._index))
        for name in ("idle", "shared", "sliced"):
            kept, made = getattr(self._index, name), getattr(fresh, name)
            if not all(np.array_equal(one, other) for one, other in zip(kept, made, strict=True)):
                raise AssertionError(f"the index of {name} is not what the rows say")
