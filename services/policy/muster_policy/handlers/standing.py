"""The policies of now, loaded from the store as far as they are newer than what this instance has.

Called by judging and by writing at the head of every unit, once the lock is held.
"""

from __future__ import annotations

from typing import Final

from muster_chassis import logs, metrics
from muster_chassis.unit import Unit
from muster_policy.domain.standing import Shelf
from muster_policy.ports import PolicyStore

_log = logs.get(__name__)
UNREADABLE: Final = metrics.gauge(
    "muster_policy_unreadable",
    unit="policies",
    meaning="Policies that this build cannot read, so that nothing is judged on their branches.",
    action="Read the log of policy: it names each one. Write it anew, or go back to the release that wrote it.",
)

REVISION: Final = metrics.gauge(
    "muster_policy_revision",
    unit="revision",
    meaning="The revision of all policies by which this instance judged last. Each write of policies raises it by one.",
    action="Instances that judge differ for a moment only. One that stays behind gets no work: look at its partitions.",
)


class Loading:
    """The shelf of one instance and the store that fills it."""

    def __init__(self, shelf: Shelf, store: PolicyStore) -> None:
        self.shelf = shelf
        self._store = store

    async def shared(self, unit: Unit) -> Shelf:
        """The policies of now, which stay so until the unit ends."""
        return await self._loaded(unit, await self._store.share(unit))

    async def taken(self, unit: Unit) -> Shelf:
        """The policies of now, for a unit that changes them."""
        return await self._loaded(unit, await self._store.take(unit))

    async def seen(self, unit: Unit) -> Shelf:
        """The policies as they are committed now."""
        return await self._loaded(unit, await self._store.revision(unit))

    async def _loaded(self, unit: Unit, revision: int) -> Shelf:
        if revision > self.shelf.revision:
            rows = await self._store.newer(unit, self.shelf.revision)
            self.shelf.take(revision, rows)
            REVISION.set(self.shelf.revision)
            bad = self.shelf.unreadable()
            UNREADABLE.set(len(bad))
            for each in bad:
                _log.error(
                    "a policy cannot be read", policy=each.row.id, scope=str(each.row.scope), why=each.unreadable
                )
        return self.shelf
