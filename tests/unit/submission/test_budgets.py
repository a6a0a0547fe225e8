"""Budgets of processor time."""

from __future__ import annotations

from muster_submission.domain.budgets import Budgets


def test_a_budget_is_used_up_and_comes_back() -> None:
    budgets = Budgets(capacity=1.0, rate=0.1)
    assert not budgets.exhausted("a", 0.0)
    budgets.charge("a", 0.9, 0.0)
    assert not budgets.exhausted("a", 0.0)
    budgets.charge("a", 0.6, 0.0)
    assert budgets.exhausted("a", 4.9)
    assert not budgets.exhausted("a", 5.1)


def test_one_budget_says_nothing_about_another() -> None:
    budgets = Budgets(capacity=1.0, rate=0.1)
    budgets.charge(("heavy", "rule"), 5.0, 0.0)
    assert budgets.exhausted(("heavy", "rule"), 0.0)
    assert not budgets.exhausted(("light", "rule"), 0.0)


def test_budgets_are_bounded() -> None:
    budgets = Budgets(capacity=1.0, rate=0.1)
    for number in range(10_001):
        budgets.charge(number, 2.0, 0.0)
    assert not budgets.exhausted(0, 0.0), "the one that was charged longest ago was forgotten"
    assert budgets.exhausted(10_000, 0.0)
