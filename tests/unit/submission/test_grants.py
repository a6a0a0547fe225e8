"""Giving roles: what a rule may say, and that nobody gives more than they have. How often someone may try."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_submission.domain.access import TENANT, VERBS, Answer, Binding, Grants, Role, Scope, ScopeKind, Verb
from muster_submission.domain.bindings import Holder, HolderKind
from muster_submission.domain.grants import SCOPES, check_rule, may_give, rule_of
from muster_submission.domain.rates import Rates

_DEPARTMENTS = {"vision": "research", "speech": "research", "web": "product"}
_SCOPES = [
    TENANT,
    Scope(ScopeKind.CLUSTER, "east"),
    Scope(ScopeKind.DEPARTMENT, "research"),
    Scope(ScopeKind.DEPARTMENT, "product"),
    Scope(ScopeKind.PROJECT, "vision"),
    Scope(ScopeKind.PROJECT, "web"),
]
bindings = st.builds(Binding, st.sampled_from(Role), st.sampled_from(_SCOPES))


def test_a_rule_that_says_something_is_taken() -> None:
    asked = ("group", "team", "https://one", "researcher", "project", "vision")
    assert check_rule(*asked) == []
    holder, binding = rule_of(*asked)
    assert holder == Holder(HolderKind.GROUP, "team", "https://one")
    assert str(binding.scope) == "project/vision"
    assert str(TENANT) == "tenant"


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({0: "user"}, "holder_kind"),
        ({1: ""}, "holder"),
        ({1: "x" * 501}, "holder"),
        ({1: "a\x00b"}, "holder"),
        ({2: "x" * 501}, "issuer"),
        ({0: "application"}, "issuer"),
        ({3: "owner"}, "role"),
        ({3: "system-admin"}, "scope_kind"),
        ({3: "department-admin"}, "scope_kind"),
        ({4: "world"}, "scope_kind"),
        ({4: "cluster"}, "scope_kind"),
        ({4: "tenant"}, "scope"),
        ({5: ""}, "scope"),
        ({5: "'; DROP TABLE audit; --"}, "scope"),
    ],
)
def test_what_a_rule_cannot_say_is_named(changes: dict[int, str], path: str) -> None:
    asked = ["group", "team", "https://one", "researcher", "project", "vision"]
    for at, value in changes.items():
        asked[at] = value
    assert path in {problem.path for problem in check_rule(*asked)}


@given(st.lists(bindings, max_size=3), bindings)
def test_nobody_gives_what_they_do_not_have(own: list[Binding], asked: Binding) -> None:
    """Whoever may give a role could already do, at each place that it reaches, all that it allows there."""
    grants = Grants(own, _DEPARTMENTS)
    if not may_give(grants, asked):
        return
    reached = Grants([asked], _DEPARTMENTS)
    for place in (scope.place for scope in _SCOPES):
        for verb in VERBS[asked.role]:
            if reached.judge(verb, place) is Answer.ALLOWED:
                assert grants.judge(verb, place) is Answer.ALLOWED


@pytest.mark.parametrize("role", Role)
def test_the_system_admin_gives_every_role_wherever_it_means_something(role: Role) -> None:
    grants = Grants([Binding(Role.SYSTEM_ADMIN, TENANT)], _DEPARTMENTS)
    assert SCOPES[role]
    assert all(may_give(grants, Binding(role, scope)) for scope in _SCOPES)


def test_a_departments_admin_gives_roles_in_its_projects_and_not_beyond() -> None:
    grants = Grants([Binding(Role.DEPARTMENT_ADMIN, Scope(ScopeKind.DEPARTMENT, "research"))], _DEPARTMENTS)
    assert may_give(grants, Binding(Role.PROJECT_ADMIN, Scope(ScopeKind.PROJECT, "vision")))
    assert not may_give(grants, Binding(Role.VIEWER, Scope(ScopeKind.PROJECT, "web")))
    assert not may_give(grants, Binding(Role.SYSTEM_ADMIN, TENANT))


def test_who_tries_too_often_waits_and_then_may_again() -> None:
    rates = Rates(size=3, refill=1)
    assert [rates.take("a", 0.0) for _ in range(4)] == [0, 0, 0, 1]
    assert rates.take("b", 0.0) == 0
    assert rates.take("a", 1.0) == 0
    assert rates.take("a", 1.0) == 1


def test_a_wrong_try_is_dear_and_debt_is_bounded() -> None:
    rates = Rates(size=3, refill=1)
    for _ in range(100):
        rates.charge("a", 0.0, 5)
    assert rates.take("a", 0.0) == 4
    assert rates.take("a", 4.0) == 0


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.floats(0, 100)), max_size=60))
def test_the_rates_remember_few_and_give_no_more_than_there_is(tries: list[tuple[str, float]]) -> None:
    rates, taken = Rates(size=2, refill=0.1, most=3), dict.fromkeys("abcdef", 0)
    tries.sort(key=lambda one: one[1])
    for name, now in tries:
        taken[name] += rates.take(name, now) == 0
        assert len(rates._left) <= 3
    if len({name for name, _ in tries}) <= 3:
        assert all(count <= 2 + 0.1 * 100 + 1 for count in taken.values())


@pytest.mark.parametrize("verb", Verb)
def test_whoever_may_do_something_may_see_it(verb: Verb) -> None:
    for role in Role:
        if verb in VERBS[role] and role is not Role.CLUSTER_AGENT:
            assert verb.sight in VERBS[role]
