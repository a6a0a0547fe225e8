"""Workloads that have left the scheduler's memory: read back when a request or a record names them, later removed.

The handlers, the composition root's upkeep and rpc.py call it; postgres.py writes the rows (rule 12: workloads that are
over cost no memory, however many there have been).

The row, with the version numbers, keeps an admission that comes again from starting the workload again (rule 3). Policy
keeps the admission for one retention after WorkloadArchived, and a record lives on Kafka for one more. So a row goes:

1. Two retentions after WorkloadArchived.
2. Without that event, four retentions after the end: submission archives one retention after the end, and may be one
   more late. The event has no version, so that a scheduler that has missed it cannot know.

Holds: a row lives for at least three retentions after the submission. So the admission of an older workload that has no
row may be of one that has ended, and Handlers refuses it: whatever was missed, nothing that has ended starts again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from muster_chassis.connection import AnyConnection
from muster_chassis.database import OutcomeUnknown
from muster_chassis.retention import Retention, paced
from muster_chassis.unit import Unit
from muster_scheduler.adapters import workload_rows
from muster_scheduler.domain.asked.workloads import SECOND, Workload

_AT_ONCE: Final = 1_000  # workloads to delete automatically, in one transaction
_REMOVED: Final = 20_000  # rows in one transaction
_RENEWED: Final = 500  # rows in one transaction
_BACKLOG: Final = timedelta(days=1)  # an admission may wait to be read; only tests have a retention of minutes
REVIVE: Final = """
DELETE FROM retired WHERE id = ANY ($1::uuid[])
RETURNING id::text AS id, project, name, phase, desired, generation, attempt, body, request, added, spec
"""
_DUE: Final = "SELECT id::text AS id FROM retired WHERE delete_at <= $1 ORDER BY delete_at LIMIT $2"
_BY_ID: Final = """
SELECT id::text AS id, project, name, phase, desired, generation, attempt, body, request, added, spec
FROM retired WHERE id = $1::uuid
"""
_BY_NAME: Final = """
SELECT id::text AS id, project, name, phase, desired, generation, attempt, body, request, added, spec
FROM retired WHERE (project, name) = ($1, $2) ORDER BY updated DESC LIMIT 1
"""
_ARCHIVE: Final = """
WITH living AS (UPDATE workloads SET archived = $2 WHERE id = ANY ($1::uuid[]))
UPDATE retired SET archived = $2 WHERE id = ANY ($1::uuid[])
"""  # one that is over is in `workloads` for minutes, or as long as something of it is left
_REMOVE: Final = """
DELETE FROM retired WHERE id IN (
    (SELECT id FROM retired WHERE archived < $1 ORDER BY archived LIMIT $3)
    UNION ALL
    (SELECT id FROM retired WHERE archived IS NULL AND updated < $2 ORDER BY updated LIMIT $3))
"""
_RENEW: Final = """
UPDATE retired SET renewed = $1 WHERE archived IS NULL AND id IN (
    SELECT id FROM retired WHERE archived IS NULL AND coalesce(renewed, updated) < $2
    ORDER BY coalesce(renewed, updated) LIMIT $3)
RETURNING id::text AS id
"""


async def revive(unit: Unit, workload_ids: Sequence[str]) -> list[Workload]:
    """Return those of them that are retired. The transaction removes their rows here; the caller writes them again."""
    return [to_workload(row) for row in await unit.connection.fetch(REVIVE, list(workload_ids))]


async def due(unit: Unit) -> list[str]:
    """Return some workloads whose automatic deletion is due."""
    return [row["id"] for row in await unit.connection.fetch(_DUE, unit.now, _AT_ONCE)]


async def find(connection: AnyConnection, workload_id: str, project: str, name: str) -> Workload | None:
    """Return the workload with that id; without an id, the newest with that name."""
    query, arguments = (_BY_ID, (workload_id,)) if workload_id else (_BY_NAME, (project, name))
    row = await connection.fetchrow(query, *arguments)
    return to_workload(row) if row is not None else None


async def archive(unit: Unit, workload_ids: Iterable[str]) -> None:
    """Note that submission has archived these workloads: their rows and version numbers are kept from now on."""
    archived = list(workload_ids)
    await unit.connection.execute(_ARCHIVE, archived, unit.now)
    unit.mark_ended(archived)


async def remove(unit: Unit, retention: timedelta) -> None:
    """Remove the rows of workloads whose events are in no outbox and on no topic any more.

    If the automatic deletion of a workload is due later than that, submission deletes it: by then only its archive has
    the workload.
    """
    await unit.connection.execute(_REMOVE, unit.now - 2 * retention, unit.now - 4 * retention, _REMOVED)


def oldest_admission(retention: timedelta) -> timedelta:
    """Return the age from which the admission of an unknown workload is refused.

    It is the time for which a row is kept at least: one retention until the workload is archived, and two more.
    """
    return max(3 * retention, _BACKLOG)


class RetiredRetention(Retention):
    """The chassis's retention, which keeps version numbers as long as the row of a workload that is not archived."""

    async def round(self) -> None:
        """Keep what is not archived for longer, then remove what is due.

        This comes before each round, in every instance: after a long stop the first round would remove the numbers
        before any scheduler leads. Without them the next event of the workload would be a duplicate to its readers.
        Raises TimeoutError, which `run` survives, if the outcome of a renewal is unknown; nothing is removed then.
        """
        try:
            while await paced(self._renew) == _RENEWED:
                pass
        except OutcomeUnknown as error:
            raise TimeoutError(f"workloads that are not archived could not be kept: {error}") from error
        await super().round()

    async def _renew(self) -> int:
        """Renew some marks of ended workloads half a retention before they are due, and return their number."""
        async with self._database.unit() as unit:
            due = unit.now - 3 * self._database.settings.retention / 2
            rows = await unit.connection.fetch(_RENEW, unit.now, due, _RENEWED)
            unit.mark_ended(row["id"] for row in rows)
        return len(rows)


def moment(micros: int) -> datetime | None:
    """Return a time of the domain, in microseconds, as a row has it; 0 is never."""
    return datetime.fromtimestamp(micros / SECOND, UTC) if micros else None


def to_workload(row: Any) -> Workload:
    """Return the workload of a row."""
    workload, _ = workload_rows.to_workload(row, {})
    if row["request"] is not None:
        workload.request = workload_rows.to_request(row["request"], row["added"], row["spec"])
    return workload
