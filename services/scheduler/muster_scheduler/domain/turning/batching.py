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
from functools import cache
from typing import Any, Final

import numpy as np

from muster_kernel.lifecycle import ACTIVE, DesiredPhase, LifecycleEvent, Phase, Verdict, step
from muster_scheduler.domain.asked.requests import Grant, Kind, Shape
from muster_scheduler.domain.asked.workloads import Workload
from muster_scheduler.domain.books.buckets import Bucket
from muster_scheduler.domain.books.capacity import Capacity
from muster_scheduler.domain.books.classes import Kin, Place
from muster_scheduler.domain.books.standing import Standing
from muster_scheduler.domain.books.stretches import Stretch
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.deciding.batch import PLACED, RETIRES, WAITS, Heads
from muster_scheduler.domain.deciding.shapes import KIND, MEMORY, UNITS, rows_of, terms_row
from muster_scheduler.domain.fleet.columns import Ints64
from muster_scheduler.domain.fleet.nodes import Node
from muster_scheduler.domain.fleet.taking import grant_of
from muster_scheduler.domain.placement.place import Budget, charge_before
from muster_scheduler.domain.turning.classes import Classes, alone
from muster_scheduler.domain.turning.forest import Forest, forest_of
from muster_scheduler.domain.turning.settling import Part, Settled, Start, settle_all, start_of, values_of
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
    """What the kernel is given, in its order. stretches: the projects' rows in here."""

    names: list[str] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    buckets: list[Bucket] = field(default_factory=list)
    workloads: list[Workload] = field(default_factory=list)
    kins: list[Kin] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    stretches: list[Part] = field(default_factory=list)

    def only(self, parts: Sequence[Part]) -> None:
        """Leaves out who is not in these parts of it."""
        if sum(part.end - part.first for part in parts) == len(self.names):
            return
        for name in ("names", "places", "buckets", "workloads", "kins", "starts"):
            column = getattr(self, name)
            setattr(self, name, [each for _, first, end in parts for each in column[first:end]])


def pool_of(head: Workload) -> str:
    """The pool in which a batch may begin with this head; empty: none does."""
    request = head.request
    return request.pools[0] if request is not None and request.pools and alone(request) else ""


def place_many(world: World, turns: Turns, pool: str, budget: Budget, pace: Pace) -> int:
    """Places heads whose turns come next in a pool, up to the first that is not for a batch; how many."""
    projects = turns.competing(pool) if pool and pace.size else []
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
        self._terms: dict[Kin, bytes] = {}
        self._begun: tuple[tuple[Any, ...], Start | None] = (), None  # how the last one stood, and its start

    def decide(self, standing: Standing, budget: Budget) -> Ints64:
        """What the kernel decides, rows as `batch.decide` writes them. The columns say so now: `write` has to follow.

        standing: the pool's fair shares.
        """
        forest = forest_of(self._world.queues, self._projects, standing)
        heads = self._gather(forest) if forest is not None else None
        capacity = self._classes.capacity
        if forest is None or heads is None or capacity is None or not self._given.workloads:
            return np.zeros((0, PLACED), np.int64)
        found = capacity.seeker.decide(forest.tree, self._shapes(), heads, budget.visits)
        budget.visits = found.left
        return found.placed

    def write(self, placed: Ints64) -> None:
        """Writes what was decided into the books."""
        capacity, given, world = self._classes.capacity, self._given, self._world
        if capacity is None or not len(placed):
            return
        order = None
        parts = self._parts(placed[:, 0])
        if len(parts) > 1:  # each project's are placed in their order, but those of several by turns
            sort = placed[:, 0].argsort()
            order, placed = sort.argsort().tolist(), placed[sort]
        given.only(parts)
        parts = _closed(parts)
        _, ordinals, masks, starts, _ = placed.T.tolist()
        grants = self._grants(capacity, ordinals, zip(masks, starts, strict=True))
        spot = {kin: (kin.forms[0].name, 0) for kin in dict.fromkeys(given.kins)}
        spots, bound = [spot[kin] for kin in given.kins], [not kin.preemptible for kin in given.kins]
        settled = Settled(given.names, given.workloads, given.starts, ordinals, grants, spots, bound, parts, order)
        settle_all(world, self._classes.cluster, capacity, settled)
        for workload in self._timed(capacity, parts, ordinals):
            world.watch(workload)
        world.waiting.leave(Stretch(given.places, given.buckets))

    def _parts(self, heads: Ints64) -> list[Part]:
        """Who of each project was placed, as rows of what the kernel was given: the first of its stretch."""
        stretches = self._given.stretches
        if len(heads) == len(self._given.names):
            return stretches
        if len(stretches) == 1:
            return [stretches[0]._replace(end=len(heads))]
        ends = np.array([stretch.end for stretch in stretches])
        counts = np.bincount(np.searchsorted(ends, heads, side="right"), minlength=len(ends)).tolist()
        parts = zip(stretches, counts, strict=True)
        return [stretch._replace(end=stretch.first + count) for stretch, count in parts if count]

    def _grants(self, capacity: Capacity, ordinals: list[int], devices: Iterable[tuple[int, int]]) -> list[Grant]:
        """What each placed head gets. What is CPU and memory alone is one value for all members of a class."""
        given, nodes = self._given, capacity.nodes
        shared = [bucket.grant for bucket in given.buckets if bucket.grant is not None]
        if len(shared) == len(given.buckets):
            return shared
        heads = zip(given.workloads, given.buckets, ordinals, devices, strict=True)
        return [
            bucket.grant or _grant(workload, nodes[ordinal], mask, start)
            for workload, bucket, ordinal, (mask, start) in heads
        ]

    def _timed(self, capacity: Capacity, parts: list[Part], ordinals: list[int]) -> list[Workload]:
        """Those placed that may have to be looked at by time alone."""
        closing, timed, workloads = capacity.usable.special, self._classes.timed, self._given.workloads
        if not closing and not any(timed(workloads[part.first]) for part in parts):
            return []
        return [each for each, n in zip(workloads, ordinals, strict=True) if n in closing or timed(each)]

    def _gather(self, forest: Forest) -> Heads:
        """Every project's stretch."""
        given = self._given
        first, last, then = (np.zeros(len(forest.tree.parent), np.int64) for _ in range(3))
        for project in self._projects:
            row = forest.rows[project]
            first[row] = len(given.names)
            then[row] = self._stretch(project, row)
            last[row] = len(given.names)
            if last[row] > first[row]:
                given.stretches.append(Part(project, int(first[row]), int(last[row])))
        return Heads(first, last, then)

    def _shapes(self) -> Ints64:
        """What each head asks for, int64[heads, WIDTH]."""
        given = self._given
        rows = rows_of([bucket.amounts for bucket in given.buckets], [self._terms[kin] for kin in given.kins])
        if any(kin.forms[0].kind is Kind.MEMORY for kin in self._terms):
            charges: dict[Bucket, int] = {}
            for row in np.flatnonzero(rows[:, KIND] == MEMORY).tolist():
                rows[row, UNITS] = self._charge(given.buckets[row], given.workloads[row], charges)
        return rows

    def _charge(self, bucket: Bucket, workload: Workload, known: dict[Bucket, int]) -> int:
        """What a member of a class counts as before it has a card."""
        if bucket not in known and workload.request is not None:
            known[bucket] = charge_before(self._world, workload.request, self._classes.pool)
        return known[bucket]

    def _stretch(self, project: str, queue: int) -> int:
        """Adds a project's stretch; what follows on it. queue: its row in the tree."""
        places, buckets = self._world.waiting.stretch(project, self._each)
        names = [place.id for place in places]
        workloads = list(map(self._world.workloads.__getitem__, names))
        kins, starts = self._kins(workloads, buckets, queue), self._starts(workloads)
        end = min(len(kins), len(starts))
        follows = WAITS if end < len(places) or len(places) >= self._each else RETIRES
        if 0 < end < len(places) and self._classes.elsewhere(buckets[end].kin):
            # Where the project's turn is after its last head here follows from how that one is taken.
            end -= 1
        given = self._given
        given.names += names[:end]
        given.places += places[:end]
        given.buckets += buckets[:end]
        given.workloads += workloads[:end]
        given.kins += kins[:end]
        given.starts += starts[:end]
        return follows

    def _kins(self, workloads: list[Workload], buckets: Iterable[Bucket], queue: int) -> list[Kin]:
        """What classes have in common with others, up to the first that is not for the kernel."""
        kins, known = [bucket.kin for bucket in buckets], self._terms
        for at, kin in enumerate(kins):
            if kin not in known:
                terms = self._classes.terms(workloads[at], kin, queue)
                if terms is None:
                    return kins[:at]
                known[kin] = terms_row(terms)
        return kins

    def _starts(self, workloads: list[Workload]) -> list[Start]:
        """How workloads stand, up to the first of which more follows from being placed than that it enters a phase."""
        found: list[Start] = []
        last, start = self._begun
        for each in workloads:
            values = values_of(each)
            if values != last:
                last, start = self._begun = values, self._start(each, values)
            if start is None or each.replicas:
                break
            found.append(start)
        return found

    def _start(self, workload: Workload, values: tuple[Any, ...]) -> Start | None:
        if workload.claim is not None or workload.reservation is not None:
            return None
        entered = _entered(workload.phase, workload.desired)
        return start_of(values, entered, self._world.now) if entered is not None else None


@cache
def _entered(phase: Phase, desired: DesiredPhase) -> Phase | None:
    """The phase into which being placed takes it, where nothing else follows from that."""
    moved = step(phase, LifecycleEvent.PLACED, desired)
    if isinstance(moved, Verdict) or moved.desired is not desired or len(moved.path) != 1:
        return None
    return moved.path[0] if moved.path[0] in ACTIVE else None


def _closed(parts: Iterable[Part]) -> list[Part]:
    """The parts without the rows between them."""
    found: list[Part] = []
    for project, first, end in parts:
        start = found[-1].end if found else 0
        found.append(Part(project, start, start + end - first))
    return found


def _grant(workload: Workload, node: Node, mask: int, start: int) -> Grant:
    request = workload.request
    shape = request.roles[0].shape if request else Shape()
    return grant_of(node, shape, mask, start)
