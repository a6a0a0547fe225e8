"""The accounts of the batch kernel say what the books say: what a quota refuses, and what is held after each charge."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from muster_scheduler.domain import events
from muster_scheduler.domain.asked.quotas import Amount, Line, Quota
from muster_scheduler.domain.asked.requests import Shape
from muster_scheduler.domain.books.accounts import Owner
from muster_scheduler.domain.books.queues import Department, Project
from muster_scheduler.domain.books.standings import standing_of
from muster_scheduler.domain.deciding import accounts
from muster_scheduler.domain.deciding.shapes import Terms, row_of
from muster_scheduler.domain.state import State
from muster_scheduler.domain.turning.forest import forest_of
from tests.support.deciding_oracle import plain
from tests.support.fleets import START

POOL = "default"
PROJECTS = ("p", "q", "r")
PLAIN: Any = plain("deciding.accounts")[0]

SOME = st.integers(0, 12)
LINES = st.builds(Line, st.none() | SOME, st.none() | SOME, st.sampled_from([0, 1000]))
QUOTAS = st.builds(Quota, SOME, st.none() | SOME, st.sampled_from([0, 1000]), LINES, LINES)
OF_POOL = st.none() | QUOTAS


class Ask(NamedTuple):
    """One replica that a project would be charged. given: what its devices cost in the end."""

    project: str
    amount: Amount
    preemptible: bool
    given: int


ASKS = st.builds(Ask, st.sampled_from(PROJECTS), st.builds(Amount, SOME, SOME, SOME), st.booleans(), st.integers(0, 12))


def books_of(quotas: dict[str, Quota | None], homes: dict[str, str]) -> State:
    """Projects in department d or in none that is known, with these quotas in the pool (of "" the department's)."""
    state = State()
    state.begin(START)
    for name, quota in quotas.items():
        said = {POOL: quota} if quota else {}
        made = (
            events.ProjectChanged(Project(name, homes[name], said, 0))
            if name
            else events.DepartmentChanged(Department("d", said, 0))
        )
        state.apply(made)
    return state


@pytest.mark.parametrize("kernel", [accounts, PLAIN], ids=["compiled", "plain"])
@given(
    st.fixed_dictionaries(dict.fromkeys(("", *PROJECTS), OF_POOL)),
    st.fixed_dictionaries(dict.fromkeys(PROJECTS, st.sampled_from(["d", "d", "nowhere"]))),
    st.lists(ASKS, max_size=8),
    st.lists(ASKS, min_size=1, max_size=16),
)
@settings(deadline=None)
def test_the_kernel_refuses_what_the_books_refuse(
    kernel: Any, quotas: dict[str, Quota | None], homes: dict[str, str], before: list[Ask], asks: list[Ask]
) -> None:
    state = books_of(quotas, homes)
    books = state.world.queues
    for each in before:  # also beyond quotas: they may have been lowered since
        books.charge(_owner(each), POOL, each.amount)
    standing = replace(standing_of(state.world, POOL), shares=(None,) * 3)  # whose turn it is is not asked
    forest = forest_of(books, standing.projects, standing)
    assert forest is not None
    for each in asks:
        if each.project not in standing.projects:
            continue  # it has neither a quota nor work there
        row = forest.rows[each.project]
        terms = Terms(each.amount.gpu, row, not each.preemptible)
        shape = np.array(row_of(Shape(each.amount.cpu, each.amount.memory), terms))
        may = books.refusal(_owner(each), POOL, each.amount) is None
        assert bool(kernel.allowed(forest.tree, shape)) == may
        if may:
            kernel.charge(forest.tree, shape, each.given)
            books.charge(_owner(each), POOL, each.amount._replace(gpu=each.given))
        held = books.account(each.project, POOL)
        assert (tuple(forest.tree.held[row]), tuple(forest.tree.bound[row])) == held
        above = forest.tree.parent[row]
        if homes[each.project] == "d":
            over = books.department_account("d", POOL)
            assert (tuple(forest.tree.held[above]), tuple(forest.tree.bound[above])) == over


def _owner(ask: Ask) -> Owner:
    return Owner(ask.project, "me", "w", ask.preemptible)
