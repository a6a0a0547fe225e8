"""Where every queue of a node pool stands: what the pool has, what each wants, what its fair share is.

Made from the state when it is asked for (by turning/turns.py once a cycle, by making room, by people), never kept: it
follows from quotas, accounts, what waits and what the agents report.
A tree has two levels: departments by name, below them projects; a project without a department stands beside these.
Holds: what a queue wants is what it holds and what waits of it in this pool, without what could never run there;
rounding units are 1 GPU, 1 CPU and 1 GiB; clusters that are silent do not count.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from muster_kernel.quantities import GPU, MILLI
from muster_scheduler.domain.asked.quotas import DEFAULT_WEIGHT, NOTHING, Account, Amount, Line, Quota
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.shares.decay import part_of
from muster_scheduler.domain.shares.tree import TOP, Branch, Share, fair_shares

Ints = NDArray[np.int64]

STEPS: Final = Amount(GPU, MILLI, 1 << 30)
FREE: Final = 1 << 60  # what a queue may hold of a resource that its quota does not name
_FULL: Final = 1 << 61
_SCALE: Final = 20  # bits behind the point of a ratio


class Queue(NamedTuple):
    """One queue of a pool: a department, or a project. parent: its row, -1 for the top level."""

    name: str
    parent: int
    quota: Quota | None  # None: a department that says nothing of this pool
    account: Account
    wanted: Amount
    rank: int
    usage: int = 0  # of GPUs lately, in millionths of what the pool has


class Table(NamedTuple):
    """The queues of a pool as arrays of q rows, resources as in `Amount`.

    parent: int64[q]. fair, deserved: int64[q, 3], in the accounts' units; FREE where no quota names the resource.
    counted: bool[3], the resources that any quota names. held, bound: int64[q, 3], of the accounts as last read.
    """

    parent: Ints
    fair: Ints
    deserved: Ints
    counted: NDArray[np.bool_]
    held: Ints
    bound: Ints
    accounts: list[Account]


@dataclass(frozen=True, eq=False)
class Standing:
    """One pool. `shares`: of each resource by row; None where no quota names it. Parents stand before children."""

    pool: str
    total: Amount
    queues: tuple[Queue, ...]
    departments: dict[str, int]  # rows by name
    projects: dict[str, int]
    shares: tuple[tuple[Share, ...] | None, ...]

    @cached_property
    def table(self) -> Table:
        """The queues as arrays, made once; `refreshed` brings the accounts up to date."""
        parent = np.array([queue.parent for queue in self.queues], np.int64)
        counted = np.array([share is not None for share in self.shares])
        fair, deserved = (np.full((len(parent), len(STEPS)), FREE) for _ in range(2))
        for at, shares in enumerate(self.shares):
            if shares is not None:
                fair[:, at], deserved[:, at] = [each.fair for each in shares], [each.deserved for each in shares]
        accounts = [queue.account for queue in self.queues]
        held, bound = (np.array([getattr(each, side) for each in accounts], np.int64) for side in ("held", "bound"))
        shape = len(parent), len(STEPS)
        return Table(parent, fair, deserved, counted, held.reshape(shape), bound.reshape(shape), accounts)

    def refreshed(self, world: World) -> Table:
        """The table with what the queues hold now; to be read only, and until the next call."""
        table, inner = self.table, len(self.departments)
        read = world.queues.department_account, world.queues.account
        for row, queue in enumerate(self.queues):
            now = read[row >= inner](queue.name, self.pool)
            if now is not table.accounts[row]:
                table.accounts[row] = now
                table.held[row], table.bound[row] = now.held, now.bound
        return table

    def fullness(self, row: int, held: Amount) -> int:
        """How full a queue is that holds so much, by the resource of which it has most: the least full has its turn.

        Within what it deserves before beyond it, then what it holds over its fair share.
        """
        fullest = 0
        for shares, amount in zip(self.shares, held, strict=True):
            if shares is not None:
                fullest = max(fullest, _fullness(shares[row], amount))
        return fullest


def _fullness(share: Share, held: int) -> int:
    if not share.wanted:
        return 0
    if not share.fair:
        return _FULL + held
    return (held << _SCALE) // share.fair + (_FULL >> 1 if held >= share.deserved else 0)


def standing_of(world: World, pool: str) -> Standing:
    """How the queues of a pool stand now."""
    queues, departments, projects = _queues(world, pool)
    total, k = supply(world, pool), world.limits.usage_weight
    if k:
        queues = _with_usage(world, pool, queues, total.gpu)
    shares = tuple(_shares(queues, at, total[at], step, k) for at, step in enumerate(STEPS))
    return Standing(pool, total, queues, departments, projects, shares)


def supply(world: World, pool: str) -> Amount:
    """What the nodes of a pool have for Muster, over all clusters that are not silent."""
    total = NOTHING
    for cluster in world.inventory.clusters_with(pool):
        known, capacity = world.clusters.get(cluster), world.inventory.capacity(cluster, pool)
        if known is not None and not known.silent and capacity is not None:
            total = total.plus(capacity.supply)
    return total


def _queues(world: World, pool: str) -> tuple[tuple[Queue, ...], dict[str, int], dict[str, int]]:
    books = world.queues
    named = sorted(name for name in books.projects if _takes_part(world, name, pool))
    above = {name: books.projects[name].department for name in named}
    rows: dict[str, int] = {}
    found: list[Queue] = []
    for name in sorted(set(above.values()) & set(books.departments)):
        rows[name] = len(found)
        department = books.departments[name]
        account = books.department_account(name, pool)
        found.append(Queue(name, TOP, department.quotas.get(pool), account, NOTHING, department.rank))
    projects: dict[str, int] = {}
    for name in named:
        projects[name] = len(found)
        account = books.account(name, pool)
        wanted = account.held.plus(world.waiting.demand.get((name, pool), NOTHING))
        parent = rows.get(above[name], TOP)
        found.append(Queue(name, parent, books.quota(name, pool), account, wanted, books.projects[name].rank))
    return tuple(found), rows, projects


def _with_usage(world: World, pool: str, queues: tuple[Queue, ...], total: int) -> tuple[Queue, ...]:
    """What projects used lately, and what their departments did: the sum of theirs."""
    half_life = world.limits.usage_half_life
    parents = {queue.parent for queue in queues}
    used = [
        0 if row in parents else world.queues.used(queue.name, pool, world.now, half_life)
        for row, queue in enumerate(queues)
    ]
    for row, queue in enumerate(queues):
        if queue.parent != TOP:
            used[queue.parent] += used[row]
    return tuple(queue._replace(usage=part_of(level, total)) for queue, level in zip(queues, used, strict=True))


def _takes_part(world: World, project: str, pool: str) -> bool:
    key = (project, pool)
    return pool in world.queues.projects[project].quotas or key in world.queues.accounts or key in world.waiting.demand


def _shares(queues: tuple[Queue, ...], resource: int, total: int, step: int, k: int) -> tuple[Share, ...] | None:
    lines = [queue.quota.line(resource) if queue.quota else None for queue in queues]
    if all(line is None or line.deserved is None for line in lines):
        return None
    tree = [_branch(queue, line, resource) for queue, line in zip(queues, lines, strict=True)]
    return tuple(fair_shares(total, tree, step, k if resource == 0 else 0))


def _branch(queue: Queue, line: Line | None, resource: int) -> Branch:
    wanted = queue.wanted[resource]
    if line is None:
        return Branch(queue.name, queue.parent, None, None, DEFAULT_WEIGHT, queue.rank, wanted, queue.usage)
    deserved = line.deserved or 0
    return Branch(queue.name, queue.parent, deserved, line.most, line.weight, queue.rank, wanted, queue.usage)
