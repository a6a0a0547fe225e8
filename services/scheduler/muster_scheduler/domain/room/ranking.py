"""Who goes first: the law's order of victims, for all of them at once.

Their queue's excess first, as it stands when the victim's turn comes: each victim lowers what its queues have left, so
the queue that is most above its bound gives first and queues take turns. Then the number of workloads interrupted, then
GPU-seconds lost since the last checkpoint, then the youngest, then the id.
Called by reclaim.py, preempt.py and consolidate.py. Holds: a permutation of the rows given, and the same one for
whatever order they are given in.
"""

from __future__ import annotations

import numpy as np

from muster_scheduler.domain.room.fairness import Terms
from muster_scheduler.domain.room.values import TOP, Ints, Law, Running, Tree


def law_of(running: Running, grade: Ints) -> Law:
    """The law's criteria for a whole set of victims. grade: what counts before the number of interruptions."""
    return Law(grade, np.stack((running.interrupted, running.lost), axis=1))


def by_cost(running: Running, rows: Ints) -> Ints:
    """The rows in order of interruption, loss, youth and id, whoever's they are."""
    keys = (running.key, -running.placed, running.lost, running.interrupted)
    ranked: Ints = rows[np.lexsort([key[rows] for key in keys])]
    return ranked


def by_priority(running: Running, rows: Ints) -> Ints:
    """The same within one project, where the lower priority goes first."""
    ranked = by_cost(running, rows)
    in_order: Ints = ranked[np.argsort(running.priority[ranked], kind="stable")]
    return in_order


def by_excess(tree: Tree, term: Terms, running: Running, rows: Ints, lead: int) -> Ints:
    """The law's order for a reclaim; `lead` is the resource (of those that count) whose excess is compared."""
    ranked = by_cost(running, rows)
    units = running.units[ranked, lead]
    queue = running.queue[ranked]
    left = _left(queue, term.spare[queue, lead], units, np.arange(len(ranked)))
    while True:
        up = np.where(queue == term.victim_side[queue], queue, tree.parent[queue])
        if (up == queue).all():
            break
        turn = np.argsort(-left, kind="stable")
        left = np.minimum(left, _left(up, np.where(up == TOP, 0, term.spare[up, lead]), units, turn))
        queue = up
    in_order: Ints = ranked[np.argsort(-left, kind="stable")]
    return in_order


def _left(queue: Ints, spare: Ints, units: Ints, turn: Ints) -> Ints:
    """What each victim's queue has left above its bound when its turn among the queue's own comes."""
    grouped = turn[np.argsort(queue[turn], kind="stable")]
    before = np.cumsum(units[grouped]) - units[grouped]
    starts = np.flatnonzero(np.diff(queue[grouped], prepend=queue[grouped][:1] - 1)) if len(grouped) else grouped
    taken = before - np.repeat(before[starts], np.diff(np.append(starts, len(grouped))))
    left = np.empty_like(units)
    left[grouped] = spare[grouped] - taken
    return left
