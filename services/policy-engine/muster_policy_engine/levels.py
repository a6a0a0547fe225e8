"""What a write of policies has to keep: how the levels of a branch stand to each other.

Called by the service before it writes, and by the command for a folder. Pure.
A field has rules at one level of a branch alone. A lower default is refused where a level above lets nobody change the
field. Paths that a level reserves are written by none below. One branch speaks one dialect. A default that is worked
out from another field never comes back to itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

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


_Check = Callable[[Policy, Iterable[Policy], Tenancy], Iterator[Clash]]


def clashes(written: Iterable[Policy], standing: Iterable[Policy], tenancy: Tenancy) -> list[Clash]:
    """What stands against a write. standing: all policies as they would stand after it, the written ones included."""
    every = list(standing)
    found: list[Clash] = []
    for policy in written:
        near = [
            each
            for each in every
            if each.kind is policy.kind and each.key != policy.key and tenancy.shares_branch(each.scope, policy.scope)
        ]
        near.sort(key=lambda each: (LEVELS.index(each.scope.level), each.scope.unit))
        dialects = list(_dialects(policy, near))
        found += dialects or [clash for check in _CHECKS for clash in check(policy, near, tenancy)]
    return found


def _dialects(policy: Policy, near: Iterable[Policy]) -> Iterator[Clash]:
    for each in near:
        if each.dialect is not policy.dialect:
            message = (
                f"a {each.dialect} policy of this kind stands at the {each.scope}: "
                f"a branch speaks one dialect; `muster policies convert` turns v1 into v2"
            )
            yield Clash(policy, "", message, each)


def _rules(policy: Policy, near: Iterable[Policy], tenancy: Tenancy) -> Iterator[Clash]:
    for path in policy.body.rules:
        for each in near:
            if path in each.body.rules and not _replaced(policy, each):
                message = f'Field "{path}" already has rules in {tenancy.shown(each.scope)}'
                yield Clash(policy, f"rules.{path}", message, each)


def _replaced(one: Policy, other: Policy) -> bool:
    """Whether the two are never both in force: a project's v1 document replaces the tenant's."""
    return one.dialect is Dialect.V1 and other.dialect is Dialect.V1


def _defaults(policy: Policy, near: Iterable[Policy], tenancy: Tenancy) -> Iterator[Clash]:
    above = [each for each in near if _is_above(each, policy) and not _replaced(policy, each)]
    for each in policy.body.defaults:
        by = closed_by(each, above)
        if by is not None:
            item = f" {each.label!r}" if each.label else ""
            message = f'the policy of the {by.scope} lets nobody change "{each.place.path}"{item}'
            yield Clash(policy, f"defaults.{each.place.path}", message, by)


def _reserved(policy: Policy, near: Iterable[Policy], tenancy: Tenancy) -> Iterator[Clash]:
    blocks = (
        ("rules", list(policy.body.rules), lambda above: above.body.reserved.rules),
        ("defaults", [each.place.path for each in policy.body.defaults], lambda above: above.body.reserved.defaults),
    )
    for above in near:
        if not _is_above(above, policy):
            continue
        for block, paths, reserved in blocks:
            for path in dict.fromkeys(paths):
                if any(_at_or_below(path, each) for each in reserved(above)):
                    message = f'the policy of the {above.scope} reserves "{path}": lower levels give no {block} for it'
                    yield Clash(policy, f"{block}.{path}", message, above)


def _at_or_below(path: str, reserved: str) -> bool:
    return path == reserved or path.startswith(f"{reserved}.")


def _is_above(one: Policy, other: Policy) -> bool:
    return LEVELS.index(one.scope.level) < LEVELS.index(other.scope.level)


def _cycles(policy: Policy, near: Iterable[Policy], tenancy: Tenancy) -> Iterator[Clash]:
    """A chain of defaultFrom over the policies of one branch that comes back to a field of this one."""
    steps: dict[str, list[tuple[str, Policy]]] = {}
    for each in (policy, *near):
        for path, ruled in each.body.rules.items():
            if ruled.rules.default_from is not None:
                steps.setdefault(path, []).append((ruled.rules.default_from.source.path, each))
    for path, ruled in policy.body.rules.items():
        if ruled.rules.default_from is None:
            continue
        cycle = _cycle(path, ruled.rules.default_from.source.path, policy, steps, tenancy)
        if cycle:
            message = f"defaultFrom comes back to its own field: {' from '.join(cycle)}"
            yield Clash(policy, f"rules.{path}", message)


def _cycle(
    start: str, first: str, policy: Policy, steps: Mapping[str, list[tuple[str, Policy]]], tenancy: Tenancy
) -> list[str]:
    """The fields from the start back to it, through policies that all share a branch; empty where no chain does so."""
    chains: list[tuple[list[str], list[Policy]]] = [([start, first], [policy])]
    while chains:
        fields, policies = chains.pop()
        if fields[-1] == start:
            return fields
        for source, each in steps.get(fields[-1], ()):
            together = all(tenancy.shares_branch(each.scope, one.scope) for one in policies)
            if together and (source == start or source not in fields):
                chains.append(([*fields, source], [*policies, each]))
    return []


_CHECKS: Final[tuple[_Check, ...]] = (_rules, _defaults, _reserved, _cycles)
