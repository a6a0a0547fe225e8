"""What a write of policies does: documents and what stands into versions to write, or why not.

Called by the handlers within the unit that has the store to itself. Pure: the ids that it gives are made before.
Steps: who may write where, what each document changes, what a source no longer has, and how the levels stand to each
other in the end.
Holds: a refusal names every problem of the call; nothing is written in part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import Final

from muster_policy.domain.standing import Key, Row, Shelf, Standing
from muster_policy_engine.documents.document import PolicyDocument
from muster_policy_engine.levels import Tenancy, clashes
from muster_policy_engine.policy import Dialect, Level, Policy, Scope

MOST_POLICIES: Final = 20_000


class Outcome(Enum):
    """What a write does to a policy."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a write is refused. path: FILE:LINE of the document, then the path in it."""

    path: str
    message: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A write that is not done."""

    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Forbidden:
    """A write at scopes at which the caller may not write."""

    scopes: tuple[Scope, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """One policy after a write. row: as it stands then."""

    row: Row
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Reach:
    """Where a caller may write policies: everywhere, in departments and their projects, in projects."""

    tenant: bool = False
    departments: frozenset[str] = frozenset()
    projects: frozenset[str] = frozenset()

    def covers(self, scope: Scope, departments: Mapping[str, str]) -> bool:
        """Whether a policy may be written there. departments: of each project."""
        match scope.level:
            case Level.PROJECT:
                inside = departments.get(scope.unit, "") in self.departments
                return self.tenant or inside or scope.unit in self.projects
            case Level.DEPARTMENT:
                return self.tenant or scope.unit in self.departments
            case _:
                return self.tenant


@dataclass(frozen=True, slots=True)
class Given:
    """One document of a call. where: its file and line, for what is said of it."""

    document: PolicyDocument
    where: str

    @property
    def policy(self) -> Policy:
        """The policy; only asked for where the document could be read."""
        if self.document.policy is None:
            raise ValueError(f"{self.where} has no policy")
        return self.document.policy


@dataclass(frozen=True, slots=True)
class Wanted:
    """A write. ids: fresh ones, one a document. expected: the version that its one policy must have; 0: any."""

    given: Sequence[Given]
    author: str
    now: datetime
    ids: Sequence[str]
    reach: Reach
    source: str = ""
    prune: bool = False
    allow_empty: bool = False
    take_ownership: bool = False
    expected: int = 0


@dataclass(slots=True)
class _Plan:
    """What comes of a write, as far as it was looked at."""

    changes: list[Change] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def changes(wanted: Wanted, shelf: Shelf, tenancy: Tenancy) -> list[Change] | Refused | Forbidden:
    """The changes, in the order of the documents, then what goes; or every reason against them."""
    keys = [each.policy.key for each in wanted.given]
    gone = _pruned(wanted, shelf, set(keys)) if wanted.prune else []
    scopes = dict.fromkeys(_scopes(wanted, [*keys, *(each.key for each in gone)], shelf))
    closed = tuple(scope for scope in scopes if not wanted.reach.covers(scope, tenancy.departments))
    if closed:
        return Forbidden(closed)
    plan = _Plan()
    if wanted.prune and not keys and gone and not wanted.allow_empty:
        plan.problems.append(Problem("", f"the texts hold no policy: all {len(gone)} of {wanted.source} would go"))
    for number, each in enumerate(wanted.given):
        _one(plan, wanted, each, shelf.find(each.policy.key), wanted.ids[number])
    for row in gone:
        plan.changes.append(Change(_next(row, wanted, gone=True), Outcome.REMOVED))
    plan.problems += _levels(plan.changes, wanted, shelf, tenancy)
    return Refused(tuple(plan.problems)) if plan.problems else plan.changes


def removal(standing: Standing, wanted: Wanted, tenancy: Tenancy) -> Change | Forbidden:
    """A policy goes."""
    row, scopes = standing.row, dict.fromkeys([standing.row.scope, *_beyond(standing.policy)])
    closed = tuple(scope for scope in scopes if not wanted.reach.covers(scope, tenancy.departments))
    return Forbidden(closed) if closed else Change(_next(row, wanted, gone=True), Outcome.REMOVED)


def _scopes(wanted: Wanted, keys: Iterable[Key], shelf: Shelf) -> Iterator[Scope]:
    """Where the caller has to be allowed to write."""
    for each in wanted.given:
        yield each.policy.scope
        yield from _beyond(each.policy)
    for key in keys:
        standing = shelf.find(key)
        yield key[1]
        yield from _beyond(standing.policy if standing is not None else None)


def _beyond(policy: Policy | None) -> Iterator[Scope]:
    """A project's document of v1 switches the tenant's off, and on again when it goes."""
    if policy is not None and policy.dialect is Dialect.V1 and policy.scope.level is Level.PROJECT:
        yield Scope()


def _pruned(wanted: Wanted, shelf: Shelf, kept: set[Key]) -> list[Row]:
    return [each.row for each in shelf.all() if each.row.source == wanted.source and each.row.key not in kept]


def _one(plan: _Plan, wanted: Wanted, each: Given, standing: Standing | None, fresh: str) -> None:
    row = standing.row if standing is not None else None
    name = each.policy.name or (row.name if row is not None else default_name(each.policy))
    if row is None:
        scope = each.policy.scope
        made = Row(
            fresh, each.policy.kind, scope, name, 1, 0, each.document.text, wanted.source, wanted.now, wanted.author,
            wanted.now, wanted.author,
        )  # fmt: skip
        plan.changes.append(Change(made, Outcome.CREATED))
        return
    if _is_another(each.policy, standing):
        said = f"the {row.kind.word} policy of the {row.scope} is {row.name!r}: one document for each namespace"
        plan.problems.append(Problem(each.where, f"{said}; remove it first, or write under its name"))
    if wanted.source and row.source not in {"", wanted.source} and not wanted.take_ownership:
        said = f"the {row.kind.word} policy of the {row.scope} belongs to the source {row.source!r}"
        plan.problems.append(Problem(each.where, f"{said}; --take-ownership takes it over"))
    source = wanted.source or row.source
    if (row.document, row.name, row.source) == (each.document.text, name, source):
        plan.changes.append(Change(row, Outcome.UNCHANGED))
        return
    changed = replace(_next(row, wanted), name=name, document=each.document.text, source=source)
    plan.changes.append(Change(changed, Outcome.CHANGED))


def _is_another(policy: Policy, standing: Standing | None) -> bool:
    """Whether a document of v1 has another name than the one that stands in its namespace: the vendor has one alone."""
    known = standing.policy if standing is not None else None
    if known is None or {policy.dialect, known.dialect} != {Dialect.V1}:
        return False
    return policy.name != known.name


def _next(row: Row, wanted: Wanted, *, gone: bool = False) -> Row:
    return replace(row, version=row.version + 1, updated_at=wanted.now, updated_by=wanted.author, gone=gone)


def default_name(policy: Policy) -> str:
    """The name of a policy that brings none."""
    return "-".join(each for each in (policy.scope.unit or str(policy.scope.level), policy.kind.word) if each)


def _levels(made: Iterable[Change], wanted: Wanted, shelf: Shelf, tenancy: Tenancy) -> Iterator[Problem]:
    """How the levels stand to each other once the changes are made, as far as these changes bring it about."""
    where = {each.policy.key: each.where for each in wanted.given}
    policies = {each.row.key: each.policy for each in shelf.all() if each.policy is not None}
    written: list[Policy] = []
    by_key = {each.policy.key: each.policy for each in wanted.given}
    for change in made:
        if change.outcome is Outcome.REMOVED:
            policies.pop(change.row.key, None)
            continue
        policies[change.row.key] = by_key[change.row.key]
        if change.outcome is not Outcome.UNCHANGED:
            written.append(by_key[change.row.key])
    if len(policies) > MOST_POLICIES:
        yield Problem("", f"there would be {len(policies)} policies; {MOST_POLICIES} are allowed")
    for each in clashes(written, policies.values(), tenancy):
        yield Problem(f"{where[each.policy.key]}: {each.path}".removesuffix(": "), each.message)
