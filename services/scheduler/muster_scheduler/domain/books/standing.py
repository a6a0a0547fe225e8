"""Where every queue of a node pool stands: what the pool has, what each wants, what its fair share is.

Values; standings.py makes them from the books. Read by whoever gives turns, makes room, keeps nodes, or answers people.
A tree has two levels: departments by name, below them projects; a project without a department stands beside these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from muster_kernel.quantities import GPU, MILLI
from muster_scheduler.domain.asked.quotas import EMPTY, Account, Amount, Line, Quota
from muster_scheduler.domain.books.queues import Department, Project, Queues
from muster_scheduler.domain.shares.tree import Division, Share, Shares
from muster_scheduler.domain.tuples import new

Ints = NDArray[np.int64]

STEPS: Final = Amount(GPU, MILLI, 1 << 30)
FREE: Final = 1 << 60  # what a queue may hold of a resource that its quota does not name
_FULL: Final = 1 << 61
_SCALE: Final = 20  # bits behind the point of a ratio
_FAIR, _WANTED, _DESERVED, _HELD, _BOUND = range(5)  # of a table's amounts


class Queue(NamedTuple):
    """One queue of a pool: a department, or a project. parent: its row, -1 for the top level."""

    name: str
    parent: int
    quota: Quota | None  # None: a department that says nothing of this pool
    rank: int
    usage: int = 0  # of GPUs lately, in millionths of what the pool has


class Table(NamedTuple):
    """The queues of a pool as arrays of q rows, resources as in `Amount`.

    parent: int64[q]. counted: bool[3], the resources that any quota names. amounts: int64[5, q + 1, 3], what the
    properties below say, one after the other, and zeros in the last row, which stands for a root above all of them.
    accounts: those that were last read; read: what `Queues.stirs` was then, empty: never.
    """

    parent: Ints
    counted: NDArray[np.bool_]
    amounts: Ints
    accounts: list[Account | None]
    read: list[int]

    @property
    def fair(self) -> Ints:
        """int64[q, 3], fair shares in the accounts' units; FREE where no quota names the resource."""
        return self.amounts[_FAIR, :-1]

    @property
    def wanted(self) -> Ints:
        """int64[q, 3], what is held and waits; 0 where no quota names the resource."""
        return self.amounts[_WANTED, :-1]

    @property
    def deserved(self) -> Ints:
        """int64[q, 3]; FREE where no quota names the resource."""
        return self.amounts[_DESERVED, :-1]

    @property
    def held(self) -> Ints:
        """int64[q, 3], of the accounts as last read."""
        return self.amounts[_HELD, :-1]

    @property
    def bound(self) -> Ints:
        """int64[q, 3], what of it is non-preemptible."""
        return self.amounts[_BOUND, :-1]

    def with_fair(self, shares: Shares, rows: list[int]) -> Table:
        """The same queues where the shares of these rows are others."""
        amounts = self.amounts.copy()
        for at, each in enumerate(shares):
            if each is not None and rows:
                fair, wanted = [each[row].fair for row in rows], [each[row].wanted for row in rows]
                amounts[: _WANTED + 1, rows, at] = fair, wanted
        return new(Table, (self.parent, self.counted, amounts, self.accounts.copy(), self.read.copy()))


class Frame(NamedTuple):
    """The queues of a pool as a tree under a root, row 0: what of it no account and no share changes.

    Children of one parent stand together, in the order in which ties of turns end: by name, a department before a
    project of its name. order: int64[q + 1], the row of a table that stands at each; rows: of the projects, by name.
    parent, first_child, children: int64[q + 1]. most, secure: int64[q + 1, 3], what a queue may hold, and what of it
    may be non-preemptible; FREE where nothing bounds it.
    """

    order: Ints
    rows: dict[str, int]
    parent: Ints
    first_child: Ints
    children: Ints
    most: Ints
    secure: Ints


def _frame_of(queues: Sequence[Queue], departments: int) -> Frame:
    """The frame of queues of which the first so many are departments."""
    top = sorted((queue.name, row >= departments, row) for row, queue in enumerate(queues) if queue.parent < 0)
    order = [row for _, _, row in top]
    below = [row for row, queue in enumerate(queues) if queue.parent >= 0]
    places = {row: at for at, row in enumerate(order, 1)}
    order += sorted(below, key=lambda row: (places[queues[row].parent], row))
    places = {row: at for at, row in enumerate(order, 1)}
    parent = [-1, *(places.get(queues[row].parent, 0) for row in order)]
    first, children = np.zeros(len(parent), np.int64), np.zeros(len(parent), np.int64)
    for row in range(len(order), 0, -1):
        first[parent[row]] = row
        children[parent[row]] += 1
    bounds = [_bounds(queues[row].quota) for row in order]
    most, secure = (np.array([(FREE,) * 3, *(each[side] for each in bounds)], np.int64) for side in (0, 1))
    rows = {queues[row].name: at for at, row in enumerate(order, 1) if row >= departments}
    return Frame(np.array([len(order), *order], np.int64), rows, np.array(parent), first, children, most, secure)


def _bounds(quota: Quota | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    lines = quota.lines if quota else (Line(),) * len(STEPS)
    most = tuple(FREE if line.most is None else line.most for line in lines)
    return most, tuple(FREE if line.deserved is None else line.deserved for line in lines)


@dataclass(frozen=True, eq=False)
class Standing:
    """One pool. `shares`: of each resource by row; None where no quota names it. Parents stand before children."""

    pool: str
    total: Amount
    queues: tuple[Queue, ...]
    departments: dict[str, int]  # rows by name
    projects: dict[str, int]
    shares: Shares

    @cached_property
    def table(self) -> Table:
        """The queues as arrays, made once; `refreshed` brings the accounts up to date."""
        parent = np.array([queue.parent for queue in self.queues], np.int64)
        counted = np.array([share is not None for share in self.shares])
        table = Table(parent, counted, np.zeros((5, len(parent) + 1, len(STEPS)), np.int64), [None] * len(parent), [])
        table.fair[:] = table.deserved[:] = FREE
        for at, shares in enumerate(self.shares):
            if shares is not None:
                table.fair[:, at] = [min(each.fair, FREE) for each in shares]
                table.deserved[:, at] = [min(each.deserved, FREE) for each in shares]
                table.wanted[:, at] = [min(each.wanted, FREE) for each in shares]
        return table

    @cached_property
    def frame(self) -> Frame:
        """The queues as a tree in the order of their turns, made once."""
        return _frame_of(self.queues, len(self.departments))

    @cached_property
    def keys(self) -> list[tuple[str, str]]:
        """Under what the books have each row's account."""
        return [(queue.name, self.pool) for queue in self.queues]

    def accounts(self, books: Queues) -> list[Account | None]:
        """What each row holds now; None: nothing."""
        inner = len(self.departments)
        return list(chain(map(books.above.get, self.keys[:inner]), map(books.accounts.get, self.keys[inner:])))

    def refreshed(self, books: Queues) -> Table:
        """The table with what the queues hold now; to be read only, and until the next call."""
        table, stirs = self.table, books.stirs(self.pool)
        if table.read == [stirs]:
            return table
        table.read[:] = [stirs]
        accounts = self.accounts(books)
        rows = differing(accounts, table.accounts)
        if rows:
            now = [accounts[row] or EMPTY for row in rows]
            table.amounts[_HELD:, rows] = [each.held for each in now], [each.bound for each in now]
            table.accounts[:] = accounts
        return table

    def followed(self, shares: Shares, felt: list[int]) -> Standing:
        """The same queues a moment later. felt: the rows of which a share has changed."""
        later = Standing(self.pool, self.total, self.queues, self.departments, self.projects, shares)
        vars(later)["keys"] = self.keys
        if "frame" in vars(self):
            vars(later)["frame"] = self.frame
        if "table" in vars(self):
            vars(later)["table"] = self.table.with_fair(shares, felt)
        return later

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


def differing(now: Sequence[object], before: Sequence[object]) -> list[int]:
    """The rows in which two lists of values differ."""
    if now == before:
        return []
    return [row for row, (one, other) in enumerate(zip(now, before, strict=True)) if one is not other]


@dataclass(slots=True, eq=False)
class Kept:
    """A pool's standing as it was last, and what it was made from. demands: of the projects' rows.

    divisions: of each resource that a quota names. others: the projects that take no part, as keys of accounts.
    """

    standing: Standing
    projects: dict[str, Project]
    departments: dict[str, Department]
    divisions: tuple[Division | None, ...]
    others: list[tuple[str, str]]
    accounts: list[Account | None]
    demands: list[Amount | None]
