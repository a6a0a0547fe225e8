"""One kernel that goes through heads: whose turn, whether its queues may, where it goes, what that costs.

Called by the seeker of a pool with the first heads of every project that competes there. It changes rows, index and
accounts as it goes and writes down what it decided.
Holds: it decides what the cycle decides head by head, in the same order, and ends before the first head that it cannot
place; the decisions depend on the arrays alone.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from muster_scheduler.domain.compiling import lean
from muster_scheduler.domain.deciding.accounts import IDLE_QUEUE, Tree, allowed, charge, retire, rouse, turn
from muster_scheduler.domain.deciding.index import Index, shift
from muster_scheduler.domain.deciding.searching import search
from muster_scheduler.domain.deciding.shapes import AMOUNT, KIND, MEMORY, UNITS
from muster_scheduler.domain.deciding.tables import Rows
from muster_scheduler.domain.fleet.columns import SLOTS, Ints64

RETIRES: Final = 0  # the queue has no more heads here: the others go on
WAITS: Final = 1  # what comes next in the queue is not for this batch, which ends when it is its turn
NODES_A_VISIT: Final = 100  # counted at once, they cost what one node costs that is tested alone
PLACED: Final = 5  # columns of what is decided: which head, its node, mask, start, and the units it is charged
_HUNDREDTH: Final = 70  # 1/7,000 GPU of a hundredth of a card


class Heads(NamedTuple):
    """What waits, queue by queue, each in its order, one row of `shapes` each.

    first, last: int64[q], the queue's stretch; then: int64[q], what follows on its end, as above.
    """

    first: Ints64
    last: Ints64
    then: Ints64


@lean
def decide(index: Index, tree: Tree, shapes: Ints64, heads: Heads, placed: Ints64, visits: int) -> tuple[int, int]:
    """Places heads until one cannot be placed or the budget of visits is spent: (how many, budget left).

    shapes: int64[m, WIDTH], what each head asks for; placed: int64[m, PLACED], filled in order of decision.
    """
    for queue in range(len(heads.first)):
        if heads.first[queue] < heads.last[queue] or heads.then[queue] == WAITS:
            rouse(tree, queue)
    count, queue = 0, turn(tree)
    while queue > 0 and visits > 0 and heads.first[queue] < heads.last[queue]:
        cost = attempt(index, tree, shapes, heads, placed, queue, count)
        if cost == 0:
            break
        visits -= cost
        count += 1
        heads.first[queue] += 1
        if heads.first[queue] == heads.last[queue] and heads.then[queue] == RETIRES:
            retire(tree, queue)
        queue = turn(tree)
    tree.key[:] = IDLE_QUEUE
    return count, visits


@lean
def attempt(index: Index, tree: Tree, shapes: Ints64, heads: Heads, placed: Ints64, queue: int, count: int) -> int:
    """Places the queue's next head: what that costs of the budget, 0 where it cannot be placed."""
    at = heads.first[queue]
    shape = shapes[at]
    if not allowed(tree, shape):
        return 0
    found = search(index, shape)
    if found.node < 0:
        return 0
    units = cost(index.rows, shape, found.node, found.mask)
    shift(index, shape, found.node, found.mask, found.start, -1)
    charge(tree, shape, units)
    placed[count, 0] = at
    placed[count, 1] = found.node
    placed[count, 2] = found.mask
    placed[count, 3] = found.start
    placed[count, 4] = units
    return 1 + found.visits // NODES_A_VISIT


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
