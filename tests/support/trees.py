"""Small trees of accounts for the kernels of domain/deciding."""

from __future__ import annotations

import numpy as np

from muster_scheduler.domain.books.standing import FREE
from muster_scheduler.domain.deciding.accounts import IDLE_QUEUE, UNNAMED, Tree


def tree(parents: list[int]) -> Tree:
    """Queues without quotas. parents: of each, -1 for the root; siblings stand together."""
    count = len(parents)
    first = [next((row for row in range(count) if parents[row] == queue), 0) for queue in range(count)]
    children = [parents.count(queue) for queue in range(count)]
    amounts = [np.full((count, 3), value, np.int64) for value in (FREE, FREE, UNNAMED, 0, 0, 0)]
    keys = np.full(count, IDLE_QUEUE, np.int64)
    return Tree(np.array(parents), np.array(first), np.array(children), keys, *amounts)


def one_queue() -> Tree:
    """A root and a single project."""
    return tree([-1, 0])
