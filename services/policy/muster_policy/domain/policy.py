"""A policy as a value: defaults and rules per kind of workload.

Made by `document.parse`, read by `judging.judge`.
Holds: every path is a policy path of the catalogue, every rule one that the path takes, every value typed by its row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from muster_language import Kind, Row, WorkloadSpec

Comparable = Decimal | int
"""What bounds compare: bytes, thousandths of a core, or the plain number."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound as it compares, and as the document wrote it."""

    amount: Comparable
    text: str


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one path. None: the document does not say."""

    required: bool | None = None
    can_edit: bool | None = None
    minimum: Bound | None = None
    maximum: Bound | None = None
    step: Bound | None = None
    options: tuple[str | int | bool, ...] | None = None
    options_text: tuple[str, ...] = ()

    def over(self, low: Rules) -> Rules:
        """These rules where they say something, else those of `low`."""
        return Rules(
            required=self.required if self.required is not None else low.required,
            can_edit=self.can_edit if self.can_edit is not None else low.can_edit,
            minimum=self.minimum or low.minimum,
            maximum=self.maximum or low.maximum,
            step=self.step or low.step,
            options=self.options if self.options is not None else low.options,
            options_text=self.options_text if self.options is not None else low.options_text,
        )


@dataclass(frozen=True, slots=True)
class Ruled:
    """A path with its row and its rules."""

    path: str
    row: Row
    rules: Rules


@dataclass(frozen=True, slots=True)
class Section:
    """What a policy says about one kind."""

    defaults: WorkloadSpec
    rules: tuple[Ruled, ...] = ()


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
        return self.sections.get(kind) or Section(WorkloadSpec())


NO_POLICY = Policy(name="none", version="none")
"""The policy where no file is named: no defaults, no rules."""
