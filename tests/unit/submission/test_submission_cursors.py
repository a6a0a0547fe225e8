"""Page tokens, cursors, filters, and what a snapshot has shown."""

from __future__ import annotations

import pytest

from muster.workload.v1 import workload_pb2 as wl
from muster_kernel.lifecycle import DesiredPhase, Phase
from muster_submission.domain import phases
from muster_submission.domain.cursors import (
    BadToken,
    Reach,
    TooOld,
    go_on,
    page_size,
    page_token,
    read_cursor,
    read_number,
    read_page_token,
)
from muster_submission.domain.filters import Filter, Subject
from muster_submission.domain.snapshots import Shown
from muster_submission.domain.terms import Points

RUNNING, DELETED = phases.number(Phase.RUNNING), phases.number(Phase.DELETED)
ONE = Subject("id-1", "team-a", "bert-1", 2, "ada")


def test_phases_are_the_contracts() -> None:
    for one in Phase:
        assert wl.Phase.Name(phases.number(one)) == f"PHASE_{one.name}"  # type: ignore[arg-type]
        assert phases.phase(phases.number(one)) is one
    for wish in DesiredPhase:
        assert wl.DesiredPhase.Name(phases.desired_number(wish)) == f"DESIRED_PHASE_{wish.name}"  # type: ignore[arg-type]
        assert phases.desired_phase(phases.desired_number(wish)) is wish
    assert phases.phase(0) is phases.phase(16) is None
    assert phases.desired_phase(0) is phases.desired_phase(4) is None


def test_page_sizes() -> None:
    assert [page_size(asked) for asked in (0, 1, 500)] == [50, 1, 500]
    with pytest.raises(BadToken, match="1 to 500"):
        page_size(501)


def test_a_token_is_bound_to_its_question() -> None:
    token = page_token("last", b"question")
    assert read_page_token(token, b"question") == "last"
    assert read_page_token("", b"question") == ""
    for wrong, why in ((token[:-1] + "é", "not one"), ("!!", "not one"), (token[:8], "cut off")):
        with pytest.raises(BadToken, match=why):
            read_page_token(wrong, b"question")
    with pytest.raises(BadToken, match="another filter"):
        read_page_token(token, b"other")


@pytest.mark.parametrize("last", ["a\x00b", "x" * 1_001])
def test_a_forged_token_is_refused_before_a_database_sees_it(last: str) -> None:
    with pytest.raises(BadToken, match="begin with an empty one"):
        read_page_token(page_token(last, b"question"), b"question")


@pytest.mark.parametrize("last", ["x", "-1", "9" * 19, "9" * 5_000, "\u0661"])
def test_a_forged_number_is_refused_before_a_database_sees_it(last: str) -> None:
    assert read_number("12") == 12
    with pytest.raises(BadToken, match="begin with an empty one"):
        read_number(last)


def test_cursors() -> None:
    assert read_cursor("12") == 12
    for wrong in ("", "-1", "x", "1" * 20, str(2**63), "\u0661"):
        with pytest.raises(BadToken):
            read_cursor(wrong)
    assert go_on(5, Reach(5, 9)) == 5
    assert go_on(9, Reach(5, 9)) == 9
    assert isinstance(go_on(4, Reach(5, 9)), TooOld)
    assert isinstance(go_on(10, Reach(5, 9)), TooOld)


@pytest.mark.parametrize(
    ("wanted", "moments", "taken"),
    [
        (Filter(), (RUNNING,), True),
        (Filter(), (DELETED,), False),
        (Filter(), (RUNNING, DELETED), True),
        (Filter(include_deleted=True), (DELETED,), True),
        (Filter(phases=frozenset({RUNNING})), (RUNNING, 12), True),
        (Filter(phases=frozenset({RUNNING})), (3, 12), False),
        (Filter(project="team-b"), (RUNNING,), False),
        (Filter(kinds=frozenset({1})), (RUNNING,), False),
        (Filter(name_prefix="bert"), (RUNNING,), True),
        (Filter(name_prefix="gpt"), (RUNNING,), False),
        (Filter(workload_id="id-1", project="team-b"), (DELETED,), True),
        (Filter(workload_id="id-2"), (RUNNING,), False),
        (Filter(scope=frozenset({"team-a"})), (RUNNING,), True),
        (Filter(scope=frozenset({"team-b"})), (RUNNING,), False),
        (Filter(workload_id="id-1", scope=frozenset()), (RUNNING,), False),
        (Filter(terms=(Points("submitted_by", frozenset({"ada"})),)), (RUNNING,), True),
        (Filter(terms=(Points("submitted_by", frozenset({"bob"})),)), (RUNNING,), False),
        (Filter(terms=(Points("phase", frozenset({12})),)), (RUNNING, 12), True),
        (Filter(terms=(Points("phase", frozenset({12})),)), (RUNNING,), False),
    ],
)
def test_a_filter_takes_what_is_or_was_in_view(wanted: Filter, moments: tuple[int, ...], taken: bool) -> None:
    assert wanted.takes(ONE, *moments) is taken


def test_what_is_there_and_what_is_deleted_are_asked_apart() -> None:
    last = "01900000-0000-7000-8000-000000000001"
    (plain,) = Filter(project="team-a", kinds=frozenset({2}), name_prefix="b").questions(10, last)
    assert (plain.gone, plain.limit, plain.order.descending) == (False, 10, True)
    assert {term.column for term in plain.terms} == {"id", "project", "kind", "name"}
    both = Filter(include_deleted=True).questions(10, "")
    assert [asked.gone for asked in both] == [False, True]
    (gone,) = Filter(phases=frozenset({DELETED})).questions(10, "")
    assert gone.gone
    mixed = Filter(phases=frozenset({DELETED, RUNNING}), scope=frozenset({"team-a"})).questions(10, "")
    assert [len(asked.terms) for asked in mixed] == [2, 1]


def test_a_watch_filters_by_what_never_changes_and_by_the_phase() -> None:
    wanted = Filter(terms=(Points("cluster", frozenset()), Points("phase", frozenset()), Points("name", frozenset())))
    assert wanted.unwatchable() == ["cluster"]


def test_the_same_question_has_the_same_bytes() -> None:
    assert Filter(phases=frozenset({1, 2})).canonical() == Filter(phases=frozenset({2, 1})).canonical()
    assert Filter(project="a").canonical() != Filter(name_prefix="a").canonical()


def test_a_snapshot_remembers_a_line_a_page() -> None:
    shown = Shown()
    assert shown.start == 0
    assert not shown.has("m", 1)
    shown.add("m", 10)
    shown.add("", 14)
    assert (shown.start, shown.settled) == (10, 14)
    assert shown.has("z", 10)
    assert not shown.has("z", 11)  # its page was read before
    assert shown.has("c", 14)
    assert not shown.has("c", 15)
    with pytest.raises(ValueError, match="new to old"):
        shown.add("x", 15)


def test_a_workload_made_after_the_snapshot_was_not_shown() -> None:
    shown = Shown()
    shown.add("", 10)
    assert not shown.has("zz", 11)
