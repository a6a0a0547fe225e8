"""Who reads an answer: workloads of projects that he may not see have no name in it.

Given by submission with each question (it keeps the rights), used wherever an explanation names somebody else.
Holds: a viewer without an identity sees no names. Everyone sees how many others there are; what they hold or
deserve is shown only to viewers who may see them, and no sum from which others could be computed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from muster_kernel.reasons import HIDDEN, OTHER
from muster_scheduler.domain.asked.workloads import Workload

_NAMED: Final = 6  # of a set; the others are counted


class Viewer(NamedTuple):
    """projects: those whose workloads he may read; None: all. departments: those that he may see; None: all."""

    projects: frozenset[str] | None
    departments: frozenset[str] | None = frozenset()

    @property
    def everywhere(self) -> bool:
        """Whether he may see everything, and so every sum."""
        return self.projects is None and self.departments is None

    def sees_department(self, name: str) -> bool:
        """Whether he may know what a department holds and deserves."""
        return self.departments is None or name in self.departments

    def sees(self, workload: Workload) -> bool:
        """Whether he may know that the workload is there."""
        return self.projects is None or workload.project in self.projects

    def name(self, workload: Workload) -> str:
        """What a workload is called to him."""
        return workload.name or workload.id if self.sees(workload) else HIDDEN

    def filled(self, text: str, other: Workload | None) -> str:
        """A stored text with the name of the workload that it is about, where he may know it."""
        return text.replace(OTHER, self.name(other)) if other is not None else text

    def names(self, workloads: list[Workload]) -> str:
        """The first few that he sees by name, and how many more."""
        seen = [self.name(each) for each in workloads if self.sees(each)][:_NAMED]
        more = len(workloads) - len(seen)
        if not seen:
            return f"{more} workload{'' if more == 1 else 's'} of other projects"
        names = [*seen, f"{more} more"] if more else seen
        return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


EVERYONE: Final = Viewer(None, None)
