"""Which workloads somebody wants to see, and may see, as a value that lists and watches share.

Holds: a watch shows a change to everyone who could see the workload before it or can see it after it, so that a
watcher learns when something leaves its view; and to nobody beyond their scope.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from muster_kernel.lifecycle import Phase
from muster_submission.domain import phases
from muster_submission.domain.fields import FIELDS
from muster_submission.domain.listing import Order, Question, beyond, question
from muster_submission.domain.terms import LAST, Interval, Points, Term, holds

_NOTHING: Final[frozenset[int]] = frozenset()
_DELETED: Final = phases.number(Phase.DELETED)
_NEWEST: Final = Order("id", descending=True)
_PHASE: Final = "phase"
WATCHABLE: Final = frozenset({one.column for one in FIELDS if one.fixed} | {_PHASE})
"""The columns by which a watch can filter: those that never change, and the phase, whose moves the log tells."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Empty members take everything. `kinds` and `phases` are the contracts' numbers; `scope`: None is all projects.

    terms: what filterBy says, `said` its conditions in the caller's words.
    """

    project: str = ""
    phases: frozenset[int] = _NOTHING
    kinds: frozenset[int] = _NOTHING
    name_prefix: str = ""
    include_deleted: bool = False
    workload_id: str = ""
    scope: frozenset[str] | None = None
    terms: tuple[Term, ...] = ()
    said: tuple[str, ...] = ()

    def wanted_phases(self) -> frozenset[int]:
        """The phases that are shown; empty: every one."""
        if self.phases:
            return self.phases
        if self.include_deleted:
            return _NOTHING
        return frozenset(phases.number(phase) for phase in Phase if phase is not Phase.DELETED)

    def questions(self, size: int, after: str) -> list[Question]:
        """What the list is asked: the `size` newest older than `after`; what is there and what is deleted apart."""
        fixed = [*self._terms(), *([beyond(_NEWEST, after)] if after else [])]
        asked = []
        living = self.phases - {_DELETED}
        if living or not self.phases:
            phased = [Points(_PHASE, living)] if living else []
            asked.append(question((*fixed, *phased), _NEWEST, limit=size))
        if _DELETED in self.phases or (self.include_deleted and not self.phases):
            asked.append(question(tuple(fixed), _NEWEST, gone=True, limit=size))
        return asked

    def takes(self, subject: Subject, *moments: int) -> bool:
        """Whether a workload is in view in at least one of the phases in `moments` (0 is none)."""
        if self.scope is not None and subject.project not in self.scope:
            return False
        if self.workload_id:
            return subject.workload_id == self.workload_id
        if not all(subject.passes(term) for term in self._terms() if term.column != _PHASE):
            return False
        wanted = self.wanted_phases()
        asked = [term for term in self.terms if term.column == _PHASE]
        return any(
            (not wanted or moment in wanted) and all(holds(term, moment) for term in asked) for moment in moments
        )

    def unwatchable(self) -> list[str]:
        """The columns by which no watch can filter."""
        return sorted({term.column for term in self.terms} - WATCHABLE)

    def canonical(self) -> bytes:
        """The same bytes for the same question: what page tokens are bound to."""
        told = (
            self.project,
            ",".join(str(number) for number in sorted(self.phases)),
            ",".join(str(number) for number in sorted(self.kinds)),
            self.name_prefix,
            "deleted" if self.include_deleted else "",
            self.workload_id,
            *sorted(self.said),
        )
        return "\x00".join(told).encode()

    def _terms(self) -> list[Term]:
        found: list[Term] = list(self.terms)
        if self.scope is not None:
            found.append(Points("project", self.scope))
        if self.workload_id:
            found.append(Points("id", frozenset({self.workload_id})))
        if self.project:
            found.append(Points("project", frozenset({self.project})))
        if self.kinds:
            found.append(Points("kind", self.kinds))
        if self.name_prefix:
            found.append(Interval("name", self.name_prefix, self.name_prefix + LAST))
        return found


@dataclass(frozen=True, slots=True)
class Subject:
    """What a filter looks at and what never changes about a workload."""

    workload_id: str
    project: str
    name: str
    kind: int
    submitted_by: str = ""
    created_at: datetime | None = None

    def passes(self, term: Term) -> bool:
        """Whether the term's column, one of those that never change, has a value that it takes."""
        return holds(term, self._value(term.column))

    def _value(self, column: str) -> Any:
        return self.workload_id if column == "id" else getattr(self, column)
