"""Who leaves its place, by cluster and node pool, and which claims wait for whom.

Kept by the world; written by the lifecycle and by whoever makes room, read by every look for room. A walk over all who
leave for each pool that somebody looked into, and one over all claims at every end, grew with what evictions were on
their way at once.
Holds: derived, and changed through the journal alone; who stands here may not be leaving any more, one too many does no
harm; a workload stands in the pool in which its replicas are.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator
from typing import TypeVar

from muster_scheduler.domain.asked.courses import Claim
from muster_scheduler.domain.asked.workloads import Workload
from muster_scheduler.domain.journal import Journal

Place = tuple[str, str]

K = TypeVar("K", bound=Hashable)

_NOBODY: dict[str, None] = {}


class Leaving:
    """Those who are on their way out, and those who wait for them."""

    def __init__(self, journal: Journal) -> None:
        """Begins with nobody leaving."""
        self._journal = journal
        self._at: dict[str, Place] = {}
        self._here: dict[Place, dict[str, None]] = {}
        self._waiting: dict[str, dict[str, None]] = {}  # by leaver, the claimants that wait for it

    def fill(self, leavers: Iterable[Workload], claimants: Iterable[Workload]) -> None:
        """Takes all at once, into an empty one and past the journal: nothing of it can be undone."""
        for workload in leavers:
            place = workload.cluster, workload.pool
            self._at[workload.id] = place
            self._here.setdefault(place, {})[workload.id] = None
        for claimant in claimants:
            for leaver in claimant.claim.waits_for if claimant.claim else ():
                self._waiting.setdefault(leaver, {})[claimant.id] = None

    def __contains__(self, workload: str) -> bool:
        """Whether it is on its way out."""
        return workload in self._at

    def in_pool(self, pool: str) -> Iterator[str]:
        """The ids of those in one pool, whatever cluster has it."""
        return (name for (_, at), names in self._here.items() if at == pool for name in names)

    def of(self, place: Place) -> Collection[str]:
        """The ids of those in one pool of one cluster."""
        return self._here.get(place, _NOBODY)

    def begin(self, workload: Workload) -> None:
        """All or part of it leaves its place."""
        place = workload.cluster, workload.pool
        self.end(workload.id)
        self._journal.put(self._at, workload.id, place)
        _enter(self._journal, self._here, place, workload.id)

    def end(self, workload: str) -> None:
        """It has left, or goes on as it is."""
        place = self._journal.drop(self._at, workload)
        if place is not None:
            _leave(self._journal, self._here, place, workload)

    def promised(self, workload: str) -> bool:
        """Whether somebody waits for the room of this one."""
        return workload in self._waiting

    def claimants(self, workload: str) -> list[str]:
        """Who waits for the room of this one, by id."""
        return sorted(self._waiting.get(workload, _NOBODY))

    def wait(self, claimant: str, claim: Claim) -> None:
        """Its claim waits for these."""
        for leaver in claim.waits_for:
            _enter(self._journal, self._waiting, leaver, claimant)

    def cease(self, claimant: str, leavers: Iterable[str]) -> None:
        """Its claim waits for these no longer."""
        for leaver in leavers:
            _leave(self._journal, self._waiting, leaver, claimant)


def _enter(journal: Journal, sets: dict[K, dict[str, None]], key: K, name: str) -> None:
    members = sets.get(key)
    if members is None:
        members = {}
        journal.put(sets, key, members)
    journal.put(members, name, None)


def _leave(journal: Journal, sets: dict[K, dict[str, None]], key: K, name: str) -> None:
    members = sets.get(key)
    if members is None:
        return
    journal.drop(members, name)
    if not members:
        journal.drop(sets, key)
