"""The archive in PostgreSQL: moves of ended workloads into it, reads from it, and removals of whole months.

The archiving task calls it, handlers call it within their transaction, and reading.py calls it for workloads that its
own tables do not have. Holds: a workload is in the tables for lists or in the archive, never in both. A reader that
looks into the tables first and then into the archive misses none, because workloads move in that direction only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import asyncpg

from muster.workload.v1.workload_pb2 import Workload, WorkloadSpec
from muster_chassis.connection import AnyConnection, affected
from muster_chassis.unit import Unit
from muster_submission.adapters import views
from muster_submission.domain.archiving import Month, partition

HISTORY: Final = """jsonb_to_recordset(a.history) AS h (
    seq bigint, at timestamptz, event text, text text, previous smallint, phase smallint, reason_code text,
    cluster text, attempt integer, other uuid)"""
"""The entries of the history of row a."""
_SPEC: Final = """LATERAL (
    SELECT w.spec, w.effective_spec, w.issues, w.owner, w.origin, w.caused_by, w.asked_cluster) s"""
SOURCE: Final = f"archive w CROSS JOIN {_SPEC}"
"""The replacement of views.SOURCE for the archive."""
BY_ID: Final = f"SELECT {views.COLUMNS} FROM {SOURCE} WHERE w.id = $1"  # noqa: S608 - constants only
_DELETED: Final = 15
_DUE: Final = """
SELECT id, coalesce(finished_at, created_at) AS ended_at FROM workloads
WHERE ended AND coalesce(finished_at, created_at) < $1
ORDER BY coalesce(finished_at, created_at) LIMIT $2 FOR UPDATE SKIP LOCKED
"""
_MOVE: Final = """
INSERT INTO archive (
    id, ended_at, archived_at, project, name, kind, phase, last_phase, desired, reason_code, reason_message,
    reason_other, generation, attempt, cluster, node_pool, verdict, judged, status, created_at, started_at, finished_at,
    deleted_at, delete_at, moved_at, pods, submitted_by, spec, effective_spec, issues, owner, origin, caused_by,
    asked_cluster, template_id, template_version, gpu_seconds, history)
SELECT w.id, coalesce(w.finished_at, w.created_at), $2, w.project, w.name, w.kind, w.phase, l.phase, w.desired,
       w.reason_code, w.reason_message, w.reason_other, w.generation, w.attempt, w.cluster, w.node_pool, w.verdict,
       w.judged, w.status, w.created_at, w.started_at, w.finished_at, nullif(l.deleted_at, '-infinity'),
       coalesce(w.finished_at, w.created_at) + make_interval(secs => nullif(d.seconds, -1)), l.moved_at,
       l.pods, l.submitted_by, s.spec, s.effective_spec, s.issues, s.owner, s.origin, s.caused_by, s.asked_cluster,
       s.template_id, s.template_version, coalesce(u.gpu_seconds, 0), coalesce(h.history, '[]')
FROM unnest($1::uuid[], $3::bigint[]) AS d (id, seconds)
JOIN workloads w ON w.id = d.id
JOIN workload_list l ON l.id = w.id
JOIN workload_specs s ON s.workload_id = w.id
LEFT JOIN usage u ON u.workload_id = w.id
LEFT JOIN LATERAL (
    SELECT jsonb_agg(to_jsonb(e) - 'workload_id' ORDER BY e.seq) AS history
    FROM workload_history e WHERE e.workload_id = w.id
) h ON true
RETURNING id::text AS id
"""
_LEAVE: Final = tuple(
    f"DELETE FROM {table} WHERE {column} = ANY ($1::uuid[])"  # noqa: S608 - constants of this file
    for table, column in (
        ("workload_list", "id"),
        ("workload_specs", "workload_id"),
        ("workload_history", "workload_id"),
        ("usage", "workload_id"),
        ("secrets", "holder"),
        ("applied", "workload_id"),
        ("workloads", "id"),
    )
)
_KNOWN: Final = "SELECT id::text AS id, phase = $2 AS deleted FROM archive WHERE id = ANY ($1::uuid[])"
_DELETE: Final = """
UPDATE archive SET phase = $3, deleted_at = $2, moved_at = $2 WHERE id = ANY ($1::uuid[]) AND phase <> $3
"""
_SPECS: Final = """
SELECT workload_id::text AS id, effective_spec FROM workload_specs WHERE workload_id = ANY ($1::uuid[])
"""
# A constant in the text, not a parameter: PostgreSQL needs it to use the partial index of rows that are not Deleted.
_DELETE_DUE: Final = f"""
UPDATE archive SET phase = $3, deleted_at = $1, moved_at = $1 WHERE (id, ended_at) IN (
    SELECT id, ended_at FROM archive WHERE delete_at <= $1 AND phase <> {_DELETED} ORDER BY delete_at LIMIT $2)
"""  # noqa: S608 - constants only
_PARTITIONS: Final = """
SELECT c.relname AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'archive'::regclass ORDER BY c.relname
"""
_REMOVE: Final = """
DELETE FROM archive WHERE (id, ended_at) IN (
    SELECT id, ended_at FROM archive WHERE ended_at < $1 ORDER BY ended_at LIMIT $2)
"""
_PAGE: Final = f"""
SELECT {views.COLUMNS}, w.ended_at FROM {SOURCE}
WHERE w.ended_at >= $1 AND w.ended_at < $2 AND (w.ended_at, w.id) < ($3, $4::uuid) AND ($5 = '' OR w.name = $5)
  AND ($6 OR w.phase <> {_DELETED})
ORDER BY w.ended_at DESC, w.id DESC LIMIT $7
"""  # noqa: S608 - constants only
# The newest rows of each project: a filter over the newest of all would scan the archive for a project with few.
_PAGE_OF_PROJECTS: Final = f"""
SELECT {views.COLUMNS}, w.ended_at
FROM unnest($8::text[]) AS p (project) CROSS JOIN LATERAL (
    SELECT * FROM archive a
    WHERE a.project = p.project AND a.ended_at >= $1 AND a.ended_at < $2 AND (a.ended_at, a.id) < ($3, $4::uuid)
      AND ($5 = '' OR a.name = $5) AND ($6 OR a.phase <> {_DELETED})
    ORDER BY a.ended_at DESC, a.id DESC LIMIT $7
) w CROSS JOIN {_SPEC}
ORDER BY w.ended_at DESC, w.id DESC LIMIT $7
"""  # noqa: S608 - constants only
_LAST_ID: Final = "ffffffff-ffff-ffff-ffff-ffffffffffff"
BEGINNING: Final = datetime.min.replace(tzinfo=UTC)
END: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A selection of archived workloads. projects: None for all; name: an exact name, '' for all."""

    projects: frozenset[str] | None = None
    name: str = ""
    since: datetime = BEGINNING
    before: datetime = END
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """A position in the order of pages: the end time of a row, and its id."""

    ended_at: datetime = END
    id: str = _LAST_ID


class PostgresArchive:
    """The archive: moves into it, reads and removals."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def page(self, wanted: Wanted, size: int, after: Place) -> list[tuple[Workload, Place]]:
        """Return the workloads after a place, with their own places; the latest end comes first."""
        values: list[Any] = [
            wanted.since, wanted.before, after.ended_at, after.id, wanted.name, wanted.deleted, size,
        ]  # fmt: skip
        query = _PAGE
        if wanted.projects is not None:
            query = _PAGE_OF_PROJECTS
            values.append(sorted(wanted.projects))
        rows = await self._pool.fetch(query, *values)
        return [(views.workload(row), Place(row["ended_at"], row["id"])) for row in rows]

    async def show(self, unit: Unit, workload_id: str) -> Workload | None:
        """Return an archived workload as users see it; None if the archive does not have it."""
        row = await unit.connection.fetchrow(BY_ID, workload_id)
        return None if row is None else views.workload(row)

    async def delete(self, unit: Unit, workload_ids: Iterable[str]) -> None:
        """Mark archived workloads as Deleted."""
        await unit.connection.execute(_DELETE, list(workload_ids), unit.now, _DELETED)

    async def known(self, unit: Unit, workload_ids: Iterable[str]) -> frozenset[str]:
        """Return those of these workloads that are archived."""
        rows = await unit.connection.fetch(_KNOWN, list(workload_ids), _DELETED)
        return frozenset(row["id"] for row in rows)

    async def standing(self, workload_ids: Sequence[str]) -> dict[str, bool]:
        """Return, for each of these workloads that is archived, whether it is Deleted."""
        rows = await self._pool.fetch(_KNOWN, list(workload_ids), _DELETED)
        return {row["id"]: row["deleted"] for row in rows}

    async def due(self, unit: Unit, before: datetime, at_most: int) -> dict[str, datetime]:
        """Lock and return some workloads that ended before a given time: id to end time."""
        rows = await unit.connection.fetch(_DUE, before, at_most)
        return {str(row["id"]): row["ended_at"] for row in rows}

    async def move(self, unit: Unit, workload_ids: Sequence[str]) -> None:
        """Move locked rows into the archive, which frees their names. Their partitions must exist."""
        specs = await unit.connection.fetch(_SPECS, workload_ids)
        after = {row["id"]: _deleted_after(row["effective_spec"]) for row in specs}
        seconds = [after.get(one, -1) for one in workload_ids]
        moved = [row["id"] for row in await unit.connection.fetch(_MOVE, workload_ids, unit.now, seconds)]
        for statement in _LEAVE:
            await unit.connection.execute(statement, moved)
        unit.mark_ended(moved)  # one that ended under an older release is not marked yet

    async def delete_due(self, connection: AnyConnection, now: datetime, at_most: int) -> int:
        """Mark some workloads as Deleted whose automatic deletion is due, and return their number."""
        status: str = await connection.execute(_DELETE_DUE, now, at_most, _DELETED)
        return affected(status)

    async def oldest_due(self) -> datetime | None:
        """Return the end time of the workload that has waited longest for its move."""
        found: datetime | None = await self._pool.fetchval(
            "SELECT coalesce(finished_at, created_at) FROM workloads WHERE ended "
            "ORDER BY coalesce(finished_at, created_at) LIMIT 1"
        )
        return found

    async def partitions(self, connection: AnyConnection) -> list[Month]:
        """Return the months that have a partition in the archive, the oldest first."""
        rows = await connection.fetch(_PARTITIONS)
        return [month for row in rows if (month := Month.of_partition(row["name"])) is not None]

    async def make_partition(self, connection: AnyConnection, month: Month) -> None:
        """Create a table, then attach it as the partition of a month: users of other partitions do not have to wait."""
        name = partition(month)
        async with connection.transaction():
            await connection.execute(f"CREATE TABLE {name} (LIKE archive INCLUDING DEFAULTS INCLUDING CONSTRAINTS)")
            await connection.execute(
                f"ALTER TABLE archive ATTACH PARTITION {name} "
                f"FOR VALUES FROM ('{month.begin.isoformat()}') TO ('{month.end.isoformat()}')"
            )

    async def drop_partition(self, connection: AnyConnection, month: Month) -> None:
        """Drop the partition of a month with all its rows."""
        name = partition(month)
        async with connection.transaction():
            # Wait for a reader only a short time: others wait behind this lock. A later round tries again.
            await connection.execute("SET LOCAL lock_timeout = '2s'")
            await connection.execute(f"ALTER TABLE archive DETACH PARTITION {name}")
            await connection.execute(f"DROP TABLE {name}")

    async def remove(self, connection: AnyConnection, before: datetime, at_most: int) -> int:
        """Remove some workloads that ended before a given time, and return their number."""
        status: str = await connection.execute(_REMOVE, before, at_most)
        return affected(status)


def _deleted_after(effective_spec: bytes | None) -> int:
    """Return the seconds from the end of a workload to its automatic deletion; -1 for never."""
    if effective_spec is None:
        return -1
    spec = WorkloadSpec.FromString(effective_spec)
    return spec.auto_deletion_seconds if spec.HasField("auto_deletion_seconds") else -1
