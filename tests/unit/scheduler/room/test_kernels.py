"""The kernels of making room, compiled and as the Python that they are: the same answers, bit by bit."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from muster_scheduler.domain.asked.requests import Kind, Shape
from muster_scheduler.domain.compiling import python_of
from muster_scheduler.domain.fleet.columns import SLICED
from muster_scheduler.domain.fleet.counts import counts_of
from muster_scheduler.domain.room import exact, search, stock
from muster_scheduler.domain.room.reclaim import reclaim
from muster_scheduler.domain.room.stock import count, lift, need_of, stock_of
from tests.support.pools import GIB, Part, Work, occupy, pool, running
from tests.support.room_cases import case_of

KERNELS = (
    "shift",
    "lift",
    "on_device",
    "_beside_devices",
    "room_on",
    "_served",
    "count_into",
    "reprieve",
    "shift_all",
    "walk",
)
MODULES: tuple[ModuleType, ...] = (stock, search, exact)
SLICES = Shape(100, GIB, Kind.SLICE, 1, profile="1g.10gb")


@pytest.fixture
def as_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kernel is its Python twin."""
    for module in MODULES:
        for name in KERNELS:
            if hasattr(module, name):
                monkeypatch.setattr(module, name, python_of(getattr(module, name)))


COMPILED = {seed: reclaim(case.question, case.tree) for seed in range(60) for case in (case_of(seed),)}


@pytest.mark.parametrize("seed", range(60))
def test_the_same_room_is_found_without_a_compiler(seed: int, as_python: None) -> None:
    case = case_of(seed)
    made, compiled = reclaim(case.question, case.tree), COMPILED[seed]
    assert type(made) is type(compiled)
    assert made[0] == compiled[0]


@pytest.mark.parametrize("shape", [SLICES, SLICES._replace(profile="1g.10gb+me"), SLICES._replace(profile="3g.40gb")])
def test_slices_are_lifted_and_counted_as_elsewhere(shape: Shape, as_python: None) -> None:
    columns = pool(2, 2)
    columns.mode[:, :2], columns.card[:, :2] = SLICED, 1
    columns.idle[:] = 0
    works = running(
        [
            Work(0, (Part(0, 1, milli=0, bytes=0, slices=0b1111),)),
            Work(0, (Part(0, 1, milli=0, bytes=0, slices=0b10000),)),
        ]
    )
    held = occupy(columns, works)
    assert held.mask[0, 0] == 0b11111
    everywhere = np.ones(2, np.bool_)
    before = count(stock_of(held), need_of(shape), everywhere, 99)
    assert np.array_equal(before, counts_of(held, shape, 99))
    lift(stock_of(held), works.held, np.array([0]), 1)
    after = count(stock_of(held), need_of(shape), everywhere, 99)
    assert np.array_equal(after, counts_of(held, shape, 99))
    assert after.sum() >= before.sum()


def test_named_resources_bound_the_count_and_unknown_ones_are_nowhere(as_python: None) -> None:
    shape = Shape(100, GIB, extra=(("licence", 2),))
    columns = pool(1)
    assert count(stock_of(columns), need_of(shape), np.ones(1, np.bool_), 9).tolist() == [0]
    need = need_of(shape, ("licence",))
    bounded = stock_of(columns)._replace(extra=np.array([[5]], np.int64))
    assert count(bounded, need, np.ones(1, np.bool_), 9).tolist() == [2]
    assert count(bounded, need_of(Shape(100, GIB)), np.ones(1, np.bool_), 9).tolist() == [9]


def test_what_is_promised_and_still_held_counts_as_nothing(as_python: None) -> None:
    columns = pool(1, 1)
    twice = running([Work(0, (Part(0),)), Work(0, (Part(0),))])
    held = occupy(columns, twice)
    half = Shape(0, 0, Kind.PORTION, 1, 500)
    assert count(stock_of(held), need_of(half), np.ones(1, np.bool_), 9).tolist() == [0]
    lift(stock_of(held), twice.held, np.array([0]), 1)
    assert count(stock_of(held), need_of(half), np.ones(1, np.bool_), 9).tolist() == [0]
    lift(stock_of(held), twice.held, np.array([1]), 1)
    assert count(stock_of(held), need_of(half), np.ones(1, np.bool_), 9).tolist() == [2]
