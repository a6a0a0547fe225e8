"""The queues that compete in a pool as the tree that the batch kernel reads: quotas, what is held, whose turn is when.

Called by turning/batching.py for every batch; made of the accounts as they stand and of the cycle's fair shares.
Holds: rows stand in the order in which ties of `Turns` end: by name, a department before a project of its name.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muster_scheduler.domain.asked.quotas import Account, Quota
from muster_scheduler.domain.books.standing import Standing
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.deciding.accounts import (
    ENDLESS,
    IDLE_QUEUE,
    LEAST_SHARE,
    RESOURCES,
    UNNAMED,
    Tree,
)

_ROOT = 0


class Forest(NamedTuple):
    """The tree, and the rows of the projects in it by name."""

    tree: Tree
    rows: dict[str, int]


class _Queue(NamedTuple):
    """One row of the tree to be. row: of the standing, None where that does not know it."""

    parent: int
    quota: Quota | None
    account: Account
    row: int | None


def forest_of(world: World, pool: str, projects: list[str], standing: Standing | None) -> Forest | None:
    """The tree over these projects; None where its numbers are beyond the kernel's. standing: None for a single one."""
    books = world.queues
    above = {name: found.name if (found := books.department_of(name)) else "" for name in projects}
    top = sorted(
        {(name, "") for name in above.values() if name} | {(name, name) for name in projects if not above[name]}
    )
    queues = [_Queue(-1, None, Account(), None)]
    rows: dict[str, int] = {}
    departments: list[tuple[str, int]] = []
    for name, project in top:
        if project:
            rows[project] = len(queues)
            queues.append(_project(world, pool, project, _ROOT, standing))
        else:
            departments.append((name, len(queues)))
            quota, account = books.departments[name].quotas.get(pool), books.department_account(name, pool)
            queues.append(_Queue(_ROOT, quota, account, standing.departments.get(name) if standing else None))
    for name, parent in departments:
        for project in (each for each in projects if above[each] == name):
            rows[project] = len(queues)
            queues.append(_project(world, pool, project, parent, standing))
    tree = _tree(queues, standing)
    small = (tree.share[:, 2] > 0) & (tree.share[:, 2] < LEAST_SHARE)
    return None if small.any() else Forest(tree, rows)


def _project(world: World, pool: str, name: str, parent: int, standing: Standing | None) -> _Queue:
    row = standing.projects.get(name) if standing else None
    return _Queue(parent, world.queues.quota(name, pool), world.queues.account(name, pool), row)


def _tree(queues: list[_Queue], standing: Standing | None) -> Tree:
    count = len(queues)
    parent = np.array([queue.parent for queue in queues], np.int64)
    first, children = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for row in range(count - 1, 0, -1):
        first[parent[row]] = row
        children[parent[row]] += 1
    amounts = [_amounts(queue, standing) for queue in queues]
    made = np.array(amounts, np.int64).reshape(count, 6, RESOURCES)
    held, bound, most, secure, share, due = np.ascontiguousarray(made.transpose(1, 0, 2))
    return Tree(parent, first, children, np.full(count, IDLE_QUEUE, np.int64), most, secure, share, due, held, bound)


def _amounts(queue: _Queue, standing: Standing | None) -> tuple[tuple[int, ...], ...]:
    lines = queue.quota.lines if queue.quota else ()
    most = tuple(ENDLESS if line.most is None else line.most for line in lines) or (ENDLESS,) * RESOURCES
    secure = tuple(ENDLESS if line.deserved is None else line.deserved for line in lines) or (ENDLESS,) * RESOURCES
    share, due = [UNNAMED] * RESOURCES, [0] * RESOURCES
    for resource, shares in enumerate(standing.shares if standing and queue.row is not None else ()):
        if shares and queue.row is not None and shares[queue.row].wanted:
            share[resource], due[resource] = shares[queue.row].fair, shares[queue.row].deserved
    return tuple(queue.account.held), tuple(queue.account.bound), most, secure, tuple(share), tuple(due)
