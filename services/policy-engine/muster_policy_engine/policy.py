"""A policy as a value: defaults, attributes and rules per kind of workload.

Made by `document.parse`, read by `judging.judge`.
Holds: every path is a place of the catalogue, every rule one that the place takes, every value typed by its row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal

from muster_language import Kind, WorkloadSpec
from muster_policy_engine.places import Place

Comparable = Decimal | int
"""What bounds compare: bytes, thousandths of a core, or the plain number."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound as it compares, and as the document wrote it."""

    amount: Comparable
    text: str


@dataclass(frozen=True, slots=True)
class Options:
    """The only values allowed, as they are typed and as the document wrote them."""

    values: tuple[str | int | bool, ...]
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one place. None: the document does not say."""

    required: bool | None = None
    can_edit: bool | None = None
    minimum: Bound | None = None
    maximum: Bound | None = None
    step: Bound | None = None
    options: Options | None = None
    can_add: bool | None = None
    locked: tuple[str, ...] | None = None

    def over(self, low: Rules) -> Rules:
        """These rules where they say something, else those of `low`."""
        said = {each.name: getattr(self, each.name) for each in fields(self)}
        return Rules(**{name: getattr(low, name) if value is None else value for name, value in said.items()})


@dataclass(frozen=True, slots=True)
class Ruled:
    """A place with its rules."""

    place: Place
    rules: Rules


@dataclass(frozen=True, slots=True)
class Section:
    """What a policy says about one kind.

    attributes: one item a field, whose members every item gets that does not say them. baseline: what a workload that
    says nothing has of it, against which changes are seen.
    """

    defaults: WorkloadSpec
    attributes: WorkloadSpec
    baseline: WorkloadSpec
    rules: tuple[Ruled, ...] = ()


def nothing() -> Section:
    """The section of a policy that does not name the kind."""
    return Section(WorkloadSpec(), WorkloadSpec(), WorkloadSpec())


@dataclass(frozen=True, slots=True)
class Policy:
    """One document. `version`: a digest of its text; `text`: the document as it was written."""

    name: str
    version: str
    text: str = ""
    scope: str = "tenant"
    sections: Mapping[Kind, Section] = field(default_factory=dict)

    def section(self, kind: Kind) -> Section:
        """What it says about a kind; nothing where it does not name it."""
        return self.sections.get(kind) or nothing()


NO_POLICY = Policy(name="none", version="none")
"""The policy where no file is named: no defaults, no rules."""
