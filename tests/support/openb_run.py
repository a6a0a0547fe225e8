"""One seed of the trace under one outlook: pods arrive one by one, each is placed at once where it fits anywhere.

Used by tests/benchmarks/openb.py and tests/unit/scheduler/test_strategies.py. The strategies, the board and the way in
which a placement is taken are the scheduler's own.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from muster_scheduler.domain.asked.requests import Kind, Shape
from muster_scheduler.domain.fleet.taking import take
from muster_scheduler.domain.strategies.board import Board
from muster_scheduler.domain.strategies.outlook import Outlook
from muster_scheduler.domain.strategies.popularity import Asked
from tests.support.openb_bound import Bound
from tests.support.openb_trace import Class, Fleet, eligible, empty_columns

_ROUNDING: Final = 1e-6  # the solver's


class Outcome(NamedTuple):
    """milli-GPU that were allocated, and the CPU seconds that it took, reading and building apart."""

    milli: int
    seconds: float


def shape_of(asked: Asked) -> Shape:
    """The scheduler's shape of a request of the trace."""
    if not asked.devices:
        return Shape(asked.cpu, asked.memory)
    kind = Kind.WHOLE if asked.milli == 1000 else Kind.PORTION
    return Shape(asked.cpu, asked.memory, kind, asked.devices, asked.milli if kind is Kind.PORTION else 0)


def place_all(fleet: Fleet, classes: list[Class], order: Iterable[int], outlook: Outlook) -> Outcome:
    """Places the pods in their order, each by the board; what fits nowhere is skipped."""
    columns = empty_columns(fleet)
    nodes = [eligible(fleet, one) for one in classes]
    shapes = [shape_of(one.asked) for one in classes]
    board = Board(columns, outlook)
    allocated, began = 0, time.process_time()
    for k in order:
        asked = classes[k].asked
        run = board.choose(asked, nodes[k])
        if run is not None:
            take(columns, shapes[k], run)
            board.changed(run.node)
            allocated += asked.devices * asked.milli
    return Outcome(allocated, time.process_time() - began)


def with_hindsight(fleet: Fleet, classes: list[Class], order: list[int], outlook: Outlook, bound: Bound) -> int:
    """The most milli-GPU found for these pods when all are known beforehand and any may be left out.

    The pods that the configuration LP would take come first, then all others: in the order in which they arrive, and
    with those first that may use the fewest models, the largest before the smaller.
    """
    left = Counter(order)
    wanted = {k: min(left[k], int(amount + _ROUNDING)) for k, amount in bound.placed.items()}
    chosen, others = list[int](), list[int]()
    for k in order:
        (chosen if wanted[k] > 0 else others).append(k)
        wanted[k] -= 1
    others.sort(key=lambda k: _largest_first(classes[k].asked))
    choosy = sorted(chosen, key=lambda k: (sum(classes[k].admits), _largest_first(classes[k].asked)))
    return max(place_all(fleet, classes, tried + others, outlook).milli for tried in (chosen, choosy))


def _largest_first(asked: Asked) -> tuple[int, int, int, int]:
    return -asked.devices * asked.milli, -asked.cpu, -asked.memory, asked.devices
