"""Whose turn it is: level by level down the tree, the queue that holds least of its fair share.

Made by the cycle for its own length. Fair shares are made when two projects compete in a pool for the first time in it,
and once more where a workload came into a pool in which it was not counted as waiting; what queues hold is read anew
for every turn. Ties go to the name.
Kept in heaps, so that a turn costs what has changed since the one before and not what waits. An entry of a heap is
believed only where its key is what the books say now; where a key fell, `Queues.changed` has named it. Of a queue only
the entry that came last counts: with each batch all keys change, and entries would be renewed that nobody needs.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import NamedTuple

from muster_scheduler.domain.asked.quarantine import pool_place
from muster_scheduler.domain.asked.workloads import Workload
from muster_scheduler.domain.books.classes import ClassKey
from muster_scheduler.domain.books.standing import Standing
from muster_scheduler.domain.books.standings import standing_of
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.life.quarantine import QUARANTINED
from muster_scheduler.domain.turning.blocking import block


class _Entry(NamedTuple):
    """A queue of one level. project: empty for a department, below which one has to look on."""

    fullness: int
    name: str
    project: str


class _Heap:
    """Queues of one level by their keys, each once."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._keys: dict[tuple[str, str], int] = {}  # by name and project, of the entry that counts

    def push(self, entry: _Entry) -> None:
        """Puts a queue in, instead of where it stood."""
        fullness, name, project = entry
        if self._keys.get((name, project)) != fullness:
            self._keys[name, project] = fullness
            heapq.heappush(self._entries, entry)

    def first(self) -> _Entry | None:
        """The first of those that count; None where there is none."""
        while self._entries:
            fullness, name, project = self._entries[0]
            if self._keys.get((name, project)) == fullness:
                return self._entries[0]
            heapq.heappop(self._entries)
        return None

    def drop(self) -> None:
        """Takes the first one out."""
        _, name, project = heapq.heappop(self._entries)
        del self._keys[name, project]


class Turns:
    """The order of heads in one cycle: the pools by name, in each the project whose turn it is."""

    def __init__(self, world: World) -> None:
        """Begins with every project that has something worth a try."""
        self._world = world
        self._pools: dict[str, _Pool] = {}
        self._standings: dict[str, Standing] = {}
        self._firsts: dict[str, Standing] = {}  # of pools whose shares were made once more
        self.noted: int | None = None  # once all had their turn: where the journal stood when changes were noted
        world.queues.changed.clear()
        world.waiting.offered.clear()
        for project in world.waiting.projects():
            self.enter(project)

    def next(self) -> tuple[Workload, ClassKey] | None:
        """The workload to look at now and its class; None where nothing is worth a try."""
        self._catch_up()
        while self._pools:
            pool = min(self._pools)
            self._world.attends_place(pool_place(pool))
            project = self._pools[pool].turn()
            self._world.attending_place = ""
            head = self._world.waiting.head(project) if project else None
            if head is not None:
                return self._world.workloads[head[0]], head[1]
            del self._pools[pool]
        return None

    def unordered(self) -> str:
        """The pool that comes first, where several compete in it of whom nobody has asked yet who is next; else empty.

        A batch finds that out for itself, and most cycles need no more than one.
        """
        self._catch_up()
        pool = min(self._pools, default="")
        return pool if pool and self._pools[pool].unordered() else ""

    def competing(self, pool: str) -> list[str]:
        """The projects that take part in a pool's turns, by name; none where another pool comes first by now.

        The turn of some of them may be elsewhere: that is seen when it is their turn.
        """
        return sorted(self._pools[pool].members) if pool == min(self._pools, default="") else []

    def standing(self, pool: str) -> Standing:
        """The fair shares of a pool as they were when first asked for; what queues hold may have changed since."""
        standing = self._standings.get(pool)
        if standing is None:
            standing = self._standings[pool] = standing_of(self._world, pool)
        return standing

    def standings(self) -> Iterable[tuple[str, Standing]]:
        """The pools whose fair shares were asked for, with the first that were made."""
        return {**self._standings, **self._firsts}.items()

    def reweigh(self, pool: str) -> None:
        """Somebody holds something there who waited for another pool: the shares of before do not know that.

        Else it would be beyond its share by all that it holds, and whoever comes next could evict it at once; or not,
        where nobody had asked for the shares yet.
        """
        standing = self._standings.pop(pool, None)
        if standing is not None:
            self._firsts.setdefault(pool, standing)
            self._world.relented[pool] = None  # who was blocked under those is looked at in the next cycle
        if pool in self._pools:
            self._pools[pool].unorder()

    def _catch_up(self) -> None:
        queues, waiting = self._world.queues, self._world.waiting
        for project, pool in queues.changed:
            if pool in self._pools:
                self._pools[pool].renew(project)
        for project in waiting.offered:
            self.enter(project)
        queues.changed.clear()
        waiting.offered.clear()

    def enter(self, project: str) -> None:
        """The project takes part in the pool that its head tries first; what waits for one that is set aside waits."""
        pool = pool_of(self._world, project)
        while pool is not None and pool_place(pool) in self._world.places_aside:
            head = self._world.waiting.head(project)
            if head is not None:
                block(self._world, head[1], QUARANTINED)
            pool = pool_of(self._world, project)
        if pool is not None:
            if pool not in self._pools:
                self._pools[pool] = _Pool(self, self._world, pool)
            self._pools[pool].enter(project)


def pool_of(world: World, project: str) -> str | None:
    """The pool that the project's head tries first; None where it has none that is worth a try."""
    head = world.waiting.head(project)
    if head is None:
        return None
    return head[1].pools[0] if head[1].pools else ""


class _Pool:
    """The projects that compete in one pool. The heaps are made once there are two of them."""

    def __init__(self, turns: Turns, world: World, pool: str) -> None:
        self._turns = turns
        self._world = world
        self._pool = pool
        self.members: dict[str, None] = {}
        self._ordered = False
        self._top = _Heap()
        self._below: dict[str, _Heap] = {}
        self._stirred: dict[str, None] = {}  # departments of which another project may come first, or at another time

    def enter(self, project: str) -> None:
        """The project has a head in this pool."""
        if project not in self.members:
            self.members[project] = None
            if self._ordered:
                self._push(project)

    def unorder(self) -> None:
        """Nobody knows any more who comes first: shares have changed."""
        self._ordered = False
        self._top, self._below = _Heap(), {}
        self._stirred.clear()

    def renew(self, project: str) -> None:
        """What the project, or one of its department, holds has changed."""
        if not self._ordered:
            return
        if project in self.members and self._world.waiting.head(project) is None:
            del self.members[project]
        elif project in self.members:
            self._push(project)
        department = self._department_of(project)
        if department in self._below:
            self._stirred[department] = None

    def unordered(self) -> bool:
        """Whether several projects have a head, and no order has been made of them so far."""
        if not self._ordered:
            for project in [each for each in self.members if self._world.waiting.head(each) is None]:
                del self.members[project]
        return not self._ordered and len(self.members) > 1

    def turn(self) -> str:
        """The project whose turn it is; empty where no project is left."""
        if not self._ordered:
            if not self.unordered():
                only = next(iter(self.members), "")
                return only if only and self._has_head(only) else ""
            self._ordered = True
            for project in self.members:
                self._push(project)
        return self._least()

    def _least(self) -> str:
        self._enter_stirred()
        while (entry := self._top.first()) is not None:
            if entry.project:
                found = entry.project if self._has_head(entry.project) else ""
            else:
                found = self._least_below(entry.name)
            fresh = self._fullness(entry) if found else 0
            if found and fresh == entry.fullness:
                return found
            self._top.drop()
            if found:
                self._top.push(_Entry(fresh, entry.name, entry.project))
        return ""

    def _enter_stirred(self) -> None:
        for department in self._stirred:
            heap = self._below[department]
            while (entry := heap.first()) is not None and not self._has_head(entry.project):
                heap.drop()
            if entry is not None:
                self._top.push(_Entry(self._department(department), department, ""))
        self._stirred.clear()

    def _fullness(self, entry: _Entry) -> int:
        return self._project(entry.project) if entry.project else self._department(entry.name)

    def _least_below(self, department: str) -> str:
        heap = self._below[department]
        while (entry := heap.first()) is not None:
            there = self._has_head(entry.project)
            fresh = self._project(entry.project) if there else 0
            if there and fresh == entry.fullness:
                return entry.project
            heap.drop()
            if there:
                heap.push(_Entry(fresh, entry.name, entry.project))
        return ""

    def _has_head(self, project: str) -> bool:
        pool = pool_of(self._world, project)
        if pool == self._pool:
            return True
        self.members.pop(project, None)
        if pool is not None:
            self._turns.enter(project)  # what it has left to try is tried elsewhere
        return False

    def _push(self, project: str) -> None:
        entry = _Entry(self._project(project), project, project)
        department = self._department_of(project)
        if not department:
            self._top.push(entry)
            return
        if department not in self._below:
            self._below[department] = _Heap()
        self._below[department].push(entry)
        self._stirred[department] = None

    def _department_of(self, project: str) -> str:
        found = self._world.queues.department_of(project)
        return found.name if found else ""

    def _project(self, project: str) -> int:
        standing = self._turns.standing(self._pool)
        row = standing.projects.get(project)
        return 0 if row is None else standing.fullness(row, self._world.queues.account(project, self._pool).held)

    def _department(self, department: str) -> int:
        standing = self._turns.standing(self._pool)
        row = standing.departments.get(department)
        held = self._world.queues.department_account(department, self._pool).held
        return 0 if row is None else standing.fullness(row, held)
