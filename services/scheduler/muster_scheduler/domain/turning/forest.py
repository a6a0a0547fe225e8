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
from muster_scheduler.domain.books.standing import Standing
from muster_scheduler.domain.deciding.accounts import IDLE_QUEUE, LEAST_SHARE, UNNAMED, Tree

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
    # Of a root nothing is asked, and so its share is unnamed: it has no turn but that of those below it.
    fair, wanted, deserved, held, bound = table.amounts.take(frame.order, axis=1)
    asks = wanted > 0
    share, due = np.where(asks, fair, UNNAMED), np.where(asks, deserved, 0)
    memory = share[:, _MEMORY]
    if table.counted[_MEMORY] and ((memory > 0) & (memory < LEAST_SHARE)).any():
        return None
    key = np.full(len(frame.parent), IDLE_QUEUE, np.int64)
    tree = Tree(frame.parent, frame.first_child, frame.children, key, frame.most, frame.secure, share, due, held, bound)
    return Forest(tree, frame.rows)
