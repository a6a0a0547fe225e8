"""What several roles need in all, against what a domain has in all: refuses in microseconds what no search would find.

Called by place.py before it searches. Pure over columns.
Holds: a domain that is said not to have enough holds the roles in no way; one that has enough may still not hold them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from muster_kernel.quantities import MILLI
from muster_scheduler.domain.asked.requests import Kind, Role
from muster_scheduler.domain.fleet.columns import IDLE, SHARED, Columns
from muster_scheduler.domain.fleet.counts import Counts


def enough(
    columns: Columns, roles: tuple[Role, ...], usable: NDArray[np.bool_], total: Callable[[Counts], Counts]
) -> NDArray[np.bool_]:
    """bool[domains]: whether the usable nodes, bool[n], of each domain have as much as all roles take together.

    total: sums a column, int64[n], by domain.
    """
    answers = [total(np.where(usable, free, 0)) >= need for need, free in _balances(columns, roles) if need]
    return np.logical_and.reduce(answers) if answers else total(usable.astype(np.int64)) >= 0


def _balances(columns: Columns, roles: tuple[Role, ...]) -> Iterator[tuple[int, Counts]]:
    """What is needed of each thing, and what each node has of it."""
    yield sum(role.size * role.shape.cpu for role in roles), columns.cpu
    yield sum(role.size * role.shape.memory for role in roles), columns.memory
    yield sum(role.size for role in roles), columns.replicas
    whole = sum(role.size * role.shape.devices for role in roles if role.shape.kind is Kind.WHOLE)
    yield whole, columns.idle.astype(np.int64)
    parts = sum(role.size * role.shape.devices * role.shape.milli for role in roles if role.shape.kind is Kind.PORTION)
    if parts:
        there = (columns.mode == IDLE) | (columns.mode == SHARED)
        named = np.where(there, columns.milli, 0).sum(axis=1)
        anonymous = np.where(there.any(axis=1), 0, columns.idle * MILLI)
        yield parts + whole * MILLI, (named + anonymous).astype(np.int64)
