"""Workloads that have left the scheduler's memory: read back where somebody speaks of them, removed in the end.

Called by the handlers, by the composition root's upkeep and by rpc.py. Written by postgres.py (rule 12: what is over
costs no memory, however much of it there has been).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from muster_chassis.connection import AnyConnection
from muster_chassis.unit import Unit
from muster_scheduler.adapters import workload_rows
from muster_scheduler.domain.asked.workloads import SECOND, Workload

_AT_ONCE: Final = 1_000  # that are to be deleted by themselves, in one transaction
_REMOVED: Final = 20_000  # rows in one transaction
REVIVE: Final = """
DELETE FROM retired WHERE id = ANY ($1::uuid[])
RETURNING id::text AS id, project, name, phase, desired, generation, attempt, body, request, spec
"""
_DUE: Final = "SELECT id::text AS id FROM retired WHERE delete_at <= $1 ORDER BY delete_at LIMIT $2"
_BY_ID: Final = """
SELECT id::text AS id, project, name, phase, desired, generation, attempt, body, request, spec
FROM retired WHERE id = $1::uuid
"""
_BY_NAME: Final = """
SELECT id::text AS id, project, name, phase, desired, generation, attempt, body, request, spec
FROM retired WHERE (project, name) = ($1, $2) ORDER BY updated DESC LIMIT 1
"""
_REMOVE: Final = """
DELETE FROM retired WHERE id IN (SELECT id FROM retired WHERE updated < $1 ORDER BY updated LIMIT $2)
"""


async def revive(unit: Unit, workload_ids: Sequence[str]) -> list[Workload]:
    """Those of them that were retired. Their rows are gone when the transaction commits; the caller writes them."""
    return [to_workload(row) for row in await unit.connection.fetch(REVIVE, list(workload_ids))]


async def due(unit: Unit) -> list[str]:
    """Some workloads that are to be deleted by themselves."""
    return [row["id"] for row in await unit.connection.fetch(_DUE, unit.now, _AT_ONCE)]


async def find(connection: AnyConnection, workload_id: str, project: str, name: str) -> Workload | None:
    """The workload of that id; without an id, the newest of that name."""
    query, arguments = (_BY_ID, (workload_id,)) if workload_id else (_BY_NAME, (project, name))
    row = await connection.fetchrow(query, *arguments)
    return to_workload(row) if row is not None else None


async def remove(unit: Unit, retention: timedelta) -> None:
    """Removes rows of what was over so long ago that no outbox can speak of it any more: for twice the retention.

    What is to be deleted by itself later than that is deleted by submission, in whose archive alone it is then.
    """
    await unit.connection.execute(_REMOVE, unit.now - 2 * retention, _REMOVED)


def moment(micros: int) -> datetime | None:
    """A moment of the domain as a row has it; 0 is never."""
    return datetime.fromtimestamp(micros / SECOND, UTC) if micros else None


def to_workload(row: Any) -> Workload:
    """The workload of a row."""
    workload, _ = workload_rows.to_workload(row, {})
    if row["request"] is not None:
        workload.request = workload_rows.to_request(row["request"], row["spec"])
    return workload
