"""Making room on pools so small that every set of victims can be tried: nothing missed, nothing superfluous."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_scheduler.domain.compiling import python_of
from muster_scheduler.domain.fleet.counts import counts_of
from muster_scheduler.domain.room import stock as kernels
from muster_scheduler.domain.room.reclaim import reclaim
from muster_scheduler.domain.room.stock import count, lift, need_of, stock_of
from muster_scheduler.domain.room.values import Vacated
from tests.support import room_oracle as oracle
from tests.support.room_cases import Case, case_of

cases = st.integers(0, 1 << 40).map(case_of)


def _first_way(case: Case) -> tuple[int, ...] | None:
    for bound in (case.tree.fair, case.tree.deserved):
        for gone in oracle.ways(case.columns, case.running, case.tree, bound, case.taker):
            return gone
    return None


@settings(max_examples=600, deadline=None)
@given(cases)
def test_room_is_made_wherever_the_law_leaves_a_way_and_nowhere_else(case: Case) -> None:
    if oracle.fits(case.columns, case.running, case.taker, ()):
        return  # nobody has to go: not a question for making room
    made = reclaim(case.question, case.tree)
    expected = _first_way(case)
    assert isinstance(made, Vacated) == (expected is not None), (made, expected)
    if isinstance(made, Vacated):
        bounds = (case.tree.fair, case.tree.deserved)
        assert any(oracle.allowed(case.tree, bound, case.running, case.taker, made.victims) for bound in bounds)


@settings(max_examples=200, deadline=None)
@given(cases)
def test_no_victim_could_stay(case: Case) -> None:
    made = reclaim(case.question, case.tree)
    if not isinstance(made, Vacated):
        return
    assert oracle.fits(case.columns, case.running, case.taker, made.victims)
    for victim in made.victims:
        others = tuple(v for v in made.victims if v != victim)
        assert not oracle.fits(case.columns, case.running, case.taker, others)


@settings(max_examples=200, deadline=None)
@given(cases)
def test_the_room_is_where_it_says(case: Case) -> None:
    made = reclaim(case.question, case.tree)
    if isinstance(made, Vacated):
        scratch = case.columns.scratch()
        lift(stock_of(scratch), case.running.held, np.array(made.victims, np.int64), 1)
        assert (made.counts <= np.where(case.taker.eligible, counts_of(scratch, case.taker.shape, 99), 0)).all()
        assert made.counts.sum() >= case.taker.size
        if case.taker.domains is not None:
            assert len(set(case.taker.domains[made.counts > 0].tolist())) == 1


@settings(max_examples=200, deadline=None)
@given(cases, st.randoms())
def test_lifting_and_putting_back_leaves_no_trace(case: Case, shuffled: random.Random) -> None:
    scratch = case.columns.scratch()
    order = list(range(len(case.running)))
    shuffled.shuffle(order)
    half = np.array(order[: len(order) // 2], np.int64)
    lift(stock_of(scratch), case.running.held, half, 1)
    lift(stock_of(scratch), case.running.held, half[::-1].copy(), -1)
    for name in ("cpu", "memory", "idle", "mode", "milli", "bytes", "mask", "media"):
        assert np.array_equal(getattr(scratch, name), getattr(case.columns, name)), name


@settings(max_examples=200, deadline=None)
@given(cases)
def test_replicas_are_counted_as_elsewhere_and_the_kernel_as_its_python_says(case: Case) -> None:
    need, stock = need_of(case.taker.shape), stock_of(case.columns)
    everywhere = np.ones(len(case.columns), np.bool_)
    counted = count(stock, need, everywhere, case.taker.size)
    assert np.array_equal(counted, counts_of(case.columns, case.taker.shape, case.taker.size))
    again = np.zeros(len(everywhere), np.int64)
    python_of(kernels.count_into)(stock, need, everywhere, case.taker.size, again)
    assert np.array_equal(counted, again)
