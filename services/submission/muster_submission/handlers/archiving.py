"""Archiving: workloads that have been over for the retention move out of the tables for lists and events.

The composition root runs it as an eternal task; one instance of submission works at a time.

1. Move the workloads that are due in batches, oldest first. The transaction of each batch also publishes to policy.
   Between two batches the task rests for as long as one took, at most 1 s.
2. Create a partition for a month that has none; the next batch moves the workloads that ended in this month.
3. Mark workloads whose automatic deletion is due as Deleted: their rows are only in the archive.
4. Remove whole months that are older than the archive's own retention. If a folder is configured, write each month to a
   Parquet file there first. Without a folder, also remove single rows of the month that is only partly too old.

Holds: a month that could not be written is not dropped, and everything else continues.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

import asyncpg

from muster.events.v1.submission_pb2 import WorkloadArchived
from muster_chassis import identity, logs, metrics
from muster_chassis.connection import AnyConnection
from muster_chassis.database import TRANSIENT, Database, OutcomeUnknown
from muster_chassis.health import Health
from muster_chassis.retention import paced
from muster_chassis.topics import SUBMISSIONS
from muster_submission.domain.archiving import Month, lacking, leaving
from muster_submission.errors import ExportFailed
from muster_submission.ports import Archive

_log = logs.get(__name__)
_EVERY: Final = 10.0
_STRETCH: Final = 500
_MOVING: Final = "archiving"
_REMOVING: Final = "archive"
_DAY: Final = 24 * 3600.0
_SINCE: Final = """
INSERT INTO retention_positions AS r (name, position) VALUES ('archive', $1)
ON CONFLICT (name) DO UPDATE SET position = r.position RETURNING position
"""
_LOCK: Final = "SELECT pg_try_advisory_lock(hashtextextended(current_schema() || '.archive', 0))"

ARCHIVED: Final = metrics.counter(
    "muster_archived_total",
    unit="workloads",
    meaning="Workloads that moved into the archive.",
    action="None needed; flat while muster_archive_overdue_seconds grows: look for errors in submission's log.",
)
OVERDUE: Final = metrics.gauge(
    "muster_archive_overdue_seconds",
    unit="seconds",
    meaning="For how long the workload that has waited longest should have been archived.",
    action="Above an hour: PostgreSQL is too slow, or submission logs why it cannot archive.",
)

Export = Callable[[Month, Path], Awaitable[None]]
"""A function that writes a month of the archive into a folder. Raises ExportFailed."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The settings of archiving.

    after: time from the end of a workload to its move. kept: time for which it stays in the archive; zero is for ever.
    folder: each month is written into it before the month is dropped.
    """

    after: timedelta
    kept: timedelta = timedelta()
    folder: Path | None = None


class Archiving:
    """The task that archives workloads."""

    def __init__(self, database: Database, archive: Archive, export: Export, plan: Plan, health: Health) -> None:
        self._database = database
        self._archive = archive
        self._export = export
        self._plan = plan
        self._health = health
        self._stretch_size = _STRETCH

    async def run(self) -> None:
        """Run one round every ten seconds, for ever. An eternal task."""
        while True:
            try:
                await self.round()
            except (*TRANSIENT, asyncpg.PostgresError, OutcomeUnknown, TimeoutError) as error:
                self._stretch_size = max(1, self._stretch_size // 2)  # the batch may be too large for a statement
                _log.warning("nothing was archived; tried again", error=repr(error), at_once=self._stretch_size)
                self._health.degraded(_MOVING, f"workloads that are over are not archived: {error!r}")
            else:
                self._stretch_size = min(_STRETCH, 2 * self._stretch_size)
                self._health.good(_MOVING)
            await asyncio.sleep(_EVERY)

    async def round(self) -> None:
        """Archive all workloads that are due and remove rows that are too old, unless another instance is doing so."""
        connection = await self._database.connect()
        try:
            if not await connection.fetchval(_LOCK):
                return
            oldest = await self._archive.oldest_due()
            late = 0.0 if oldest is None else (identity.now() - oldest - self._plan.after).total_seconds()
            OVERDUE.set(max(0.0, late))
            if not await self._settled(connection):
                return
            while await paced(partial(self._stretch, connection)):
                pass
            while await paced(partial(self._archive.delete_due, connection, identity.now(), _STRETCH)) == _STRETCH:
                pass
            await self._remove(connection)
        finally:
            await connection.close(timeout=5)  # this releases its lock

    async def _settled(self, connection: AnyConnection) -> bool:
        """Return whether this release has run here for a day.

        Until then an instance of the previous release may still run, or be started again. It does not know the archive,
        and tells agents that the folders of archived workloads are not needed.
        """
        since = await connection.fetchval(_SINCE, int(identity.now().timestamp()))
        return bool(identity.now().timestamp() - since >= min(_DAY, self._plan.after.total_seconds()))

    async def _stretch(self, connection: AnyConnection) -> bool:
        """Move one batch; return whether there may be more."""
        before = identity.now() - self._plan.after
        there = set(await self._archive.partitions(connection))
        async with self._database.unit() as unit:
            due = await self._archive.due(unit, before, self._stretch_size)
            moving = [one for one, end in due.items() if Month.of(end) in there]
            if moving:
                await self._archive.move(unit, moving)
            for one in moving:
                # No version: policy may have forgotten the workload, and no event of it follows.
                unit.publish(SUBMISSIONS, one, WorkloadArchived(workload_id=one), versioned=False)
        ARCHIVED.inc(len(moving))
        # After the unit: a partition is created on another connection, while no row is locked.
        missing = lacking(due.values(), there)
        for month in missing:
            await self._archive.make_partition(connection, month)
        return bool(missing) or len(due) == self._stretch_size

    async def _remove(self, connection: AnyConnection) -> None:
        there = await self._archive.partitions(connection)
        going = leaving(there, identity.now(), self._plan.kept)
        if going is None:
            return
        try:
            for month in going.months:
                if self._plan.folder is not None:
                    await self._export(month, self._plan.folder)
                await self._archive.drop_partition(connection, month)
                _log.info("a month of the archive was removed", month=str(month), written=bool(self._plan.folder))
        except ExportFailed as error:
            self._health.degraded(_REMOVING, f"nothing is removed from the archive: {error}")
            return
        except asyncpg.LockNotAvailableError:
            _log.info("a month of the archive is being read; a later round removes it")
            return
        self._health.good(_REMOVING)
        if self._plan.folder is None:
            remove = partial(self._archive.remove, connection, going.before, _STRETCH)
            while await paced(remove) == _STRETCH:
                pass
