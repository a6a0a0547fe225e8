"""Which workloads somebody wants to see, as a value that lists and watches share.

Holds: a watch shows a change to everyone who could see the workload before it or can see it after it, so that a
watcher learns when something leaves its view.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from muster_kernel.lifecycle import FINAL, Phase
from muster_submission.domain import phases

_NOTHING: Final[frozenset[int]] = frozenset()


@dataclass(frozen=True, slots=True)
class Filter:
    """Empty members take everything. `kinds` and `phases` are the contracts' numbers."""

    project: str = ""
    phases: frozenset[int] = _NOTHING
    kinds: frozenset[int] = _NOTHING
    name_prefix: str = ""
    include_deleted: bool = False
    workload_id: str = ""

    def wanted_phases(self) -> frozenset[int]:
        """The phases that are shown; empty: every one."""
        if self.phases:
            return self.phases
        if self.include_deleted:
            return _NOTHING
        return frozenset(phases.number(phase) for phase in Phase if phase is not Phase.DELETED)

    def only_live(self) -> bool:
        """Whether no final phase is asked for, so that the index over what has not ended is enough."""
        finals = {phases.number(phase) for phase in FINAL}
        return bool(self.phases) and not self.phases & finals

    def takes(self, subject: Subject, *moments: int) -> bool:
        """Whether a workload is in view in at least one of the phases in `moments` (0 is none)."""
        if self.workload_id:
            return subject.workload_id == self.workload_id
        if self.project and subject.project != self.project:
            return False
        if self.kinds and subject.kind not in self.kinds:
            return False
        if not subject.name.startswith(self.name_prefix):
            return False
        wanted = self.wanted_phases()
        return not wanted or any(moment in wanted for moment in moments)

    def canonical(self) -> bytes:
        """The same bytes for the same question: what page tokens are bound to."""
        told = (
            self.project,
            ",".join(str(number) for number in sorted(self.phases)),
            ",".join(str(number) for number in sorted(self.kinds)),
            self.name_prefix,
            "deleted" if self.include_deleted else "",
            self.workload_id,
        )
        return "\x00".join(told).encode()


@dataclass(frozen=True, slots=True)
class Subject:
    """What a filter looks at and what never changes about a workload."""

    workload_id: str
    project: str
    name: str
    kind: int
