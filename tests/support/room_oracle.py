"""What making room may do, said once more and slowly: every set of victims is looked at by itself.

The oracle of tests: for pools so small that all sets can be tried. It shares nothing with the search but the values and
the counting of replicas that a node takes (which has oracles of its own).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from muster_scheduler.domain.fleet.columns import Columns
from muster_scheduler.domain.fleet.counts import counts_of
from muster_scheduler.domain.room.stock import lift, stock_of
from muster_scheduler.domain.room.values import TOP, Ints, Running, Taker, Tree


def fits(columns: Columns, running: Running, taker: Taker, gone: tuple[int, ...]) -> bool:
    """Whether the taker fits in one domain once these have left."""
    scratch = columns.scratch()
    lift(stock_of(scratch), running.held, np.array(gone, np.int64), 1)
    counts = np.where(taker.eligible, counts_of(scratch, taker.shape, taker.size), 0)
    if taker.domains is None:
        return int(counts.sum()) >= taker.size
    return any(counts[taker.domains == domain].sum() >= taker.size for domain in set(taker.domains.tolist()) - {-1})


def path(tree: Tree, queue: int) -> list[int]:
    """The queue and its ancestors, from below."""
    found = []
    while queue != TOP:
        found.append(queue)
        queue = int(tree.parent[queue])
    return found


def sides(tree: Tree, taker: int, victim: int) -> tuple[list[int], list[int]]:
    """The queues of both below their common ancestor, from below; empty where one is above the other."""
    mine, theirs = path(tree, taker), path(tree, victim)
    return [q for q in mine if q not in theirs], [q for q in theirs if q not in mine]


def allowed(tree: Tree, bound: Ints, running: Running, taker: Taker, gone: tuple[int, ...]) -> bool:
    """Whether one clause lets all these go for the taker, one resource counted."""
    loss = dict.fromkeys(range(len(tree.parent)), 0)
    for v in gone:
        mine, theirs = sides(tree, taker.queue, int(running.queue[v]))
        if not theirs or any(tree.allocated[q, 0] + taker.units[0] > bound[q, 0] for q in mine):
            return False
        for q in path(tree, int(running.queue[v])):
            loss[q] += int(running.units[v, 0])
    return _stays(tree, bound, running, taker, gone, loss) or any(
        _last(tree, bound, running, taker, gone, loss, v) for v in gone
    )


def _stays(
    tree: Tree, bound: Ints, running: Running, taker: Taker, gone: tuple[int, ...], loss: dict[int, int]
) -> bool:
    touched = {q for v in gone for q in sides(tree, taker.queue, int(running.queue[v]))[1]}
    return all(int(tree.allocated[q, 0]) - loss[q] >= int(bound[q, 0]) for q in touched)


def _last(
    tree: Tree,
    bound: Ints,
    running: Running,
    taker: Taker,
    gone: tuple[int, ...],
    loss: dict[int, int],
    last: int,
) -> bool:
    mine, theirs = sides(tree, taker.queue, int(running.queue[last]))
    before = dict(loss)
    for q in path(tree, int(running.queue[last])):
        before[q] -= int(running.units[last, 0])
    if not _stays(tree, bound, running, taker, gone, before):
        return False
    if any(int(tree.allocated[q, 0]) - before[q] <= int(bound[q, 0]) for q in theirs):
        return False
    t, v = mine[-1], theirs[-1]
    takes = int(tree.allocated[t, 0]) + int(taker.units[0])
    keeps = int(tree.allocated[v, 0]) - loss[v]
    return takes * int(bound[v, 0]) <= keeps * int(bound[t, 0])


def ways(columns: Columns, running: Running, tree: Tree, bound: Ints, taker: Taker) -> Iterator[tuple[int, ...]]:
    """Every allowed set with which the taker fits, the smallest first."""
    rows = range(len(running))
    for size in range(len(running) + 1):
        for gone in combinations(rows, size):
            if allowed(tree, bound, running, taker, gone) and fits(columns, running, taker, gone):
                yield gone
