"""Consolidate: preemptible work moves together, so that what is free in sum is free in one place. Nobody loses a place.

Called by evictions.py before anybody is asked to give way. Any queue's work may move, since it keeps all that it holds.
Holds: the taker and every workload that moves have their places at once, on one set of columns; a workload that finds
no other place is left where it is and the rest is tried again, `TRIES` times at most.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from muster_scheduler.domain.fleet.columns import Columns
from muster_scheduler.domain.room.search import search
from muster_scheduler.domain.room.stock import lift, stock_of
from muster_scheduler.domain.room.values import Ints, Law, NoRoom, Obstacle, Question, Running, Vacated

MOST: Final = 16  # workloads that move for one taker
TRIES: Final = 4  # searches, each with those who may still move

Settle = Callable[[Columns, int], bool]
"""Places a row of Running (-1: the taker) on these columns and takes what it needs; False where there is no place."""


def consolidate(question: Question, settle: Settle) -> Vacated | NoRoom:
    """Who moves for the taker. The places are those that `settle` was last asked for: the taker first, then movers."""
    columns, running = question.columns, question.running
    movable = np.arange(len(running))
    stuck = 0
    for _ in range(TRIES):
        made = search(question, _smallest_first(running, movable), None, _fewest(running))
        if isinstance(made, NoRoom):
            return made
        homeless = _homeless(columns, running, made, settle) if len(made.victims) <= MOST else None
        if homeless == ():
            return made
        stuck += len(homeless or made.victims)
        movable = movable[~np.isin(movable, homeless or made.victims)]
    return NoRoom(Obstacle.HOMES, (stuck, stuck), exact=False)


def _smallest_first(running: Running, rows: Ints) -> Ints:
    """Little is moved rather than much, then the law's order."""
    keys = (running.key, -running.placed, running.lost, running.units[:, 0])
    ranked: Ints = rows[np.lexsort([key[rows] for key in keys])]
    return ranked


def _fewest(running: Running) -> Law:
    """The fewest workloads move, then the least that they hold, then the least work that is lost."""
    one = np.ones(len(running), np.int64)
    return Law(np.zeros_like(one), np.stack((one, running.units[:, 0], running.lost), axis=1))


def _homeless(columns: Columns, running: Running, made: Vacated, settle: Settle) -> tuple[int, ...]:
    """Those of the movers who find no place beside the taker; the largest are placed first."""
    scratch = columns.scratch()
    lift(stock_of(scratch), running.held, np.array(made.victims, np.int64), 1)
    if not settle(scratch, -1):
        return made.victims
    in_turn = sorted(made.victims, key=lambda row: (-int(running.units[row, 0]), int(running.key[row])))
    return tuple(row for row in in_turn if not settle(scratch, row))
