"""A tree of queues in one node pool: who deserves what, who wants what, and the fair share of each, level by level.

Called by the books when something changed, by making room, and by tests with tables made by hand.
The tree is an array: parents stand before their children, a queue's parent is an index, -1 for the top level.

Holds: a level divides its parent's share. Where children deserve more than that in sum, each still gets what it
deserves, so that they count as in quota; `caps` is what no reclaim of theirs may cross. What a queue wants is capped
by its own limit and, for a parent, is the sum of what its children want: a limit holds at every ancestor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from muster_scheduler.domain.shares.divide import Claimant, divide
from muster_scheduler.domain.tuples import new

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


Shares = tuple[tuple[Share, ...] | None, ...]
"""Of each resource by queue; None where no quota names it."""


def fair_shares(total: int, tree: Sequence[Branch], step: int = 1, k: int = 0) -> list[Share]:
    """The share of every queue, in the tree's order. total: what the pool has; step and k: as for `divide`.

    Raises ValueError where a parent does not stand before its child.
    """
    return Division(total, tree, step, k).shares


class Division:
    """A tree that is divided, and divided again where its leaves want something else: only the levels that feel it.

    Holds: `shares` are those that the whole tree, divided anew, would have.
    """

    def __init__(self, total: int, tree: Sequence[Branch], step: int = 1, k: int = 0) -> None:
        """Divides all levels. total: what the pool has; step and k: as for `divide`.

        Raises ValueError where a parent does not stand before its child.
        """
        self._total, self._tree, self._step, self._k = total, tree, step, k
        self._children = _children(tree)
        self._claims = _claims(tree, self._children)
        # What the children of a queue want together, before its own limit; of a leaf it is never read.
        self._asked = [sum(self._claims[i].wanted for i in self._children[row]) for row in range(len(tree))]
        deserved = _deserved(tree, self._children)
        self.shares = [Share(own, claim.wanted, 0, 0) for own, claim in zip(deserved, self._claims, strict=True)]
        self._divide({parent for parent, level in self._children.items() if level})

    def want(self, requests: Mapping[int, int]) -> set[int]:
        """Takes what leaves want now, by their rows. The rows of which the shares have changed."""
        stirred: set[int] = set()
        for row in sorted(requests):
            self._rise(row, requests[row], stirred)
        return self._divide(stirred)

    def _rise(self, row: int, asked: int, stirred: set[int]) -> None:
        """Tells everybody above what a queue wants now, as far as that changes anything."""
        more = 0  # by how much more of what it deserves the queue below can use
        while row != TOP:
            branch, (due, before, weight, rank, usage) = self._tree[row], self._claims[row]
            wanted = asked if branch.limit is None else min(asked, branch.limit)
            now = due + more if branch.deserved is None else due
            if wanted == before and now == due:
                return
            self._claims[row] = new(Claimant, (now, wanted, weight, rank, usage))
            more = min(now, wanted) - min(due, before)
            row = branch.parent
            stirred.add(row)
            if row != TOP:
                self._asked[row] += wanted - before
                asked = self._asked[row]

    def _divide(self, stirred: set[int]) -> set[int]:
        """Divides these levels and those below them whose queue's share changes with that; from the outermost."""
        changed: set[int] = set()
        while stirred:
            parent = min(stirred)  # parents stand before their children
            stirred.discard(parent)
            level = self._children[parent]
            above, cap = (self._total,) * 2 if parent == TOP else self.shares[parent][2:]
            claims = [self._claims[i] for i in level]
            for i, claim, fair in zip(level, claims, divide(above, claims, self._step, self._k).shares, strict=True):
                (deserved, wanted, before, capped), most = self.shares[i], min(cap, fair)
                if wanted != claim[1] or before != fair or capped != most:
                    self.shares[i] = new(Share, (deserved, claim[1], fair, most))
                    changed.add(i)
                    if (before != fair or capped != most) and self._children[i]:
                        stirred.add(i)
        return changed


def _children(tree: Sequence[Branch]) -> dict[int, list[int]]:
    children: dict[int, list[int]] = {at: [] for at in range(TOP, len(tree))}
    for index, branch in enumerate(tree):
        if not TOP <= branch.parent < index:
            raise ValueError(
                f"queue {branch.name} stands at {index}, its parent at {branch.parent}: parents come first"
            )
        children[branch.parent].append(index)
    return children


def _deserved(tree: Sequence[Branch], children: dict[int, list[int]]) -> list[int]:
    found = [0] * len(tree)
    for index in range(len(tree) - 1, TOP, -1):
        own = tree[index].deserved
        found[index] = sum(found[i] for i in children[index]) if own is None else own
    return found


def _claims(tree: Sequence[Branch], children: dict[int, list[int]]) -> list[Claimant]:
    """What each queue brings into the division of its level.

    One without a quota of its own is due what its children deserve and can use: what an idle one deserves would let its
    siblings have more than there is, as their own.
    """
    due, wanted = [0] * len(tree), [0] * len(tree)
    for index in range(len(tree) - 1, TOP, -1):
        branch, below = tree[index], children[index]
        own = branch.deserved
        due[index] = sum(min(due[i], wanted[i]) for i in below) if own is None else own
        asked = sum(wanted[i] for i in below) if below else branch.request
        wanted[index] = asked if branch.limit is None else min(asked, branch.limit)
    return [
        Claimant(own, asked, branch.weight, branch.rank, branch.usage)
        for own, asked, branch in zip(due, wanted, tree, strict=True)
    ]
