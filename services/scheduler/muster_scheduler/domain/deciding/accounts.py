"""What every queue of one pool holds and may hold, up the tree to its root, and whose turn it is: kernels over arrays.

Called by the batch for each head. The tree is an array in which parents stand before their children and the children of
one parent stand together, in the order in which ties end; row 0 is the root. Three resources: 1/7,000 GPU, milli-CPU,
bytes.
Holds: what is computed here is what `asked.quotas.verdict` and `books.standing.Standing.fullness` say of the same
numbers; non-preemptible work is placed only within what every queue on the way up deserves, and nothing above a limit.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from muster_scheduler.domain.compiling import lean
from muster_scheduler.domain.deciding.shapes import BOUND, CPU, MEM, QUEUE, UNITS
from muster_scheduler.domain.fleet.columns import Ints64

RESOURCES: Final = 3
UNNAMED: Final = -1  # of `share`: the resource says nothing of the queue's turn
IDLE_QUEUE: Final = (1 << 63) - 1  # the key of a queue with nothing to try
LEAST_SHARE: Final = 1 << 15  # a share of fewer bytes could make a ratio too large for 64 bits
_FULL: Final = 1 << 61
_SCALE: Final = 20  # bits behind the point of a ratio
_SMALL: Final = 1 << 42  # below it a rest can be shifted by as many bits


class Tree(NamedTuple):
    """int64[q] each, the amounts int64[q, 3].

    most: what a queue may hold; secure: what of it may be non-preemptible; share: what its turn is measured by; due:
    from here on it counts as full; held, bound: what it holds, and how much of that is non-preemptible.
    """

    parent: Ints64
    first_child: Ints64
    children: Ints64
    key: Ints64
    most: Ints64
    secure: Ints64
    share: Ints64
    due: Ints64
    held: Ints64
    bound: Ints64


@lean
def asked(shape: Ints64, resource: int) -> int:
    """What one replica takes of a resource."""
    if resource == 0:
        return int(shape[UNITS])
    return int(shape[CPU] if resource == 1 else shape[MEM])


@lean
def allowed(tree: Tree, shape: Ints64) -> bool:
    """Whether the queue of a shape and all above it may take one replica more."""
    queue = shape[QUEUE]
    while queue >= 0:
        for resource in range(RESOURCES):
            more = asked(shape, resource)
            if more == 0:
                continue
            if tree.held[queue, resource] + more > tree.most[queue, resource]:
                return False
            if shape[BOUND] and tree.bound[queue, resource] + more > tree.secure[queue, resource]:
                return False
        queue = tree.parent[queue]
    return True


@lean
def charge(tree: Tree, shape: Ints64, units: int) -> None:
    """Charges one replica to its queue and all above. units: what its devices cost."""
    queue = shape[QUEUE]
    while queue >= 0:
        for resource in range(RESOURCES):
            more = units if resource == 0 else asked(shape, resource)
            tree.held[queue, resource] += more
            if shape[BOUND]:
                tree.bound[queue, resource] += more
        above = tree.parent[queue]
        if above >= 0 and tree.children[above] > 1 and tree.key[queue] != IDLE_QUEUE:  # alone it has every turn
            tree.key[queue] = fullness(tree, queue)
        queue = above


@lean
def fullness(tree: Tree, queue: int) -> int:
    """How full a queue is for its share, by the resource of which it has most: within what it deserves first."""
    worst = 0
    for resource in range(RESOURCES):
        share, held = tree.share[queue, resource], tree.held[queue, resource]
        if share == UNNAMED:
            continue
        if share == 0:
            key = _FULL + held
        else:
            key = ratio(held, share) + (_FULL >> 1 if held >= tree.due[queue, resource] else 0)
        worst = max(worst, key)
    return worst


@lean
def ratio(held: int, share: int) -> int:
    """`(held << 20) // share` within 64 bits, for a share of at least LEAST_SHARE where amounts are bytes."""
    whole = held // share
    rest = held - whole * share
    if rest < _SMALL:
        return int((whole << _SCALE) + (rest << _SCALE) // share)
    for _ in range(_SCALE):
        rest <<= 1
        whole <<= 1
        if rest >= share:
            rest -= share
            whole += 1
    return int(whole)


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
    """The leaf whose turn it is: level by level the child least full for its share, ties to the first; -1: nobody's."""
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
