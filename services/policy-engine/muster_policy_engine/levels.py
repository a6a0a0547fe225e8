"""What a write of policies has to keep: how the levels of a branch stand to each other.

Called by the service before it writes, and by the command for a folder. Pure.
A field has rules at one level of a branch alone. A lower default is refused where a level above prohibits changing the
field. Paths that a level reserves are written by none below. One branch speaks one dialect. A default that is worked
out from another field never comes back to itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from muster_language import Kind
from muster_policy_engine.composing import closed_by
from muster_policy_engine.policy import LEVELS, Dialect, Level, Policy, Scope


@dataclass(frozen=True, slots=True)
class Tenancy:
    """What the levels need to know of the organisation. departments: of each project; ids: of a scope, for REST."""

    departments: Mapping[str, str]
    ids: Mapping[Scope, str]

    def shares_branch(self, one: Scope, other: Scope) -> bool:
        """Whether some branch has both. Projects span clusters, so a cluster shares one with each of them."""
        if one == other or Level.TENANT in {one.level, other.level}:
            return True
        if one.level is other.level:
            return False
        if Level.CLUSTER in {one.level, other.level}:
            return True
        project, department = (one, other) if one.level is Level.PROJECT else (other, one)
        return self.departments.get(project.unit) == department.unit

    def shown(self, scope: Scope) -> str:
        """`department: "3"`: the level and the id of its unit on REST."""
        return f'{scope.level}: "{self.ids.get(scope, scope.unit)}"' if scope.unit else str(scope.level)


@dataclass(frozen=True, slots=True)
class Clash:
    """Why a policy cannot stand as it is. path: in its document; by: the policy that it clashes with."""

    policy: Policy
    path: str
    message: str
    by: Policy | None = None


@dataclass(frozen=True, slots=True)
class _Near:
    """The other policies of a kind that share a branch with one, the highest first."""

    policies: tuple[Policy, ...]
    tenancy: Tenancy

    def above(self, policy: Policy) -> list[Policy]:
        """Those at higher levels."""
        level = LEVELS.index(policy.scope.level)
        return [each for each in self.policies if LEVELS.index(each.scope.level) < level]


_Check = Callable[[Policy, _Near], Iterator[Clash]]


def clashes(written: Iterable[Policy], standing: Iterable[Policy], tenancy: Tenancy) -> list[Clash]:
    """What stands against a write. standing: all policies as they would stand after it, the written ones included."""
    shelf = _Shelf(standing, tenancy)
    found: list[Clash] = []
    for policy in written:
        near = shelf.near(policy)
        dialects = list(_dialects(policy, near))
        found += dialects or [clash for check in _CHECKS for clash in check(policy, near)]
    return found


class _Shelf:
    """All policies by kind and scope, so that a write of one project's looks at its own branch alone."""

    def __init__(self, standing: Iterable[Policy], tenancy: Tenancy) -> None:
        self._tenancy = tenancy
        self._by_key = {each.key: each for each in standing}
        self._by_level: dict[tuple[Kind, Level], list[Policy]] = {}
        self._projects: dict[tuple[Kind, str], list[Policy]] = {}
        for each in self._by_key.values():
            self._by_level.setdefault((each.kind, each.scope.level), []).append(each)
            if each.scope.level is Level.PROJECT:
                department = tenancy.departments.get(each.scope.unit, "")
                self._projects.setdefault((each.kind, department), []).append(each)

    def near(self, policy: Policy) -> _Near:
        """The other policies of the kind with which it shares a branch."""
        found = [each for each in self._candidates(policy) if each.key != policy.key]
        found.sort(key=lambda each: (LEVELS.index(each.scope.level), each.scope.unit))
        return _Near(tuple(found), self._tenancy)

    def _candidates(self, policy: Policy) -> Iterator[Policy]:
        kind, scope = policy.kind, policy.scope
        levels = set(LEVELS) - ({scope.level} - {Level.TENANT})
        if scope.level is Level.PROJECT:
            department = Scope(Level.DEPARTMENT, self._tenancy.departments.get(scope.unit, ""))
            yield from (each for each in [self._by_key.get((kind, department))] if each is not None)
            levels -= {Level.DEPARTMENT}
        elif scope.level is Level.DEPARTMENT:
            yield from self._projects.get((kind, scope.unit), ())
            levels -= {Level.PROJECT}
        for level in sorted(levels, key=LEVELS.index):
            yield from self._by_level.get((kind, level), ())


def _dialects(policy: Policy, near: _Near) -> Iterator[Clash]:
    for each in near.policies:
        if each.dialect is not policy.dialect:
            message = (
                f"a {each.dialect} policy of this kind stands at the {each.scope}: "
                f"a branch speaks one dialect; `muster policies convert` turns v1 into v2"
            )
            yield Clash(policy, "", message, each)


def _rules(policy: Policy, near: _Near) -> Iterator[Clash]:
    for path in policy.body.rules:
        for each in near.policies:
            if path in each.body.rules and not _replaced(policy, each):
                message = f'Field "{path}" already has rules in {near.tenancy.shown(each.scope)}'
                yield Clash(policy, f"rules.{path}", message, each)


def _replaced(one: Policy, other: Policy) -> bool:
    """Whether the two are never both in force: a project's v1 document replaces the tenant's."""
    return one.dialect is Dialect.V1 and other.dialect is Dialect.V1


def _defaults(policy: Policy, near: _Near) -> Iterator[Clash]:
    above = [each for each in near.above(policy) if not _replaced(policy, each)]
    for each in policy.body.defaults:
        by = closed_by(each, above)
        if by is not None:
            item = f" {each.label!r}" if each.label else ""
            message = f'the policy of the {by.scope} prohibits changing "{each.place.path}"{item}'
            yield Clash(policy, f"defaults.{each.place.path}", message, by)


def _reserved(policy: Policy, near: _Near) -> Iterator[Clash]:
    defaults = dict.fromkeys(each.place.path for each in policy.body.defaults)
    for above in near.above(policy):
        reserved = above.body.reserved
        for block, paths, kept in (
            ("rules", policy.body.rules, reserved.rules),
            ("defaults", defaults, reserved.defaults),
        ):
            for path in paths:
                if any(_at_or_below(path, each) for each in kept):
                    message = f'the policy of the {above.scope} reserves "{path}": lower levels give no {block} for it'
                    yield Clash(policy, f"{block}.{path}", message, above)


def _at_or_below(path: str, reserved: str) -> bool:
    return path == reserved or path.startswith(f"{reserved}.")


def _cycles(policy: Policy, near: _Near) -> Iterator[Clash]:
    """A chain of defaultFrom over the policies of one branch that comes back to a field of this one."""
    steps: dict[str, list[tuple[str, Policy]]] = {}
    for each in (policy, *near.policies):
        for path, ruled in each.body.rules.items():
            if ruled.rules.default_from is not None:
                steps.setdefault(path, []).append((ruled.rules.default_from.source.path, each))
    for path, ruled in policy.body.rules.items():
        if ruled.rules.default_from is None:
            continue
        cycle = _cycle(path, ruled.rules.default_from.source.path, policy, steps, near.tenancy)
        if cycle:
            message = f"defaultFrom comes back to its own field: {' from '.join(cycle)}"
            yield Clash(policy, f"rules.{path}", message)


def _cycle(
    start: str, first: str, policy: Policy, steps: Mapping[str, list[tuple[str, Policy]]], tenancy: Tenancy
) -> list[str]:
    """The fields from the start back to it, through policies that all share a branch; empty where no chain does so."""
    chains: list[tuple[list[str], frozenset[Scope]]] = [([start, first], frozenset({policy.scope}))]
    seen = {(first, chains[0][1])}
    while chains:
        fields, scopes = chains.pop()
        if fields[-1] == start:
            return fields
        for source, each in steps.get(fields[-1], ()):
            further = source, scopes | {each.scope}
            # Thousands of projects may have the same step: a chain goes on once for each set of scopes.
            if further in seen or not all(tenancy.shares_branch(each.scope, scope) for scope in scopes):
                continue
            seen.add(further)
            chains.append(([*fields, source], further[1]))
    return []


_CHECKS: Final[tuple[_Check, ...]] = (_rules, _defaults, _reserved, _cycles)
