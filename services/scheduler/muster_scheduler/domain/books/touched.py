"""What the books note beside themselves: what an open transaction has changed, and what was given back since a cycle.

Filled by the world's mutators; read by the adapter that writes the rows, by the cycle, and by an abort.
Holds: none of it is truth; dicts stand for sets in the order in which things came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from muster_scheduler.domain.asked.requests import Holder


@dataclass(slots=True)
class Touched:
    """What the open transaction has changed and its adapter has to write; insertion-ordered sets."""

    workloads: dict[str, None] = field(default_factory=dict)
    requests: dict[str, None] = field(default_factory=dict)  # workloads with a generation that is new
    replicas: dict[Holder, None] = field(default_factory=dict)
    clusters: dict[str, None] = field(default_factory=dict)
    nodes: dict[tuple[str, str], None] = field(default_factory=dict)
    parts: dict[tuple[str, int], None] = field(default_factory=dict)  # of incomplete inventories: cluster and number
    parts_over: dict[str, None] = field(default_factory=dict)  # clusters whose parts before those are of no use
    objects: dict[tuple[str, str], None] = field(default_factory=dict)  # cluster and namespace
    projects: dict[str, None] = field(default_factory=dict)
    departments: dict[str, None] = field(default_factory=dict)
    usage: dict[tuple[str, str], None] = field(default_factory=dict)
    pools: dict[int, None] = field(default_factory=dict)
    quarantined: dict[str, None] = field(default_factory=dict)  # workloads set aside or released
    retired: dict[str, int] = field(default_factory=dict)  # that left, and when they are to be deleted; 0: never
    archived: dict[str, None] = field(default_factory=dict)  # workloads that submission has archived
    placed: list[tuple[Sequence[str], Sequence[Holder]]] = field(default_factory=list)
    """Workloads and replicas of whole batches: put together only where somebody asks."""

    def all_workloads(self) -> dict[str, None]:
        """Those of batches too."""
        return self.workloads | dict.fromkeys(chain.from_iterable(names for names, _ in self.placed))

    def all_replicas(self) -> dict[Holder, None]:
        """Those of batches too."""
        return self.replicas | dict.fromkeys(chain.from_iterable(holders for _, holders in self.placed))


class Freed(NamedTuple):
    """What was given back in one pool of one cluster since the last cycle: nodes, and the projects that held it."""

    nodes: dict[tuple[str, str], None]
    projects: dict[str, None]
