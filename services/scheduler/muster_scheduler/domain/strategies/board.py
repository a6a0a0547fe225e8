"""The board of a pool whose strategy looks ahead: which node, and which of its devices, one replica should take.

Asked by placement. Scores are kept per (class, node) and made anew only for nodes that changed.
Holds: what is kept never changes an answer; the board changes no column; among equal scores the first node is taken,
on it the first device.
"""

from __future__ import annotations

from typing import Final

from muster_scheduler.domain.fleet.columns import Bools, Columns
from muster_scheduler.domain.fleet.taking import Run
from muster_scheduler.domain.strategies.outlook import Outlook
from muster_scheduler.domain.strategies.popularity import Asked
from muster_scheduler.domain.strategies.scores import best, no_scores, rows_of, widened
from muster_scheduler.domain.strategies.states import no_states

CLASSES: Final = 128  # rows of scores kept; a pool that sees more shapes begins anew
STATES: Final = 1 << 18


class Board:
    """Scores of one (cluster, node pool) under one outlook."""

    __slots__ = ("_numbers", "_outlook", "_rows", "_scores", "_states")

    def __init__(self, columns: Columns, outlook: Outlook, states: int = STATES) -> None:
        """states: how many states of nodes are remembered, a power of two."""
        self._outlook = outlook
        self._rows = rows_of(columns)
        self._scores = no_scores(8, len(columns))
        self._states = no_states(states)
        self._numbers: dict[Asked, int] = {}

    def changed(self, node: int) -> None:
        """The row of this node is another one now: to be told before the next choice."""
        self._rows.version[node] += 1

    def choose(self, asked: Asked, eligible: Bools) -> Run | None:
        """The node and its devices where one replica adds least to what is lost; None where it fits nowhere.

        eligible: [n] the nodes that may take it: open, of its type, with whatever the board does not look at.
        A node with anonymous devices serves whole ones, with an empty mask.
        """
        number = self._number(asked)
        node, mask = best(self._outlook, self._rows, self._states, self._scores, number, asked, eligible)
        return Run(int(node), 0, 1, int(mask)) if node >= 0 else None

    def _number(self, asked: Asked) -> int:
        if (known := self._numbers.get(asked)) is not None:
            return known
        if len(self._numbers) == CLASSES:
            self._numbers.clear()
            self._scores.stamp.fill(-1)
        number = self._numbers[asked] = len(self._numbers)
        if number == len(self._scores.score):
            self._scores = widened(self._scores)
        return number
