"""Batches: the heads whose turns come next, decided by one kernel and written into the books together.

Called by the cycle for every head, unless batches placed nothing lately. Only heads of which the kernel decides exactly
what the cycle would decide head by head are given to it: one replica that may go anywhere in a pool that packs or
spreads; the first other one ends its project's stretch. The batch ends before the first head that finds no place.
Holds: decisions, books and order are those of the cycle without batches; a batch costs what is in it and the projects
that compete in its pool, whatever else waits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from muster_kernel.lifecycle import ACTIVE, DesiredPhase, LifecycleEvent, Phase, Verdict, step
from muster_scheduler.domain.asked.requests import Grant, Kind
from muster_scheduler.domain.asked.workloads import Request, Workload
from muster_scheduler.domain.books.capacity import Capacity
from muster_scheduler.domain.books.standing import Standing
from muster_scheduler.domain.books.stretches import Head
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.deciding.batch import RETIRES, WAITS, Heads
from muster_scheduler.domain.fleet.nodes import Node
from muster_scheduler.domain.fleet.taking import Run, grants_of
from muster_scheduler.domain.placement.place import Budget
from muster_scheduler.domain.turning.classes import Classes, alone
from muster_scheduler.domain.turning.forest import Forest, forest_of
from muster_scheduler.domain.turning.settling import Settled, settle_all
from muster_scheduler.domain.turning.turns import Turns

_LEAST: Final = 32
_MOST: Final = 4_096
_LONGEST: Final = 1_024
_FEWEST: Final = 8  # heads of each project


@dataclass(slots=True)
class Pace:
    """How many heads are given to the next batch: more while batches place what they get. 0: none.

    patience: how many heads have to be placed one after the other before a batch is tried again.
    """

    size: int = _LEAST
    streak: int = 0
    patience: int = 1

    def saw(self, *, placed: bool) -> None:
        """A head was decided alone."""
        self.streak = self.streak + 1 if placed else 0
        if self.streak >= self.patience:
            self.size, self.streak, self.patience = _LEAST, 0, min(_LONGEST, self.patience * 2)

    def batched(self, placed: int) -> None:
        """A batch placed so many."""
        if not placed:
            self.size = 0
        else:
            self.size = min(_MOST, self.size * 2) if placed * 2 >= self.size else _LEAST
            self.patience = 1


@dataclass(slots=True)
class _Stretches:
    """What the kernel is given, in its order. rows: of the classes; phases: which each workload would enter."""

    heads: list[Head] = field(default_factory=list)
    workloads: list[Workload] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)

    def add(self, head: Head, workload: Workload, row: int, phase: Phase) -> None:
        """One head more."""
        self.heads.append(head)
        self.workloads.append(workload)
        self.rows.append(row)
        self.phases.append(phase)

    def pop(self) -> None:
        """The last head is not for the kernel after all."""
        for kept in (self.heads, self.workloads, self.rows, self.phases):
            kept.pop()


def place_many(world: World, turns: Turns, head: Workload, budget: Budget, pace: Pace) -> int:
    """Places heads whose turns come next, of which `head` is the first, in the pool that it tries first; how many."""
    request = head.request
    if not pace.size or request is None or not request.pools or not alone(request):
        return 0
    pool = request.pools[0]
    projects = turns.competing(pool)
    if not projects:
        return 0
    standing = turns.standing(pool) if len(projects) > 1 else None
    batch = Batch(world, pool, projects, pace.size)
    placed = batch.decide(standing, budget)
    batch.write(placed)
    pace.batched(len(placed))
    return len(placed)


class Batch:
    """One batch in a pool. most: how many heads it is given, about."""

    def __init__(self, world: World, pool: str, projects: list[str], most: int) -> None:
        self._world = world
        self._projects = projects
        self._each = max(_FEWEST, most if len(projects) == 1 else 2 * most // len(projects))
        self._classes = Classes(world, pool)
        self._given = _Stretches()
        self._phases: dict[tuple[Phase, DesiredPhase], Phase | None] = {}

    def decide(self, standing: Standing | None, budget: Budget) -> list[list[int]]:
        """What the kernel decides, rows as `batch.decide` writes them. The columns say so now: `write` has to follow.

        standing: the pool's fair shares; None where a single project competes.
        """
        forest = forest_of(self._world, self._classes.pool, self._projects, standing)
        heads = self._gather(forest) if forest is not None else None
        capacity = self._classes.capacity
        if forest is None or heads is None or capacity is None or not self._given.heads:
            return []
        found = capacity.seeker.decide(forest.tree, self._classes.shapes(), heads, budget.visits)
        budget.visits = found.left
        placed: list[list[int]] = found.placed.tolist()
        return placed

    def write(self, placed: list[list[int]]) -> None:
        """Writes what was decided into the books."""
        capacity = self._classes.capacity
        if capacity is not None and placed:
            self._settle(capacity, placed)
            self._world.waiting.leave([self._given.heads[at] for at, *_ in placed])

    def _gather(self, forest: Forest) -> Heads:
        """Every project's stretch."""
        given = self._given
        first, last, then = (np.zeros(len(forest.tree.parent), np.int64) for _ in range(3))
        for project in self._projects:
            row = forest.rows[project]
            first[row] = len(given.heads)
            then[row] = self._stretch(project, row)
            last[row] = len(given.heads)
        return Heads(np.array(given.rows, np.int64), first, last, then)

    def _stretch(self, project: str, queue: int) -> int:
        """Adds a project's stretch; what follows on it. queue: its row in the tree."""
        heads = self._world.waiting.heads(project, self._each)
        for at, head in enumerate(heads):
            workload = self._world.workloads[head.place.id]
            row, phase = self._classes.row(workload, head.bucket, queue), self._entered(workload)
            if row is None or phase is None:
                if at and self._classes.elsewhere(head.bucket):
                    # Where the project's turn is after its last head here follows from how that one is taken.
                    self._given.pop()
                return WAITS
            self._given.add(head, workload, row, phase)
        return RETIRES if len(heads) < self._each else WAITS

    def _entered(self, workload: Workload) -> Phase | None:
        """The phase that a workload enters by being placed; None where more follows from it than that."""
        if workload.claim is not None or workload.reservation is not None or workload.replicas:
            return None
        key = workload.phase, workload.desired
        if key not in self._phases:
            self._phases[key] = _entered(*key)
        return self._phases[key]

    def _settle(self, capacity: Capacity, placed: list[list[int]]) -> None:
        given, settled = self._given, list[Settled]()
        for at, ordinal, mask, start, _ in placed:
            workload, node = given.workloads[at], capacity.nodes[ordinal]
            if workload.request is not None:
                grant = _grant(workload.request, node, mask, start)
                settled.append(Settled(workload, workload.request, node, grant, given.phases[at]))
        settle_all(self._world, self._classes.cluster, self._classes.pool, capacity, settled)
        for workload, _, node, _, _ in settled:
            if self._classes.clocked(workload, node):
                self._world.watch(workload)


def _entered(phase: Phase, desired: DesiredPhase) -> Phase | None:
    moved = step(phase, LifecycleEvent.PLACED, desired)
    if isinstance(moved, Verdict) or moved.desired is not desired or len(moved.path) != 1:
        return None
    return moved.path[0] if moved.path[0] in ACTIVE else None


def _grant(request: Request, node: Node, mask: int, start: int) -> Grant:
    shape = request.roles[0].shape
    if shape.kind is Kind.NONE:
        return Grant(shape.cpu, shape.memory)
    return next(grants_of(node, shape, Run(node.ordinal, 0, 1, mask, start)))
