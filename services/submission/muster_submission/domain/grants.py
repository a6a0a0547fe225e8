"""Giving and taking roles: what a rule may say, and who may give it.

Called by handlers/grants.py. Holds: nobody gives or takes more than they have themselves, in the scope that they have
it in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from muster_kernel.ids import check_name
from muster_submission.domain.access import VERBS, Binding, Grants, Role, Scope, ScopeKind
from muster_submission.domain.bindings import Holder, HolderKind
from muster_submission.domain.problems import Problem

MOST_RULES: Final = 20_000
"""Rules of one installation: all of them are in memory."""
_LONGEST: Final = 500
_EVERYWHERE: Final = frozenset(ScopeKind)
SCOPES: Final[Mapping[Role, frozenset[ScopeKind]]] = {
    Role.VIEWER: _EVERYWHERE,
    Role.RESEARCHER: _EVERYWHERE - {ScopeKind.CLUSTER},
    Role.PROJECT_ADMIN: _EVERYWHERE - {ScopeKind.CLUSTER},
    Role.DEPARTMENT_ADMIN: frozenset({ScopeKind.TENANT, ScopeKind.DEPARTMENT}),
    Role.SYSTEM_ADMIN: frozenset({ScopeKind.TENANT}),
    Role.CLUSTER_AGENT: frozenset({ScopeKind.TENANT, ScopeKind.CLUSTER}),
}
"""Where a role means something."""


def check_rule(holder_kind: str, holder: str, issuer: str, role: str, scope_kind: str, scope: str) -> list[Problem]:
    """Everything that is wrong with a rule that somebody asks for."""
    problems = [
        *_word("holder_kind", holder_kind, HolderKind),
        *_word("role", role, Role),
        *_word("scope_kind", scope_kind, ScopeKind),
        *_text("holder", holder, 1),
        *_text("issuer", issuer, 0),
    ]
    if holder_kind == HolderKind.APPLICATION and issuer:
        problems.append(Problem("issuer", "an application's tokens are Muster's own: leave it empty"))
    problems.extend(_scope(scope_kind, scope))
    if not problems and ScopeKind(scope_kind) not in SCOPES[Role(role)]:
        allowed = ", ".join(sorted(SCOPES[Role(role)]))
        problems.append(Problem("scope_kind", f"{role} is given in {allowed}, not in a {scope_kind}"))
    return problems


def rule_of(
    holder_kind: str, holder: str, issuer: str, role: str, scope_kind: str, scope: str
) -> tuple[Holder, Binding]:
    """A rule that `check_rule` found nothing wrong with."""
    return Holder(HolderKind(holder_kind), holder, issuer), Binding(Role(role), Scope(ScopeKind(scope_kind), scope))


def may_give(grants: Grants, binding: Binding) -> bool:
    """Whether someone has a role, over that very scope or one around it, with all the verbs of the one to be given."""
    return any(
        VERBS[binding.role] <= VERBS[own.role] and grants.covers(own.scope, binding.scope) for own in grants.bindings
    )


def within(inner: Grants, outer: Grants) -> bool:
    """Whether the holder of `outer` could give every role that `inner` has: then `inner` may do nothing more."""
    return all(may_give(outer, binding) for binding in inner.bindings)


def _word(path: str, given: str, words: type[HolderKind | Role | ScopeKind]) -> list[Problem]:
    allowed = [str(word) for word in words]
    return [] if given in allowed else [Problem(path, f"{given[:60]!r} is none of {', '.join(allowed)}")]


def _text(path: str, given: str, least: int) -> list[Problem]:
    if least <= len(given) <= _LONGEST and given.isprintable():
        return []
    return [Problem(path, f"{least} to {_LONGEST} printable characters are expected, there are {len(given)}")]


def _scope(kind: str, name: str) -> list[Problem]:
    if kind == ScopeKind.TENANT:
        return [Problem("scope", f"the tenant has no name: leave it empty instead of {name[:60]!r}")] if name else []
    try:
        check_name(name)
    except ValueError as error:
        return [Problem("scope", str(error))]
    return []
