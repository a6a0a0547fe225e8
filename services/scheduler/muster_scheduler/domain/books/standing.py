"""Where every queue of a node pool stands: what the pool has, what each wants, what its fair share is.

Made from the state when it is asked for (by turning/turns.py once a cycle, by making room, by people), never kept: it
follows from quotas, accounts, what waits and what the agents report.
A tree has two levels: departments by name, below them projects; a project without a department stands beside these.
Holds: what a queue wants is what it holds and what waits of it in this pool, without what could never run there;
rounding units are 1 GPU, 1 CPU and 1 GiB; clusters that are silent do not count.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from muster_kernel.quantities import GPU, MILLI
from muster_scheduler.domain.asked.quotas import DEFAULT_WEIGHT, NOTHING, Account, Amount, Line, Quota
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.shares.decay import part_of
from muster_scheduler.domain.shares.tree import TOP, Branch, Share, fair_shares

STEPS: Final = Amount(GPU, MILLI, 1 << 30)
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


class Standing(NamedTuple):
    """One pool. `shares`: of each resource by row; None where no quota names it. Parents stand before children."""

    pool: str
    total: Amount
    queues: tuple[Queue, ...]
    departments: dict[str, int]  # rows by name
    projects: dict[str, int]
    shares: tuple[tuple[Share, ...] | None, ...]

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
