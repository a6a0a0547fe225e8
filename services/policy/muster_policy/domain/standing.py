"""The policies that stand, compiled, as an instance has them at one revision; and what holds on a branch.

Filled by the handlers from the store, within the transaction that judges by it or writes.
Holds: each document is compiled once a version; a document that this build cannot read keeps its branch from being
judged, and is never skipped.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from muster_language import Kind
from muster_policy_engine.composing import Composed, compose
from muster_policy_engine.documents.document import read_policies
from muster_policy_engine.policy import LEVELS, Branch, Level, Policy, Scope

_BRANCHES: Final = 20_000  # composed at the same time
Key = tuple[Kind, Scope]


@dataclass(frozen=True, slots=True)
class Row:
    """A policy as the store has it. source: what applied it; empty: a person. gone: it was removed."""

    id: str
    kind: Kind
    scope: Scope
    name: str
    version: int
    revision: int
    document: str
    source: str
    created_at: datetime
    created_by: str
    updated_at: datetime
    updated_by: str
    gone: bool = False

    @property
    def key(self) -> Key:
        """There is one policy for each."""
        return self.kind, self.scope


@dataclass(frozen=True, slots=True)
class Standing:
    """A policy that stands. policy: None where this build cannot read its document; `unreadable` says why."""

    row: Row
    policy: Policy | None
    unreadable: str = ""


class UnreadablePolicy(Exception):
    """A policy of the branch cannot be read by this build, so nothing is judged there."""

    def __init__(self, standing: Standing) -> None:
        self.standing = standing
        row = standing.row
        super().__init__(f"the {row.kind.word} policy of the {row.scope} cannot be read: {standing.unreadable}")


class Shelf:
    """All policies of one revision."""

    def __init__(self) -> None:
        self.revision = 0
        self._by_key: dict[Key, Standing] = {}
        self._clusters: dict[Kind, list[str]] = {}
        self._composed: OrderedDict[tuple[Kind, Branch], Composed | None] = OrderedDict()

    def take(self, revision: int, rows: Iterable[Row]) -> None:
        """Takes in what was written since: the rows of all later revisions up to this one."""
        if revision <= self.revision:
            return  # another task of this instance has loaded it meanwhile
        for row in sorted(rows, key=lambda each: each.revision):
            self._forget(row.key)
            known = self._by_key.get(row.key)
            if not row.gone:
                self._by_key[row.key] = compiled(row)
            elif known is not None and known.row.id == row.id:
                del self._by_key[row.key]
        self._clusters = {}
        for kind, scope in self._by_key:
            if scope.level is Level.CLUSTER:
                self._clusters.setdefault(kind, []).append(scope.unit)
        self.revision = revision

    def _forget(self, key: Key) -> None:
        """Drops what was composed with a policy: a project's write leaves all other branches as they are."""
        kind, scope = key
        for question in [each for each in self._composed if each[0] is kind and scope in each[1].scopes()]:
            del self._composed[question]

    def find(self, key: Key) -> Standing | None:
        """The policy of a kind and scope."""
        return self._by_key.get(key)

    def by_id(self, policy: str) -> Standing | None:
        """The policy of that id."""
        return next((each for each in self._by_key.values() if each.row.id == policy), None)

    def all(self) -> Iterator[Standing]:
        """Every policy, by kind and scope."""
        keyed = sorted(self._by_key.values(), key=lambda each: sort_key(each.row))
        return iter(keyed)

    def clusters(self, kind: Kind) -> Sequence[str]:
        """The clusters that have a policy of the kind."""
        return self._clusters.get(kind, ())

    def unreadable(self) -> list[Standing]:
        """Those that this build cannot read."""
        return [each for each in self._by_key.values() if each.policy is None]

    def composed(self, kind: Kind, branch: Branch) -> Composed | None:
        """What holds for a kind on a branch; None: no policy does. Raises UnreadablePolicy."""
        question = (kind, branch)
        if question in self._composed:
            self._composed.move_to_end(question)
            return self._composed[question]
        policies: list[Policy] = []
        for scope in branch.scopes():
            standing = self._by_key.get((kind, scope))
            if standing is None:
                continue
            if standing.policy is None:
                raise UnreadablePolicy(standing)
            policies.append(standing.policy)
        answer = self._composed[question] = compose(kind, policies) if policies else None
        while len(self._composed) > _BRANCHES:
            self._composed.popitem(last=False)
        return answer


def compiled(row: Row) -> Standing:
    """The policy of a row, read from its document.

    A document of v1 names the namespace of its project: what it was when it was written is the scope of the row, and
    stays it whatever becomes of the namespace.
    """
    found = read_policies(row.document, projects=lambda _: row.scope.unit or None)
    if len(found) == 1 and found[0].policy is not None and found[0].policy.key == row.key:
        policy = found[0].policy
        return Standing(row, stood(policy, row))
    violations = [each for document in found for each in document.violations]
    said = "; ".join(f"line {each.line}: {each.path}: {each.text}" for each in violations[:3])
    return Standing(row, None, said or "its document is of another kind or scope")


def stood(policy: Policy, row: Row) -> Policy:
    """The policy with the id and the version that the store gives it."""
    return replace(policy, name=row.name, id=row.id, version=row.version)


def sort_key(row: Row) -> tuple[int, int, str]:
    """The order of lists: by kind, by level, by unit."""
    return int(row.kind), LEVELS.index(row.scope.level), row.scope.unit
