"""Policies as values: what a document says about one kind of workload at one scope.

Made by `documents`, laid together by `composing`, read by `judging`.
Holds: every path is a place of the catalogue, every rule one that the place takes, every value typed by its row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final

from muster_language import Kind, Row
from muster_policy_engine.places import Place

Comparable = Decimal | int
"""What bounds compare: bytes, thousandths of a core, or the plain number."""


class Level(StrEnum):
    """The levels at which a policy can stand, the highest first."""

    TENANT = "tenant"
    CLUSTER = "cluster"
    DEPARTMENT = "department"
    PROJECT = "project"


LEVELS: Final = tuple(Level)


class Dialect(StrEnum):
    """The two languages in which policies are written: the CRDs of v1, and `kind: Policy`."""

    V1 = "v1"
    V2 = "v2"


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a policy stands. unit: the name of the cluster, department or project; empty for the tenant."""

    level: Level = Level.TENANT
    unit: str = ""

    def __str__(self) -> str:
        """`tenant`, or `department research`."""
        return f"{self.level} {self.unit}" if self.unit else str(self.level)


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound as it compares, and as the document wrote it."""

    amount: Comparable
    text: str


@dataclass(frozen=True, slots=True)
class Options:
    """The only values allowed: as they are typed, as the document wrote them, and as consoles show them."""

    values: tuple[str | int | bool, ...]
    texts: tuple[str, ...]
    displayed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DefaultFrom:
    """A default that is worked out from another field.

    source: where the other value is; a member of the same item where the target is one. factor: base units of the
    target for each base unit of the source. text: the factor as the document wrote it.
    """

    source: Place
    factor: Fraction
    text: str


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one place. None: the document does not say.

    locked, kept, fixed: labels of items that may be neither changed nor taken out, that may not be taken out, that may
    not be changed. The last two are v1's.
    """

    required: bool | None = None
    can_edit: bool | None = None
    minimum: Bound | None = None
    maximum: Bound | None = None
    step: Bound | None = None
    options: Options | None = None
    can_add: bool | None = None
    locked: tuple[str, ...] | None = None
    kept: tuple[str, ...] | None = None
    fixed: tuple[str, ...] | None = None
    default_from: DefaultFrom | None = None
    blocked: bool | None = None

    @property
    def said(self) -> tuple[str, ...]:
        """The names of the rules that the document gives."""
        return tuple(each.name for each in fields(self) if getattr(self, each.name) is not None)

    @property
    def closed(self) -> bool:
        """Whether no layer above may set the value, a lower policy's default included."""
        return self.can_edit is False or bool(self.blocked)

    @property
    def closed_labels(self) -> frozenset[str]:
        """The labels of items that no layer above may change."""
        return frozenset((*(self.locked or ()), *(self.fixed or ())))


@dataclass(frozen=True, slots=True)
class Ruled:
    """A place with its rules."""

    place: Place
    rules: Rules


@dataclass(frozen=True, slots=True)
class Default:
    """One default: a value, or one item.

    value: typed by the place's row; None for an item. label, members: of an item, with None as the member that is its
    label. excluded: the item of a higher policy goes.
    """

    place: Place
    value: Any = None
    label: str = ""
    members: tuple[tuple[Row | None, Any], ...] = ()
    excluded: bool = False

    @property
    def attribute(self) -> bool:
        """Whether it is a member that every item gets that does not say it."""
        return self.place.itemized and self.place.member is not None


@dataclass(frozen=True, slots=True)
class Reserved:
    """Paths that policies at lower levels may not write, nor anything below them."""

    rules: tuple[str, ...] = ()
    defaults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Body:
    """What a policy says. rules: by the path of their place."""

    defaults: tuple[Default, ...] = ()
    rules: Mapping[str, Ruled] = field(default_factory=dict)
    reserved: Reserved = Reserved()


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy as it stands at a scope. id, version: the store's; empty and 0 for one that was never written."""

    kind: Kind
    scope: Scope
    body: Body
    name: str = ""
    dialect: Dialect = Dialect.V2
    id: str = ""
    version: int = 0

    @property
    def key(self) -> tuple[Kind, Scope]:
        """There is one policy for each."""
        return self.kind, self.scope


@dataclass(frozen=True, slots=True)
class Branch:
    """A project's place: the names of its cluster, its department and itself; empty: none."""

    cluster: str = ""
    department: str = ""
    project: str = ""

    def scopes(self) -> tuple[Scope, ...]:
        """The scopes of the branch, the highest first."""
        units = (self.cluster, self.department, self.project)
        below = (Scope(level, unit) for level, unit in zip(LEVELS[1:], units, strict=True) if unit)
        return (Scope(), *below)
