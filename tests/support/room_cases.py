"""Small crowded pools with a taker, made from a seed: what tests of making room are tried on."""

from __future__ import annotations

import random
from typing import NamedTuple

import numpy as np

from muster_kernel.quantities import GPU
from muster_scheduler.domain.asked.requests import Kind, Shape, charge_of
from muster_scheduler.domain.fleet.columns import Columns
from muster_scheduler.domain.fleet.nodes import UNBOUNDED
from muster_scheduler.domain.room.values import ALL, Question, Running, Taker, Tree
from tests.support.pools import GIB, Part, Work, occupy, pool, running

CARDS = 4


class Case(NamedTuple):
    """A crowded pool and who wants room in it."""

    columns: Columns
    running: Running
    tree: Tree
    taker: Taker

    @property
    def question(self) -> Question:
        """Who asks whom for what."""
        return Question(self.columns, self.running, self.taker)


# Departments 0 and 1, projects 2 and 3 of the first, 4 of the second, 5 at the top; the taker is project 2.
PARENTS = np.array([-1, -1, 0, 0, 1, -1], np.int64)
LEAVES = (3, 4, 5)


def case_of(seed: int) -> Case:
    """A crowded pool: most cards are held by one of some gangs, wholly or in parts."""
    rng = random.Random(seed)
    nodes = rng.randint(1, 6)
    columns = pool(nodes, CARDS, cpu=rng.choice((8_000, 12_000)), memory=64 * GIB)
    works = _works(rng, nodes)
    if seed % 4 == 0:
        _limit(random.Random(seed), columns, works)
    listed = running(works)
    return Case(occupy(columns, listed), listed, _tree(rng, listed), _taker(rng, nodes))


def _limit(rng: random.Random, columns: Columns, works: list[Work]) -> None:
    """Every node takes what runs there, and few replicas more."""
    held = np.bincount([part.node for work in works for part in work.parts], minlength=len(columns))
    columns.replicas[:] = held + [rng.choice((0, 1, 2, UNBOUNDED)) for _ in held]


def _works(rng: random.Random, nodes: int) -> list[Work]:
    number = rng.randint(1, 9)
    parts: list[list[Part]] = [[] for _ in range(number)]
    for node in range(nodes):
        slot = 0
        while slot < CARDS:
            width = min(rng.choice((1, 1, 2, 4)), CARDS - slot)
            mask = ((1 << width) - 1) << slot
            for milli in rng.choice(((1000,), (1000,), (500, 500), (750,), ())):
                amount = ALL if milli == 1000 else milli * 80 * GIB // 1000
                parts[rng.randrange(number)].append(Part(node, mask, 500, GIB, milli, amount))
            slot += width
    return [
        Work(rng.choice(LEAVES), tuple(each), placed=rng.randrange(9), lost=rng.randrange(3)) for each in parts if each
    ]


def _tree(rng: random.Random, listed: Running) -> Tree:
    allocated = np.zeros((len(PARENTS), 1), np.int64)
    np.add.at(allocated, listed.queue, listed.units)
    for leaf in (2, *LEAVES):
        allocated[leaf] += rng.choice((0, 0, 1)) * GPU  # what others of theirs hold: never asked to leave
    for queue in (5, 4, 3, 2):
        if PARENTS[queue] >= 0:
            allocated[PARENTS[queue]] += allocated[queue]
    fair, deserved = ([rng.randint(0, 8) * GPU // 2 for _ in PARENTS] for _ in range(2))
    for side in (fair, deserved):
        if rng.random() < 0.7:
            side[2] += 8 * GPU
            side[0] += 20 * GPU
    fair_share, quota = (np.array(side, np.int64).reshape(-1, 1) for side in (fair, deserved))
    return Tree(PARENTS, allocated, fair_share, quota, np.array([True]), allocated)


def _taker(rng: random.Random, nodes: int) -> Taker:
    kind = rng.choice((Kind.WHOLE, Kind.WHOLE, Kind.PORTION, Kind.MEMORY))
    milli = rng.choice((250, 500)) if kind is Kind.PORTION else 0
    amount = rng.choice((30, 60)) * GIB if kind is Kind.MEMORY else 0
    devices = rng.choice((1, 2, CARDS) if kind is Kind.WHOLE else (1, 2))
    shape = Shape(rng.choice((0, 500, 3000)), GIB, kind, devices, milli, amount)
    size = rng.randint(1, 4)
    domains = np.array([rng.choice((-1, 0, 0, 1)) for _ in range(nodes)], np.int64) if rng.random() < 0.4 else None
    eligible = np.array([rng.random() < 0.9 for _ in range(nodes)])
    return Taker(2, shape, size, np.array([charge_of(shape, 80 * GIB) * size], np.int64), eligible, domains)
