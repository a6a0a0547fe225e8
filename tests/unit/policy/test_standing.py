"""The policies of an instance: what a revision brings, what a branch is made of, and what is composed anew."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from muster_language import Kind
from muster_policy.domain.standing import Row, Shelf, UnreadablePolicy
from muster_policy_engine.policy import Branch, Level, Scope

NOW = datetime(2026, 11, 28, tzinfo=UTC)
HERE, THERE = Branch("east", "research", "vision"), Branch("", "sales", "shop")


def row(number: int, scope: Scope, revision: int, limit: int = 1, kind: str = "training") -> Row:
    where = f"{{{scope.level}: {scope.unit}}}" if scope.unit else "tenant"
    text = f"kind: Policy\nworkload: {kind}\nscope: {where}\npolicy: {{defaults: {{backoffLimit: {limit}}}}}\n"
    named = Kind[kind.upper()]
    return Row(f"id-{number}", named, scope, "p", revision, revision, text, "", NOW, "anna", NOW, "anna")


def limit_of(shelf: Shelf, branch: Branch) -> int | None:
    composed = shelf.composed(Kind.TRAINING, branch)
    return composed.baseline.backoff_limit if composed is not None else None


def test_a_branch_has_the_policies_of_its_scopes() -> None:
    shelf = Shelf()
    assert shelf.composed(Kind.TRAINING, HERE) is None
    shelf.take(
        3, [row(1, Scope(), 1), row(2, Scope(Level.PROJECT, "vision"), 3, 5), row(3, Scope(Level.CLUSTER, "w"), 2)]
    )
    assert [limit_of(shelf, each) for each in (HERE, THERE)] == [5, 1]
    assert shelf.clusters(Kind.TRAINING) == ["w"]
    assert shelf.composed(Kind.INFERENCE, HERE) is None


def test_a_write_composes_its_own_branches_anew_and_no_others() -> None:
    shelf = Shelf()
    shelf.take(1, [row(1, Scope(), 1)])
    before = [shelf.composed(Kind.TRAINING, each) for each in (HERE, THERE)]
    changed = row(2, Scope(Level.DEPARTMENT, "research"), 2, 7)
    shelf.take(2, [changed])
    after = [shelf.composed(Kind.TRAINING, each) for each in (HERE, THERE)]
    assert after[1] is before[1]
    assert [limit_of(shelf, each) for each in (HERE, THERE)] == [7, 1]
    shelf.take(3, [replace(changed, revision=3, gone=True)])
    assert limit_of(shelf, HERE) == 1


def test_what_is_late_changes_nothing() -> None:
    shelf = Shelf()
    shelf.take(2, [row(1, Scope(), 2, 4)])
    shelf.take(1, [row(1, Scope(), 1, 9)])
    assert (shelf.revision, limit_of(shelf, HERE)) == (2, 4)


def test_a_policy_that_took_the_place_of_another_stays_when_that_one_is_told_gone() -> None:
    shelf = Shelf()
    first, second = row(1, Scope(), 1, 4), row(2, Scope(), 2, 5)
    shelf.take(1, [first])
    shelf.take(2, [second, replace(first, revision=2, gone=True)])
    assert limit_of(shelf, HERE) == 5
    assert shelf.by_id("id-1") is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("kind: Policy\n", "lacks"),
        ("kind: Policy\nworkload: training\nscope: tenant\npolicy: {rules: {new: {}}}\n", 'unknown field "new"'),
        ("kind: Policy\nworkload: inference\nscope: tenant\npolicy: {}\n", "another kind or scope"),
    ],
)
def test_a_document_that_this_build_cannot_read(text: str, why: str) -> None:
    shelf = Shelf()
    shelf.take(1, [replace(row(1, Scope(Level.PROJECT, "vision"), 1), document=text)])
    with pytest.raises(UnreadablePolicy, match=why):
        shelf.composed(Kind.TRAINING, HERE)
    assert limit_of(shelf, THERE) is None
    assert len(shelf.unreadable()) == 1
