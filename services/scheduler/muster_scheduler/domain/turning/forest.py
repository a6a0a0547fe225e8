"""The queues of a pool as the tree that the batch kernel reads: quotas, what is held, whose turn is when.

Called by turning/batching.py for every batch; made of the accounts as they stand and of the cycle's fair shares, by
arrays, since most batches place a handful.
Holds: rows stand in the order in which ties of `Turns` end: by name, a department before a project of its name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from muster_scheduler.domain.books.queues import Queues
from muster_scheduler.domain.books.standing import Ints, Standing
from muster_scheduler.domain.deciding.accounts import IDLE_QUEUE, LEAST_SHARE, RESOURCES, UNNAMED, Tree

_MEMORY = 2


class Forest(NamedTuple):
    """The tree, and the rows of the projects in it by name."""

    tree: Tree
    rows: dict[str, int]


def forest_of(books: Queues, projects: Iterable[str], standing: Standing) -> Forest | None:
    """The tree over the queues of a pool; None where its numbers are beyond the kernel's.

    projects: those that are to have their turns; None too where one of them came after the shares were made.
    """
    frame, table = standing.frame, standing.refreshed(books)
    if not all(map(frame.rows.__contains__, projects)):
        return None
    asks, order = table.wanted > 0, frame.order
    share = _rooted(np.where(asks, table.fair, UNNAMED), order, UNNAMED)
    memory = share[:, _MEMORY]
    if table.counted[_MEMORY] and ((memory > 0) & (memory < LEAST_SHARE)).any():
        return None
    due, held = _rooted(np.where(asks, table.deserved, 0), order, 0), _rooted(table.held, order, 0)
    bound = _rooted(table.bound, order, 0)
    key = np.full(len(frame.parent), IDLE_QUEUE, np.int64)
    tree = Tree(frame.parent, frame.first_child, frame.children, key, frame.most, frame.secure, share, due, held, bound)
    return Forest(tree, frame.rows)


def _rooted(amounts: Ints, order: Ints, root: int) -> Ints:
    """The amounts in the order of the tree, below the root's."""
    made = np.empty((len(order) + 1, RESOURCES), np.int64)
    made[0] = root
    amounts.take(order, axis=0, out=made[1:], mode="clip")  # where it may not clip, it writes into a copy first
    return made
