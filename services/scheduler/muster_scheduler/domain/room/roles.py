"""Room for gangs whose roles differ, or that have a wish beyond one required level: judged by placing them.

Called by search.py where counting replicas of one shape cannot tell whether a gang fits. Each question is one
placement of the whole gang (gangs/place.py), so candidates are put back by halves: a stretch that may return altogether
costs one question, a single victim that must go costs the logarithm of its stretch.
Holds: what search.py holds, as far as the placement's own answers go; at most `_QUESTIONS` of them are asked.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from muster_scheduler.domain.room.stock import lift, stock_of
from muster_scheduler.domain.room.values import Fits, Ints, Judge, NoRoom, Obstacle, Question

_QUESTIONS: Final = 2_048
_TRIES: Final = 4  # orders tried


class _Asker:
    """Columns with some workloads lifted, and how often they may still be asked about."""

    def __init__(self, question: Question, fits: Fits) -> None:
        self._columns, self._fits, self._held = question.columns.scratch(), fits, question.running.held
        self._stock = stock_of(self._columns)
        self._gives, least = question.taker.released(question.running)
        self._spare = -least
        self.left = _QUESTIONS

    def lift(self, rows: Ints) -> None:
        lift(self._stock, self._held, rows, 1)
        self._spare += self._gives[rows].sum(axis=0)

    def put_back(self, rows: Ints) -> None:
        lift(self._stock, self._held, rows, -1)
        self._spare -= self._gives[rows].sum(axis=0)

    def fits(self) -> bool:
        if (self._spare < 0).any():
            return False
        self.left -= 1
        return self._fits(self._columns)


def search_gang(question: Question, order: Ints, fits: Fits, judge: Judge | None) -> tuple[int, ...] | NoRoom:
    """The victims, the first to go first, or why there is no room. order: candidates, the first to go first."""
    running, replicas = question.running, question.taker.size
    asker = _Asker(question, fits)
    asker.lift(order)
    if not asker.fits():
        return NoRoom(Obstacle.PLACES, (0, replicas))
    wanted = order
    for _ in range(_TRIES):
        gone = _reprieved(asker, wanted)
        if asker.left <= 0:
            break
        victims = order[np.isin(order, gone)]
        broken = judge(victims) if judge else None
        if broken is None or not broken.any():
            return tuple(victims.tolist())
        asker.lift(order[~np.isin(order, gone)])
        reluctant = broken[running.queue[wanted]]
        wanted = np.concatenate((wanted[~reluctant], wanted[reluctant]))
    return NoRoom(Obstacle.VICTIMS, (replicas, replicas), exact=False)


def _reprieved(asker: _Asker, order: Ints) -> list[int]:
    """Puts back, from the last on, whoever may stay; who is left is gone. Before: all of the order is lifted."""
    gone: list[int] = []
    stretches = [order]
    while stretches and asker.left > 0:
        stretch = stretches.pop()
        if not len(stretch):
            continue
        asker.put_back(stretch)
        if asker.fits():
            continue
        asker.lift(stretch)
        if len(stretch) == 1:
            gone.append(int(stretch[0]))
        else:
            half = len(stretch) // 2
            stretches += [stretch[:half], stretch[half:]]
    return gone
