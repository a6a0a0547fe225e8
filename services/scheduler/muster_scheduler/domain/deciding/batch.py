"""One kernel that goes through heads: whose turn, whether its queues may, where it goes, what that costs.

Called by the engine with everything that waits and is worth a try, in order by queue. It changes rows, index and
accounts as it goes and writes what it decided; the engine makes values of that, and undoes it by giving back.
Holds: a class that was refused is not tried again in the batch; the decisions depend on the arrays alone.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from muster_scheduler.domain.compiling import lean
from muster_scheduler.domain.deciding.accounts import FREE, IDLE_QUEUE, Tree, charge, judge, retire, rouse, turn
from muster_scheduler.domain.deciding.index import Index, shift
from muster_scheduler.domain.deciding.searching import search
from muster_scheduler.domain.deciding.shapes import AMOUNT, KIND, MEMORY, UNITS
from muster_scheduler.domain.deciding.tables import Rows
from muster_scheduler.domain.fleet.columns import SLOTS, Ints64

NO_ROOM: Final = 3
REFUSAL: Final = 6
_HUNDREDTH: Final = 70  # 1/7,000 GPU of a hundredth of a card


class Heads(NamedTuple):
    """What waits: rows of workloads, queue by queue, each in its order. first, last: int64[q], the queue's stretch."""

    workload: Ints64
    shape: Ints64  # the row of each one's class in `shapes`
    first: Ints64
    last: Ints64


class Outcome(NamedTuple):
    """placed: int64[m, 5] (workload, class, node, mask, start); units: int64[m] charged; refused: int64[classes, 6].

    A refusal is (code, queue, resource, held, allowed, asked); code 0: not refused.
    """

    placed: Ints64
    units: Ints64
    refused: Ints64


def outcome_for(heads: int, classes: int) -> Outcome:
    """Room for the outcome of a batch."""
    return Outcome(np.zeros((heads, 5), np.int64), np.zeros(heads, np.int64), np.zeros((classes, REFUSAL), np.int64))


@lean
def decide(
    index: Index,
    tree: Tree,
    shapes: Ints64,
    heads: Heads,
    outcome: Outcome,
    visits: int,
) -> tuple[int, int]:
    """Decides until nothing is left to try or the budget of exact tests is spent: (how many placed, budget left)."""
    count = 0
    for queue in range(len(heads.first)):
        if heads.first[queue] < heads.last[queue]:
            rouse(tree, queue)
    queue = turn(tree)
    while queue >= 0 and visits > 0:
        at = following(heads, outcome, queue)
        if at < 0:
            retire(tree, queue)
        else:
            visits -= attempt(index, tree, shapes, heads, outcome, at, count)
            if outcome.refused[heads.shape[at], 0] == FREE:
                heads.first[queue] += 1
                count += 1
        queue = turn(tree)
    tree.key[:] = IDLE_QUEUE
    return count, visits


@lean
def following(heads: Heads, outcome: Outcome, queue: int) -> int:
    """The queue's next head whose class was not refused, or -1."""
    while heads.first[queue] < heads.last[queue]:
        at = int(heads.first[queue])
        if outcome.refused[heads.shape[at], 0] == FREE:
            return at
        heads.first[queue] += 1
    return -1


@lean
def attempt(
    index: Index,
    tree: Tree,
    shapes: Ints64,
    heads: Heads,
    outcome: Outcome,
    at: int,
    count: int,
) -> int:
    """Places one head or writes down why not; how many exact tests that took."""
    number = heads.shape[at]
    shape = shapes[number]
    verdict = judge(tree, shape)
    if verdict.code != FREE:
        outcome.refused[number, 0] = verdict.code
        outcome.refused[number, 1] = verdict.queue
        outcome.refused[number, 2] = verdict.resource
        outcome.refused[number, 3] = verdict.held
        outcome.refused[number, 4] = verdict.allowed
        outcome.refused[number, 5] = verdict.asked
        return 1
    found = search(index, shape)
    if found.node < 0:
        outcome.refused[number, 0] = NO_ROOM
        outcome.refused[number, 3] = found.visits
        return found.visits + 1
    units = cost(index.rows, shape, found.node, found.mask)
    shift(index, shape, found.node, found.mask, found.start, -1)
    charge(tree, shape, units, 1)
    outcome.placed[count, 0] = heads.workload[at]
    outcome.placed[count, 1] = number
    outcome.placed[count, 2] = found.node
    outcome.placed[count, 3] = found.mask
    outcome.placed[count, 4] = found.start
    outcome.units[count] = units
    return found.visits


@lean
def cost(rows: Rows, shape: Ints64, n: int, mask: int) -> int:
    """What one replica on these devices is charged, in 1/7,000 GPU: a memory request a part of the cards it got."""
    if shape[KIND] != MEMORY:
        return int(shape[UNITS])
    units = 0
    for slot in range(SLOTS):
        if mask >> slot & 1:
            units += min(100, int(-(-shape[AMOUNT] * 100 // rows.size[n, slot]))) * _HUNDREDTH
    return units


@lean
def undo(index: Index, tree: Tree, shapes: Ints64, outcome: Outcome, count: int) -> None:
    """Gives back the first `count` of an outcome, newest first."""
    for i in range(count - 1, -1, -1):
        shape = shapes[outcome.placed[i, 1]]
        shift(index, shape, outcome.placed[i, 2], outcome.placed[i, 3], outcome.placed[i, 4], 1)
        charge(tree, shape, outcome.units[i], -1)
