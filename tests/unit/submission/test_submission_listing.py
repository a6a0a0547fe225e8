"""Which index a question walks: counted first, then chosen by rules, and a pass over the table where there is none."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_kernel.ids import uuid7
from muster_submission.domain.fields import FIELDS
from muster_submission.domain.filtering import Places
from muster_submission.domain.listing import (
    DEEP,
    FEW,
    INDEXES,
    MERGED,
    BadOrder,
    Few,
    Order,
    Question,
    Scan,
    Walk,
    Way,
    beyond,
    certain,
    keys,
    order_of,
    question,
    ways,
)
from muster_submission.domain.terms import Except, Interval, Look, Points, Term, holds
from muster_submission.domain.terms import Way as Looking

NEWEST = Order()
BY_NAME = Order("name", descending=False)
PROJECT = Points("project", frozenset({"team-a"}))
RUNNING = Points("phase", frozenset({4}))
SCOPE = Points("project", frozenset(f"team-{number}" for number in range(30)))
DEPARTMENTS = (("team-a", "vision"), ("team-b", "vision"), ("team-c", "speech"))
BY_DEPARTMENT = Order("project", descending=True, called=DEPARTMENTS)
PLACES = Places({"departmentName": lambda: DEPARTMENTS, "clusterId": lambda: ()})
MUCH = dict.fromkeys((field.column for field in FIELDS), FEW)


def chosen(order: Order, *terms: Term, offset: int = 0, gone: bool = False, **counted: int) -> list[Way]:
    return ways(question(terms, order, offset=offset, gone=gone), MUCH | counted)


def test_the_order_alone_walks_its_index() -> None:
    assert chosen(NEWEST) == [Walk()]
    assert chosen(BY_NAME) == [Walk()]
    assert chosen(BY_NAME, offset=1_000_000) == [Walk()]


def test_a_key_with_few_rows_is_fetched_and_sorted() -> None:
    assert chosen(BY_NAME, PROJECT, project=10) == [Few(PROJECT)]
    assert chosen(NEWEST, PROJECT, RUNNING, project=10, phase=20) == [Few(PROJECT)]
    assert chosen(Order("finished_at"), RUNNING, phase=0) == [Few(RUNNING)]


def test_a_key_with_many_walks_the_index_of_key_and_order() -> None:
    assert chosen(NEWEST, PROJECT) == [Walk((PROJECT,))]
    assert chosen(BY_NAME, PROJECT) == [Walk((PROJECT,))]
    assert chosen(NEWEST, PROJECT, RUNNING) == [Walk((PROJECT, RUNNING))]
    assert chosen(NEWEST, SCOPE) == [Walk((SCOPE,))]
    assert chosen(NEWEST, SCOPE, RUNNING) == [Walk((SCOPE, RUNNING))]


def test_a_question_that_an_index_answers_alone_is_not_counted_first() -> None:
    assert certain(question((PROJECT,), BY_NAME)) == Walk((PROJECT,))
    assert certain(question((SCOPE,), NEWEST)) == Walk((SCOPE,))
    assert certain(question((), BY_NAME, offset=10**6)) == Walk()
    assert certain(question((PROJECT, Except("name", frozenset({"x"}))), NEWEST)) is None
    assert certain(question((SCOPE,), NEWEST, offset=5_000)) is None
    assert certain(question((PROJECT,), Order("gpus"))) is None
    assert certain(question((), BY_NAME, gone=True)) is None


def test_what_no_index_begins_with_is_looked_through_and_then_scanned() -> None:
    strange = Look("name", Looking.CONTAINS, "x")
    walk, scan = chosen(NEWEST, strange)
    assert isinstance(walk, Walk)
    assert walk.stride > 0
    assert scan == Scan()
    walk, _ = chosen(NEWEST, PROJECT, strange)
    assert isinstance(walk, Walk)
    assert walk.keys == (PROJECT,)
    assert chosen(Order("deleted_at"), strange) == [Scan()]
    assert chosen(BY_NAME, gone=True) == [Scan()]


def test_an_order_by_what_values_are_called_has_no_index() -> None:
    assert chosen(BY_DEPARTMENT) == [Scan()]
    assert chosen(BY_DEPARTMENT, Points("project", frozenset({"team-a", "team-c"}))) == [Scan()]
    assert chosen(BY_DEPARTMENT, RUNNING, phase=10) == [Few(RUNNING)]
    assert certain(question((), BY_DEPARTMENT)) is None


@pytest.mark.parametrize(
    ("projects", "order"),
    [
        (["team-a", "team-b"], Order()),
        (["team-c"], Order()),
        (["team-unknown", "team-gone"], Order()),
        (["team-b", "team-c"], Order("project", called=DEPARTMENTS[1:])),
        (["team-a", "team-gone"], Order("project", called=DEPARTMENTS[:1])),
    ],
)
def test_where_all_are_called_the_same_the_id_alone_orders(projects: list[str], order: Order) -> None:
    among = Points("project", frozenset(projects))
    assert question((among,), BY_DEPARTMENT).order == order
    assert question((among,), BY_NAME).order == BY_NAME
    assert question((RUNNING,), BY_DEPARTMENT).order == BY_DEPARTMENT


def test_the_projects_of_one_department_are_merged_from_their_index() -> None:
    among = Points("project", frozenset({"team-a", "team-b"}))
    assert certain(question((among,), BY_DEPARTMENT)) == Walk((among,))


def test_a_deep_offset_is_counted_off_whatever_it_crosses() -> None:
    assert chosen(NEWEST, Except("name", frozenset({"x"})), offset=DEEP) == [Walk()]


def test_many_values_and_a_deep_offset_are_not_merged() -> None:
    walk, scan = chosen(NEWEST, SCOPE, offset=MERGED // 30)
    assert (walk.keys, scan) == ((), Scan())  # type: ignore[union-attr]


def test_a_prefix_is_a_stretch_of_its_order() -> None:
    prefix = Interval("name", "a", "b")
    assert chosen(BY_NAME, prefix) == [Walk((prefix,))]
    # Another order walks that order's index.
    walk, _ = chosen(Order("gpus"), prefix)
    assert walk.keys == ()  # type: ignore[union-attr]


def test_a_time_of_creation_is_told_by_the_id_as_well() -> None:
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    asked = question((Interval("created_at", noon, None),), NEWEST)
    by_id = next(term for term in asked.terms if term.column == "id")
    milliseconds = int(noon.timestamp() * 1000)
    assert holds(by_id, uuid7(milliseconds, bytes(10)))
    assert not holds(by_id, uuid7(milliseconds - 10, b"\xff" * 10))
    exact = question((Points("created_at", frozenset({noon})),), NEWEST)
    assert len(keys(exact)) == 1
    assert question((Interval("created_at", None, None),), NEWEST).terms[1] == Interval("id", None, None)


@pytest.mark.parametrize(
    ("sort_by", "sort_order", "order"),
    [
        ("", "", Order("id", descending=True)),
        ("", "asc", Order("id", descending=False)),
        ("name", "", Order("name", descending=False)),
        ("createdAt", "desc", Order("id", descending=True)),
        ("allocatedGPU", "desc", Order("gpus", descending=True)),
        ("departmentName", "", Order("project", descending=False, called=DEPARTMENTS)),
        ("clusterId", "desc", Order("cluster", called=())),
    ],
)
def test_orders_in_words(sort_by: str, sort_order: str, order: Order) -> None:
    assert order_of(sort_by, sort_order, PLACES) == order


@pytest.mark.parametrize(("sort_by", "sort_order"), [("colour", ""), ("project", ""), ("name", "up")])
def test_orders_that_cannot_be_had(sort_by: str, sort_order: str) -> None:
    with pytest.raises(BadOrder, match=r"asc or desc|sorted by id, name"):
        order_of(sort_by, sort_order, PLACES)


def test_what_comes_after_an_id() -> None:
    last = "01900000-0000-7000-8000-000000000000"
    assert beyond(Order(), last).high == "01900000-0000-7000-7fff-ffffffffffff"
    assert beyond(Order(descending=False), last).low == "01900000-0000-7000-8000-000000000001"


_KEYS = st.sampled_from(
    [PROJECT, SCOPE, RUNNING, Points("kind", frozenset({1, 2})), Interval("name", "a", "b"), Interval("gpus", 1, None)]
)
_RESTS = st.sampled_from([Except("name", frozenset({"x"})), Look("name", Looking.ENDS, "x")])
_ORDERS = st.one_of(
    st.builds(Order, st.sampled_from([field.column for field in FIELDS if field.sortable]), st.booleans()),
    st.builds(Order, st.just("project"), st.booleans(), st.just(DEPARTMENTS)),
)


@given(st.lists(_KEYS | _RESTS, max_size=4), _ORDERS, st.booleans(), st.integers(0, 10**6), st.integers(0, FEW))
def test_the_last_way_always_answers(terms: list[Term], order: Order, gone: bool, offset: int, many: int) -> None:
    if order.column == "created_at":
        order = Order("id", order.descending)
    asked = question(tuple(terms), order, gone=gone, offset=offset)
    tried = ways(asked, {key.column: many for key in keys(asked)})
    last = tried[-1]
    assert not isinstance(last, Walk) or last.stride == 0
    for way in tried:
        if isinstance(way, Walk):
            columns = tuple(dict.fromkeys((*(key.column for key in way.keys), *order.columns)))
            assert columns in INDEXES[gone]


def test_a_question_of_everything() -> None:
    assert Question().need == 50
    assert keys(Question()) == []
