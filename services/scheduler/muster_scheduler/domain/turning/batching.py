"""Batches: the heads whose turns come next, decided by one kernel and written into the books together.

Called by the cycle for every head, unless batches placed nothing lately. Only heads of which the kernel decides exactly
what the cycle would decide head by head are given to it: one replica that may go anywhere in a pool that packs or
spreads; the first other one ends its project's stretch. The batch ends before the first head that finds no place.
Holds: decisions, books and order are those of the cycle without batches; a batch costs what is in it and the projects
that compete in its pool, whatever else waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final

import numpy as np

from muster_kernel.lifecycle import ACTIVE, DesiredPhase, LifecycleEvent, Phase, Verdict, step
from muster_scheduler.domain.asked.requests import Grant, Shape
from muster_scheduler.domain.asked.workloads import Workload
from muster_scheduler.domain.books.capacity import Capacity
from muster_scheduler.domain.books.classes import Place
from muster_scheduler.domain.books.standing import Standing
from muster_scheduler.domain.books.stretches import Stretch
from muster_scheduler.domain.books.waiting import Bucket
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.deciding.batch import PLACED, RETIRES, WAITS, Heads
from muster_scheduler.domain.fleet.columns import Ints64
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
class _Given:
    """What the kernel is given, in its order. rows: of the classes; phases: which each workload would enter."""

    places: list[Place] = field(default_factory=list)
    buckets: list[Bucket] = field(default_factory=list)
    workloads: list[Workload] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)


def place_many(world: World, turns: Turns, head: Workload, budget: Budget, pace: Pace) -> int:
    """Places heads whose turns come next, of which `head` is the first, in the pool that it tries first; how many."""
    request = head.request
    if not pace.size or request is None or not request.pools or not alone(request):
        return 0
    pool = request.pools[0]
    projects = turns.competing(pool)
    if not projects:
        return 0
    batch = Batch(world, pool, projects, pace.size)
    placed = batch.decide(turns.standing(pool), budget)
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
        self._given = _Given()
        self._phases: dict[tuple[Phase, DesiredPhase], Phase | None] = {}

    def decide(self, standing: Standing, budget: Budget) -> Ints64:
        """What the kernel decides, rows as `batch.decide` writes them. The columns say so now: `write` has to follow.

        standing: the pool's fair shares.
        """
        forest = forest_of(self._world.queues, self._projects, standing)
        heads = self._gather(forest) if forest is not None else None
        capacity = self._classes.capacity
        if forest is None or heads is None or capacity is None or not self._given.workloads:
            return np.zeros((0, PLACED), np.int64)
        found = capacity.seeker.decide(forest.tree, self._classes.shapes(), heads, budget.visits)
        budget.visits = found.left
        return found.placed

    def write(self, placed: Ints64) -> None:
        """Writes what was decided into the books."""
        capacity, given, world = self._classes.capacity, self._given, self._world
        if capacity is None or not len(placed):
            return
        heads, ordinals, masks, starts, _ = placed.T.tolist()
        workloads = [given.workloads[at] for at in heads]
        grants = self._grants(capacity, heads, ordinals, zip(masks, starts, strict=True))
        settled = Settled(workloads, ordinals, grants, [given.phases[at] for at in heads])
        settle_all(world, self._classes.cluster, capacity, settled)
        for workload in self._timed(capacity, workloads, ordinals):
            world.watch(workload)
        world.waiting.leave(Stretch([given.places[at] for at in heads], [given.buckets[at] for at in heads]))

    def _grants(
        self, capacity: Capacity, heads: list[int], ordinals: list[int], devices: Iterable[tuple[int, int]]
    ) -> list[Grant]:
        """What each placed head gets. What is CPU and memory alone is one value for all members of a class."""
        given, plain, nodes = self._given, self._classes.grants, capacity.nodes
        return [
            plain[given.rows[at]] or _grant(given.workloads[at], nodes[ordinal], mask, start)
            for at, ordinal, (mask, start) in zip(heads, ordinals, devices, strict=True)
        ]

    def _timed(self, capacity: Capacity, workloads: list[Workload], ordinals: list[int]) -> list[Workload]:
        """Those placed that may have to be looked at by time alone."""
        closing, timed = capacity.usable.special, self._classes.timed
        first = {workload.project: workload for workload in workloads}
        if not closing and not any(map(timed, first.values())):
            return []
        return [each for each, n in zip(workloads, ordinals, strict=True) if n in closing or timed(each)]

    def _gather(self, forest: Forest) -> Heads:
        """Every project's stretch."""
        given = self._given
        first, last, then = (np.zeros(len(forest.tree.parent), np.int64) for _ in range(3))
        for project in self._projects:
            row = forest.rows[project]
            first[row] = len(given.rows)
            then[row] = self._stretch(project, row)
            last[row] = len(given.rows)
        return Heads(np.array(given.rows, np.int64), first, last, then)

    def _stretch(self, project: str, queue: int) -> int:
        """Adds a project's stretch; what follows on it. queue: its row in the tree."""
        known = self._world.workloads
        places, buckets = self._world.waiting.stretch(project, self._each)
        workloads = [known[place.id] for place in places]
        rows, phases = self._rows(workloads, buckets, queue), self._entered(workloads)
        end = min(len(rows), len(phases))
        follows = WAITS if end < len(places) or len(places) >= self._each else RETIRES
        if 0 < end < len(places) and self._classes.elsewhere(buckets[end]):
            # Where the project's turn is after its last head here follows from how that one is taken.
            end -= 1
        given = self._given
        given.places += places[:end]
        given.buckets += buckets[:end]
        given.workloads += workloads[:end]
        given.rows += rows[:end]
        given.phases += phases[:end]
        return follows

    def _rows(self, workloads: list[Workload], buckets: Sequence[Bucket], queue: int) -> list[int]:
        """The rows of classes, up to the first that is not for the kernel."""
        known: dict[Bucket, int] = {}
        for workload, bucket in zip(workloads, buckets, strict=True):
            if bucket not in known:
                row = self._classes.row(workload, bucket, queue)
                if row is None:
                    return [known[each] for each in takewhile(known.__contains__, buckets)]
                known[bucket] = row
        return [known[bucket] for bucket in buckets]

    def _entered(self, workloads: list[Workload]) -> list[Phase]:
        """The phases that workloads enter by being placed, up to the first of which more follows from it than that."""
        found: list[Phase] = []
        phase: Phase | None = None
        desired: DesiredPhase | None = None
        entered: Phase | None = None
        for each in workloads:
            if each.phase is not phase or each.desired is not desired:
                phase, desired = each.phase, each.desired
                entered = self._phase(phase, desired)
            if entered is None or each.claim is not None or each.reservation is not None or each.replicas:
                break
            found.append(entered)
        return found

    def _phase(self, phase: Phase, desired: DesiredPhase) -> Phase | None:
        key = phase, desired
        if key not in self._phases:
            self._phases[key] = _entered(*key)
        return self._phases[key]


def _entered(phase: Phase, desired: DesiredPhase) -> Phase | None:
    moved = step(phase, LifecycleEvent.PLACED, desired)
    if isinstance(moved, Verdict) or moved.desired is not desired or len(moved.path) != 1:
        return None
    return moved.path[0] if moved.path[0] in ACTIVE else None


def _grant(workload: Workload, node: Node, mask: int, start: int) -> Grant:
    request = workload.request
    shape = request.roles[0].shape if request else Shape()
    return next(grants_of(node, shape, Run(node.ordinal, 0, 1, mask, start)))
