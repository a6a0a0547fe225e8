"""Of which nodes enough whole cards could move away at most: elsewhere no search for movers is worth its time.

Called by moving.py for a taker that is one replica of whole cards. A search over 64 nodes costs ten milliseconds; most
that find nothing do so because nobody has a hole that is wide enough for those who would have to go.
Holds: an upper bound. Whoever has to leave for a single replica stands, with one of its replicas at least, on the node
that this will use, and none of them could go back there, else it need not leave: so each needs a hole elsewhere as
wide as it is itself. CPU, memory and what keeps a mover from a node are not looked at; nor is, as one that holds
several places on the node, a gang of which part might return.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from muster_scheduler.domain.asked.requests import Grant, Kind
from muster_scheduler.domain.asked.workloads import Workload
from muster_scheduler.domain.fleet.columns import IDLE, SHARED, SLOTS, Columns
from muster_scheduler.domain.fleet.nodes import Node
from muster_scheduler.domain.room.consolidate import MOST

Key = tuple[str, str]


class Crowd(NamedTuple):
    """A node and who may move away from it, by id."""

    node: Node
    movers: tuple[Workload, ...]


class Holes:
    """The idle cards of a pool as whoever moves sees them."""

    def __init__(self, columns: Columns) -> None:
        """columns: those who leave anyway are gone already."""
        mode = columns.mode
        named = ((mode == IDLE) | (mode == SHARED)).sum(axis=1)
        self._idle: list[int] = np.where(columns.open, np.maximum(columns.idle, 0), 0).tolist()
        self._loose: list[int] = np.where(
            mode.any(axis=1), named, columns.idle
        ).tolist()  # without those who hold whole cards
        self._places = _places(self._idle)

    def wide_enough(self, crowd: Crowd, cards: int) -> bool:
        """Whether so many cards of the node could be idle once some of these have moved; False is certain."""
        at = crowd.node.ordinal
        lacking = cards - self._loose[at]
        widths = [_cards_on(mover, crowd.node.key) for mover in crowd.movers]
        if lacking <= 0 or None in widths:
            return True
        places = self._without(at, crowd)
        moved, freed = 0, 0
        for width in sorted((each for each in widths if each), reverse=True):
            # Whoever is at least as wide needs such a hole too: of nested bounds the widest first is the best.
            if moved < min(MOST, places[min(width, SLOTS)]):
                moved, freed = moved + 1, freed + width
        return freed >= lacking

    def _without(self, at: int, crowd: Crowd) -> list[int]:
        """How many of each width find a place elsewhere, where movers of this node leave other nodes too."""
        elsewhere = [r for w in crowd.movers if len(w.replicas) > 1 for r in w.everyone() if r.node != crowd.node.key]
        if not elsewhere:
            own = self._idle[at]
            return [known - (own // width if width else 0) for width, known in enumerate(self._places)]
        return [len(crowd.movers)] * (SLOTS + 1)


def _places(idle: Sequence[int]) -> list[int]:
    """By width: how many workloads that wide the idle cards of all nodes hold."""
    sizes = np.bincount(np.array(idle, np.int64)) if idle else np.zeros(1, np.int64)
    return [0, *(int((np.arange(len(sizes)) // width * sizes).sum()) for width in range(1, SLOTS + 1))]


def _cards_on(mover: Workload, node: Key) -> int | None:
    """The whole cards that it holds on a node; None: in several places, of which it might get some back."""
    held = [replica.grant for replica in mover.everyone() if replica.charged and replica.node == node]
    return _whole(held[0]) if len(held) == 1 else None


def _whole(grant: Grant) -> int:
    """Whole cards of a grant: shared ones count as idle already."""
    return grant.slots or sum(1 for share in grant.shares if share.kind is Kind.WHOLE)
