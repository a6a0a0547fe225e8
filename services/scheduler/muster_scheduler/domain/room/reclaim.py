"""Reclaim: a queue below its share takes back what queues above theirs hold, with the fewest interruptions.

Called by the cycle for a head that has quota but no place, once moving others has not helped. Two clauses are tried in
turn, fair share and deserved quota (fairness.py). Before anything is simulated, two necessary tests end most hopeless
cases in microseconds: whether the taker's own queues may hold that much, and whether enough could be freed at all.
Holds: what `fairness` and `search` hold; a refusal carries the numbers of the test that failed.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from muster_kernel.quantities import GPU, UNITS_PER_MILLI
from muster_scheduler.domain.asked.requests import Kind
from muster_scheduler.domain.fleet.columns import CLOSED, SLICED, Columns
from muster_scheduler.domain.room.fairness import Terms, broken, freeable, possible, terms
from muster_scheduler.domain.room.ranking import by_excess, law_of
from muster_scheduler.domain.room.search import search
from muster_scheduler.domain.room.stock import count, need_of, stock_of
from muster_scheduler.domain.room.values import (
    TOP,
    Bools,
    Ints,
    Judge,
    NoRoom,
    Obstacle,
    Question,
    Running,
    Taker,
    Tree,
    Vacated,
)


def reclaim(question: Question, tree: Tree) -> Vacated | NoRoom:
    """Who of other queues gives way for the taker; else the refusal of the clause that came furthest."""
    counting = lacking(question, tree)
    if not counting.any():
        return NoRoom(Obstacle.NOTHING, (0, 0))
    refusals = []
    for bound in (tree.fair, tree.deserved):
        made = _under(question, tree, counting, bound)
        if isinstance(made, Vacated):
            return made
        refusals.append(made)
    return max(refusals, key=_furthest)


def givers(tree: Tree, taker: Taker) -> Bools | NoRoom:
    """bool[q]: leaves of which preemptible work might be asked to leave, known before it is listed; or why none is."""
    counting = (taker.units > 0) & tree.counted
    found = np.zeros(len(tree.parent), np.bool_)
    clauses = [terms(tree, bound, taker, counting) for bound in (tree.fair, tree.deserved)]
    for term in clauses:
        if not isinstance(term, NoRoom):
            found |= ((term.spare > 0) & (tree.loose[:, counting] > 0)).any(axis=1)
    found[tree.parent[tree.parent != TOP]] = False
    if found.any():
        return found
    first, second = clauses
    return first if isinstance(first, NoRoom) and isinstance(second, NoRoom) else NoRoom(Obstacle.NOTHING, (0, 0))


def _furthest(refusal: NoRoom) -> int:
    return _FURTHER.index(refusal.obstacle)


_FURTHER: Final = (Obstacle.SHARE, Obstacle.NOTHING, Obstacle.PLACES, Obstacle.VICTIMS)


def lacking(question: Question, tree: Tree) -> Bools:
    """bool[R]: the resources that quotas count, that the taker asks for and that the nodes have not enough of.

    Where none is short by itself (each would do, but never together on a node), all that it asks for count.
    """
    columns, _, taker, fits = question
    asked: Bools = (taker.units > 0) & tree.counted
    if len(asked) == 1 or fits is not None:
        return asked
    devices = need_of(taker.shape._replace(cpu=0, memory=0))
    host = need_of(taker.shape._replace(kind=Kind.NONE))
    alone = (devices, host._replace(memory=0), host._replace(cpu=0))
    held = [count(stock_of(columns), need, taker.eligible, taker.size).sum() for need in alone]
    short: Bools = asked & (_limited(taker) | np.array([total < taker.size for total in held])[: len(asked)])
    return short if short.any() else asked


def _limited(taker: Taker) -> Bools:
    """bool[R]: the resources of which a limit leaves too little."""
    found = np.zeros(len(taker.units), np.bool_)
    for floor in taker.floors:
        found |= floor.least > 0
    return found


def _under(question: Question, tree: Tree, counting: Bools, bound: Ints) -> Vacated | NoRoom:
    columns, running, taker, _ = question
    term = terms(tree, bound, taker, counting)
    if isinstance(term, NoRoom):
        return term
    rows = possible(term, running)
    free = free_of(columns, taker)[counting] + freeable(tree, term, running, rows, counting)
    needed = taker.units[counting]
    if (needed > free).any():
        worst = int(np.argmax(needed - free))
        numbers = int(free[worst]), int(needed[worst])
        return NoRoom(Obstacle.NOTHING, numbers, resource=int(np.flatnonzero(counting)[worst]))
    order = by_excess(tree, term, running, rows, 0)
    # The least excess that a set of victims draws on decides first: the queue that is most above its bound gives.
    law = law_of(running, -term.spare[running.queue, 0])
    return search(question, order, _judge(tree, term, running, counting), law)


def free_of(columns: Columns, taker: Taker) -> Ints:
    """int64[R]: at most so much is free in sum on the nodes that the taker may use, in the accounts' units.

    Of cards that are cut or serve memory requests, all counts as free: only an upper bound is wanted.
    """
    eligible = taker.eligible
    mode = columns.mode[eligible]
    milli = np.maximum(columns.milli[eligible], 0)  # below 0 where what is promised is still held
    cards = np.where(mode == SLICED, GPU, np.where(mode == CLOSED, 0, milli * UNITS_PER_MILLI)).sum()
    anonymous = columns.idle[eligible & ~columns.mode.any(axis=1)].sum() * GPU
    if taker.shape.kind is Kind.MEMORY:
        cards = np.count_nonzero((mode != 0) & (mode != CLOSED)) * GPU
    cpu, memory = (np.maximum(column[eligible], 0).sum() for column in (columns.cpu, columns.memory))
    return np.array([cards + anonymous, cpu, memory], np.int64)[: len(taker.units)]


def _judge(tree: Tree, term: Terms, running: Running, counting: Bools) -> Judge:
    def judge(victims: Ints) -> Bools:
        return broken(tree, term, running, victims, counting)

    return judge
