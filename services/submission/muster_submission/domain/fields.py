"""By what lists of workloads are filtered and sorted: a table, one row a field, under the name that callers use.

Read by filtering.py (what may stand in filterBy), listing.py (what may stand in sortBy), the REST document and the
adapter (which column it is). Fields of the envelope are here because no spec has them; a test holds the fields of the
spec equal to what the catalogue calls filterable and sortable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from muster_kernel.lifecycle import Phase
from muster_submission.domain import phases


class Nature(StrEnum):
    """What the values of a field are, and with that, which operators make sense."""

    TEXT = "text"
    WORD = "word"
    NUMBER = "number"
    TIME = "time"
    ID = "id"
    PLACE = "place"
    """A text that is looked up: what a project or a cluster is called elsewhere, such as its id or its department."""


_EQUAL: Final = ("==", "!=")
_ORDERED: Final = (*_EQUAL, "<=", ">=")
_TEXTUAL: Final = (*_ORDERED, "=@", "!@", "=^", "=$")
OPERATORS: Final[Mapping[Nature, tuple[str, ...]]] = MappingProxyType(
    {
        Nature.TEXT: _TEXTUAL,
        Nature.WORD: _TEXTUAL,
        Nature.PLACE: _TEXTUAL,
        Nature.NUMBER: _ORDERED,
        Nature.TIME: _ORDERED,
        Nature.ID: _EQUAL,
    }
)


@dataclass(frozen=True, slots=True)
class ListField:
    """One field. `column` of the list's table; for a PLACE the column that its lookup ends in."""

    name: str
    nature: Nature
    column: str
    meaning: str
    words: Mapping[str, int] = field(default_factory=dict)
    sortable: bool = True
    fixed: bool = True
    """It never changes, so that a watch can filter by it too."""

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators that it takes."""
        return OPERATORS[self.nature]


KIND_WORDS: Final[Mapping[str, int]] = MappingProxyType(
    {"Workspace": 1, "Training": 2, "Distributed": 3, "Inference": 4}
)
SOURCE_WORDS: Final[Mapping[int, str]] = MappingProxyType({1: "Other", 2: "Control-plane", 3: "CLI", 4: "Other"})
"""What 2.18 calls the ways in, by the contracts' origins."""
PHASE_WORDS: Final[Mapping[str, int]] = MappingProxyType(
    {str(phase): phases.number(phase) for phase in Phase if phase is not Phase.DELETED}
)
GPU_UNITS: Final = 7000
"""How many units of the accounts are one GPU."""

FIELDS: Final[tuple[ListField, ...]] = (
    ListField("id", Nature.ID, "id", "the workload's id"),
    ListField("name", Nature.TEXT, "name", "the workload's name"),
    ListField("type", Nature.WORD, "kind", "the workload's kind", KIND_WORDS),
    ListField("phase", Nature.WORD, "phase", "the actual phase", PHASE_WORDS, fixed=False),
    ListField("projectName", Nature.TEXT, "project", "the project's name"),
    ListField("projectId", Nature.PLACE, "project", "the project's id"),
    ListField("departmentName", Nature.PLACE, "project", "the department's name"),
    ListField("departmentId", Nature.PLACE, "project", "the department's id"),
    ListField("clusterId", Nature.PLACE, "cluster", "the cluster in which it is placed", fixed=False),
    ListField("nodepool", Nature.TEXT, "node_pool", "the node pool in which it is placed", fixed=False),
    ListField("submittedBy", Nature.TEXT, "submitted_by", "who submitted it"),
    ListField("createdAt", Nature.TIME, "created_at", "when it was acknowledged"),
    ListField("completedAt", Nature.TIME, "finished_at", "when it ended", fixed=False),
    ListField("deletedAt", Nature.TIME, "deleted_at", "when it was deleted", fixed=False),
    ListField("allocatedGPU", Nature.NUMBER, "gpus", "the GPUs that it holds", fixed=False),
)
BY_NAME: Final[Mapping[str, ListField]] = MappingProxyType({one.name: one for one in FIELDS})
