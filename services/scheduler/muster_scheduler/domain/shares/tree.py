"""A tree of queues in one node pool: who deserves what, who wants what, and the fair share of each, level by level.

Called by the books when something changed, by making room, and by tests with tables made by hand.
The tree is an array: parents stand before their children, a queue's parent is an index, -1 for the top level.

Holds: a level divides its parent's share. Where children deserve more than that in sum, each still gets what it
deserves, so that they count as in quota; `caps` is what no reclaim of theirs may cross. What a queue wants is capped
by its own limit and, for a parent, is the sum of what its children want: a limit holds at every ancestor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from muster_scheduler.domain.shares.divide import Claimant, divide

TOP = -1


class Branch(NamedTuple):
    """One queue of the tree. Amounts in the resource's unit; `request` counts for leaves alone.

    deserved None: the queue has no quota of its own here, and deserves what its children deserve together.
    request: what runs and what waits, capped by what could ever run there. weight: any unit; usage: millionths.
    """

    name: str
    parent: int = TOP
    deserved: int | None = 0
    limit: int | None = None
    weight: int = 0
    rank: int = 0
    request: int = 0
    usage: int = 0


class Share(NamedTuple):
    """The outcome for one queue. `fair` may exceed the parent's where children deserve more than it has."""

    deserved: int
    wanted: int
    fair: int
    cap: int  # the smallest fair share on the way up, itself included


def fair_shares(total: int, tree: Sequence[Branch], step: int = 1, k: int = 0) -> list[Share]:
    """The share of every queue, in the tree's order. total: what the pool has; step and k: as for `divide`.

    Raises ValueError where a parent does not stand before its child.
    """
    children = _children(tree)
    deserved, wanted = _sums(tree, children)
    fair, cap = [0] * len(tree), [0] * len(tree)
    for parent in range(TOP, len(tree)):
        level = children[parent]
        if not level:
            continue
        above = total if parent == TOP else fair[parent]
        claimants = [
            Claimant(deserved[i], wanted[i], tree[i].weight, tree[i].rank, tree[i].usage)
            for i in level
        ]  # fmt: skip
        for i, share in zip(level, divide(above, claimants, step, k).shares, strict=True):
            fair[i] = share
            cap[i] = min(share, total if parent == TOP else cap[parent])
    return [Share(*each) for each in zip(deserved, wanted, fair, cap, strict=True)]


def ancestors(tree: Sequence[Branch], index: int) -> Iterator[int]:
    """The queue itself and those above it, from below."""
    while index != TOP:
        yield index
        index = tree[index].parent


def _children(tree: Sequence[Branch]) -> dict[int, list[int]]:
    children: dict[int, list[int]] = {at: [] for at in range(TOP, len(tree))}
    for index, branch in enumerate(tree):
        if not TOP <= branch.parent < index:
            raise ValueError(
                f"queue {branch.name} stands at {index}, its parent at {branch.parent}: parents come first"
            )
        children[branch.parent].append(index)
    return children


def _sums(tree: Sequence[Branch], children: dict[int, list[int]]) -> tuple[list[int], list[int]]:
    deserved, wanted = [0] * len(tree), [0] * len(tree)
    for index in range(len(tree) - 1, TOP, -1):
        branch, below = tree[index], children[index]
        own = branch.deserved
        deserved[index] = sum(deserved[i] for i in below) if own is None else own
        asked = sum(wanted[i] for i in below) if below else branch.request
        wanted[index] = asked if branch.limit is None else min(asked, branch.limit)
    return deserved, wanted
