"""Who may take from whom: both sides of a reclaim, judged below their common ancestor.

Let T and V be the ancestors of taker and victim just below the ancestor that they share. Under a clause (fair share, or
deserved quota) every queue from the taker up to T must end at or under its bound, and every queue from V down to the
victim must stay at or over its own. One last victim that cannot be divided may push its queues below, if T is not
fuller than V then (ratio of what is held to the bound).
Called by reclaim.py. Holds: only resources that the taker lacks are judged; nothing is taken from a queue that has
nothing above its bound.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from muster_scheduler.domain.room.values import TOP, Bools, Ints, NoRoom, Obstacle, Running, Taker, Tree

_TRIED: Final = 256  # victims of which one may be the indivisible last


class Terms(NamedTuple):
    """One clause for one taker, queue by queue (q of them).

    bound: int64[q, C], of the resources that count. taker_side: the T of each queue, TOP for the taker's own ancestors.
    victim_side: its V. spare: int64[q, C], what may be taken through this queue; 0 where nothing may.
    """

    bound: Ints
    allocated: Ints
    units: Ints
    taker_side: Ints
    victim_side: Ints
    spare: Ints


def terms(tree: Tree, bound: Ints, taker: Taker, counting: Bools) -> Terms | NoRoom:
    """What the clause with this bound allows the taker, or that its own queue would hold too much."""
    parent = tree.parent
    allocated, bound, units = tree.allocated[:, counting], bound[:, counting], taker.units[counting]
    path = _path(parent, taker.queue)
    within = _within(path, allocated, bound, units)
    if not within:
        worst = int(np.argmax(allocated[taker.queue] + units - bound[taker.queue]))
        numbers = int(allocated[taker.queue, worst] + units[worst]), int(bound[taker.queue, worst])
        return NoRoom(Obstacle.SHARE, numbers, resource=int(np.flatnonzero(counting)[worst]))
    excess = np.maximum(0, allocated - bound)
    beside = np.full(len(parent) + 1, TOP)  # by what is above a queue: its T; the last is for those with nothing above
    beside[parent[within]] = within
    taker_side = beside[parent]
    taker_side[path] = TOP
    victim_side = np.where(taker_side == TOP, TOP, np.arange(len(parent)))
    spare = np.where((taker_side != TOP)[:, None], excess, 0)
    for rows in levels(parent)[1:]:
        inner = rows[(taker_side[rows] == TOP) & (taker_side[parent[rows]] != TOP)]
        above = parent[inner]
        taker_side[inner], victim_side[inner] = taker_side[above], victim_side[above]
        spare[inner] = np.minimum(spare[above], excess[inner])
    return Terms(bound, allocated, units, taker_side, victim_side, spare)


def levels(parent: Ints) -> list[Ints]:
    """The rows of the queues, level by level from the outermost."""
    depth = np.zeros(len(parent), np.int64)
    above = parent
    while (above != TOP).any():
        depth += above != TOP
        above = np.where(above == TOP, TOP, parent[above])
    return [np.flatnonzero(depth == level) for level in range(int(depth.max(initial=0)) + 1)]


def _path(parent: Ints, queue: int) -> list[int]:
    path = [queue]
    while parent[path[-1]] != TOP:
        path.append(int(parent[path[-1]]))
    return path


def _within(path: list[int], allocated: Ints, bound: Ints, units: Ints) -> list[int]:
    """The queues of the path, from below, up to which all end within their bounds."""
    found: list[int] = []
    for q in path:
        if (allocated[q] + units > bound[q]).any():
            break
        found.append(q)
    return found


def possible(term: Terms, running: Running) -> Ints:
    """Rows of those whose queues have something that may be taken."""
    gives = np.any(term.spare > 0, axis=1)
    return np.flatnonzero(np.take(gives, running.queue))


def freeable(tree: Tree, term: Terms, running: Running, rows: Ints, counting: Bools) -> Ints:
    """int64[C]: no more than this can be freed under the terms, one indivisible victim included."""
    units = running.units[:, counting]
    each = _sum(len(tree.parent), running.queue[rows], units[rows])
    outermost, *inner = levels(tree.parent)
    for level in reversed(inner):
        each[level] = np.minimum(each[level], term.spare[level])
        np.add.at(each, tree.parent[level], each[level])
    each[outermost] = np.minimum(each[outermost], term.spare[outermost])
    tops = term.victim_side == np.arange(len(tree.parent))
    largest = units[rows].max(axis=0) if len(rows) else np.zeros(units.shape[1], np.int64)
    freed: Ints = each[tops].sum(axis=0) + largest
    return freed


def _sum(queues: int, queue: Ints, units: Ints) -> Ints:
    total = np.zeros((queues, units.shape[1]), np.int64)
    np.add.at(total, queue, units)
    return total


def released(tree: Tree, running: Running, victims: Ints, counting: Bools) -> Ints:
    """int64[q, C]: what every queue loses by these victims, its children's included."""
    total = _sum(len(tree.parent), running.queue[victims], running.units[victims][:, counting])
    for level in reversed(levels(tree.parent)[1:]):
        np.add.at(total, tree.parent[level], total[level])
    return total


def broken(tree: Tree, term: Terms, running: Running, victims: Ints, counting: Bools) -> Bools:
    """bool[q]: queues that would fall below their bound; none of them where one indivisible victim excuses it."""
    loss = released(tree, running, victims, counting)
    short: Bools = (loss > term.spare).any(axis=1) & (term.victim_side != TOP)
    if short.any() and _excused(tree, term, running, victims, counting, loss):
        return np.zeros_like(short)
    return short


def _excused(tree: Tree, term: Terms, running: Running, victims: Ints, counting: Bools, loss: Ints) -> bool:
    """Whether one victim, taken last, is all that pushes queues below, and leaves T no fuller than V."""
    judged = term.victim_side != TOP
    over = np.maximum(loss - term.spare, 0)[judged].max(axis=0)
    units = running.units[:, counting]
    for v in victims[(units[victims] >= over).all(axis=1)][:_TRIED]:
        queue = int(running.queue[v])
        path = _path(tree.parent, queue)
        below = path[: path.index(int(term.victim_side[queue])) + 1]
        without = loss.copy()
        without[path] -= units[v]
        if (without[judged] > term.spare[judged]).any():
            continue
        # A queue that has nothing left above its bound without this victim gives nothing: it is not the last but one
        # too many.
        if (without[below] < term.spare[below]).any(axis=1).all() and _no_fuller(term, queue, loss):
            return True
    return False


def _no_fuller(term: Terms, queue: int, loss: Ints) -> bool:
    t, v = int(term.taker_side[queue]), int(term.victim_side[queue])
    for c in range(term.bound.shape[1]):
        taker, victim = int(term.allocated[t, c] + term.units[c]), int(term.allocated[v, c] - loss[v, c])
        if taker * int(term.bound[v, c]) > victim * int(term.bound[t, c]):
            return False
    return True
