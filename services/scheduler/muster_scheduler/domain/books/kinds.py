"""What is known of the classes that waited for one node pool of one cluster, kept while nobody says anything else.

Kept by the capacity of the pool, which is made anew whenever a node is reported anew; filled and read by
turning/classes.py for every batch, of which a calm day has one for each handful of workloads.
Holds: an entry stands for what would be found anew while its project, its department, the cluster's profile and what
was said of the pool are the values that it was found with, so that neither an abort nor a rebuild has to know of it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from muster_scheduler.domain.books.classes import Kin
from muster_scheduler.domain.books.pools import NodePool
from muster_scheduler.domain.books.queues import Department, Project
from muster_scheduler.domain.fleet.clusters import Profile
from muster_scheduler.domain.fleet.eligibility import Eligibility

_MOST: Final = 4_096


class Known(NamedTuple):
    """What classes have in common that differ in amounts alone. asked: None: they are not for a batch.

    project, department: those with which it was found. spread: whether the pool spreads such replicas.
    """

    project: Project | None
    department: Department | None
    asked: Eligibility | None
    spread: bool = False


class Kinds:
    """All that is known there. said, profile: what was said of the pool, and what its cluster can do."""

    __slots__ = ("_known", "profile", "said")

    def __init__(self, said: NodePool, profile: Profile | None) -> None:
        """Begins with nothing known."""
        self.said, self.profile = said, profile
        self._known: dict[Kin, Known] = {}

    def hold(self, said: NodePool, profile: Profile | None) -> bool:
        """Whether the pool and its cluster are still what they were."""
        return self.profile is profile and self.said == said

    def get(self, kin: Kin, project: Project | None, department: Department | None) -> Known | None:
        """What is known of classes of that project; None: nothing, or nothing that holds still."""
        known = self._known.get(kin)
        if known is None or known.project is not project or known.department is not department:
            return None
        return known

    def put(self, kin: Kin, known: Known) -> None:
        """Remembers it."""
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[kin] = known
