"""What every queue of one pool holds and may hold, up the tree to its root, and whose turn it is: kernels over arrays.

Called by the batch for each head. The tree is an array in which parents stand before their children and the children of
one parent stand together, by name; row 0 is the root. Three resources: 1/7,000 GPU, milli-CPU, MiB; a quota that does
not name one leaves it free.
Holds: what a queue holds is the sum of its children's; non-preemptible work is placed only within what every queue on
the way up deserves, and nothing above a limit; all numbers are integers.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from muster_scheduler.domain.compiling import lean
from muster_scheduler.domain.deciding.shapes import BOUND, CPU, MEBIBYTES, QUEUE, UNITS
from muster_scheduler.domain.fleet.columns import Ints64

RESOURCES: Final = 3
UNNAMED: Final = -1  # of `deserved` and `share`: the quota does not speak of the resource
ENDLESS: Final = (1 << 62) - 1  # of `limit`
IDLE_QUEUE: Final = (1 << 63) - 1  # the key of a queue with nothing to try
_FULL: Final = 1 << 61
_SCALE: Final = 20  # bits behind the point of a ratio

FREE: Final = 0
OVER_LIMIT: Final = 1
OVER_QUOTA: Final = 2


class Tree(NamedTuple):
    """int64[q] each, the amounts int64[q, 3]. share: what a queue's turn is measured by; bound: non-preemptible."""

    parent: Ints64
    first_child: Ints64
    children: Ints64
    key: Ints64
    deserved: Ints64
    limit: Ints64
    share: Ints64
    allocated: Ints64
    bound: Ints64


class Verdict(NamedTuple):
    """FREE, or which rule of which queue forbids how much of which resource: held + asked > allowed."""

    code: int
    queue: int
    resource: int
    held: int
    allowed: int
    asked: int


def empty_tree(parents: list[int]) -> Tree:
    """Accounts of nothing. parents: the parent of each queue, -1 for the root, which is the first.

    Raises ValueError where a parent does not stand before its child, or children of one parent do not stand together.
    """
    count = len(parents)
    parent = np.array(parents, np.int64)
    first, children = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for queue, above in enumerate(parents):
        if not (-1 if queue == 0 else 0) <= above < queue or (queue == 0) != (above == -1):
            raise ValueError(f"queue {queue} hangs at {above}, which does not stand before it")
        if queue and children[above] == 0:
            first[above] = queue
        elif queue and first[above] + children[above] != queue:
            raise ValueError(f"queue {queue} does not stand beside its siblings, the children of {above}")
        if queue:
            children[above] += 1
    amounts = (count, RESOURCES)
    return Tree(
        parent,
        first,
        children,
        np.full(count, IDLE_QUEUE, np.int64),
        np.full(amounts, UNNAMED, np.int64),
        np.full(amounts, ENDLESS, np.int64),
        np.full(amounts, UNNAMED, np.int64),
        np.zeros(amounts, np.int64),
        np.zeros(amounts, np.int64),
    )


@lean
def asked(shape: Ints64, resource: int) -> int:
    """What one replica takes of a resource."""
    if resource == 0:
        return int(shape[UNITS])
    return int(shape[CPU] if resource == 1 else shape[MEBIBYTES])


@lean
def judge(tree: Tree, shape: Ints64) -> Verdict:
    """Whether the queue of a shape and all above it may take one replica more: limits first, then what they deserve."""
    queue = shape[QUEUE]
    while queue >= 0:
        for resource in range(RESOURCES):
            more = asked(shape, resource)
            if more == 0:
                continue
            held = tree.allocated[queue, resource]
            if held + more > tree.limit[queue, resource]:
                return Verdict(OVER_LIMIT, queue, resource, held, tree.limit[queue, resource], more)
            bound, deserved = tree.bound[queue, resource], tree.deserved[queue, resource]
            if shape[BOUND] and deserved != UNNAMED and bound + more > deserved:
                return Verdict(OVER_QUOTA, queue, resource, bound, deserved, more)
        queue = tree.parent[queue]
    return Verdict(FREE, 0, 0, 0, 0, 0)


@lean
def charge(tree: Tree, shape: Ints64, units: int, sign: int) -> None:
    """Charges one replica (+1) to its queue and all above, or takes it back (-1). units: what its devices cost."""
    queue = shape[QUEUE]
    while queue >= 0:
        for resource in range(RESOURCES):
            more = sign * (units if resource == 0 else asked(shape, resource))
            tree.allocated[queue, resource] += more
            if shape[BOUND]:
                tree.bound[queue, resource] += more
        if tree.key[queue] != IDLE_QUEUE:
            tree.key[queue] = fullness(tree, queue)
        queue = tree.parent[queue]


@lean
def fullness(tree: Tree, queue: int) -> int:
    """How full a queue is for its share, by the resource of which it has most: within what it deserves first."""
    worst = 0
    for resource in range(RESOURCES):
        share, held = tree.share[queue, resource], tree.allocated[queue, resource]
        if share == UNNAMED or held <= 0:
            continue
        if share == 0:
            key = _FULL + held
        else:
            over = tree.deserved[queue, resource] != UNNAMED and held >= tree.deserved[queue, resource]
            key = (held << _SCALE) // share + (_FULL >> 1 if over else 0)
        worst = max(worst, key)
    return worst


@lean
def rouse(tree: Tree, queue: int) -> None:
    """The queue has something to try: it and all above it take part again."""
    while queue >= 0:
        tree.key[queue] = fullness(tree, queue)
        queue = tree.parent[queue]


@lean
def retire(tree: Tree, queue: int) -> None:
    """The queue has nothing more to try; so has a parent of which no child has."""
    tree.key[queue] = IDLE_QUEUE
    above = tree.parent[queue]
    while above >= 0:
        first = tree.first_child[above]
        for child in range(first, first + tree.children[above]):
            if tree.key[child] != IDLE_QUEUE:
                return
        tree.key[above] = IDLE_QUEUE
        above = tree.parent[above]


@lean
def turn(tree: Tree) -> int:
    """The leaf whose turn it is: level by level the child least full for its share, ties by name; -1: nobody's."""
    queue = 0
    if tree.key[0] == IDLE_QUEUE:
        return -1
    while tree.children[queue] > 0:
        best, at = IDLE_QUEUE, -1
        first = tree.first_child[queue]
        for child in range(first, first + tree.children[queue]):
            if tree.key[child] < best:
                best, at = tree.key[child], child
        queue = at
    return queue
