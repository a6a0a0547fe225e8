"""What people read: one workload, a page of them, a stretch of the change log. Outside of transactions.

A page and the log's head beside it come from one snapshot: that is what lets a watch go on after a page without a gap
and without showing a workload fall back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import asyncpg

from muster.workload.v1.workload_pb2 import Workload
from muster_submission.adapters import archive, views
from muster_submission.adapters.lists import Lists
from muster_submission.adapters.places import DirectoryBooks
from muster_submission.adapters.views import ChangeRow
from muster_submission.domain.cursors import Reach
from muster_submission.domain.filters import Filter
from muster_submission.domain.others import Other
from muster_submission.domain.progress import NOT_JUDGED

_HEAD: Final = "SELECT greatest((SELECT max(seq) FROM changes), (SELECT seq FROM changes_floor)) AS head"
_REACH: Final = "SELECT seq AS floor, greatest((SELECT max(seq) FROM changes), seq) AS head FROM changes_floor"
_BY_ID: Final = f"SELECT {views.COLUMNS} FROM {views.SOURCE} WHERE w.id = $1"  # noqa: S608 - constants only
_BY_IDS: Final = f"SELECT {views.COLUMNS} FROM {views.SOURCE} WHERE w.id = ANY ($1)"  # noqa: S608 - constants only
# The one that holds the name, else the newest of those that have let it go.
_BY_NAME: Final = (
    f"SELECT {views.COLUMNS} FROM {views.SOURCE} "  # noqa: S608 - constants only
    "WHERE w.project = $1 AND w.name = $2 ORDER BY w.held DESC, w.id DESC LIMIT 1"
)
_JUDGED: Final = "SELECT id::text AS id, judged FROM workloads WHERE id = ANY ($1)"
_HELD: Final = """
SELECT project, name FROM workloads w JOIN unnest($1::text[], $2::text[]) AS asked (project, name) USING (project, name)
WHERE w.held
"""
_LISTED: Final = f"""
SELECT {views.COLUMNS}, s.asked_cluster, l.moved_at, nullif(l.deleted_at, '-infinity') AS deleted_at, l.gpus, l.pods,
       l.phase AS last_phase
FROM {views.SOURCE} JOIN workload_list l ON l.id = w.id WHERE w.id = ANY ($1)
"""  # noqa: S608 - constants only
_HAPPENED: Final = f"""
SELECT h.seq, h.at, h.event, h.text, h.previous, h.phase, h.reason_code, h.cluster, h.attempt, {views.OTHER_COLUMNS}
FROM workload_history h LEFT JOIN workloads o ON o.id = h.other
WHERE h.workload_id = $1
"""  # noqa: S608 - constants only
_HISTORY: Final = f"{_HAPPENED} ORDER BY h.seq DESC OFFSET $2 LIMIT $3"
_BEFORE: Final = f"{_HAPPENED} AND h.seq < $2 ORDER BY h.seq DESC LIMIT $3"
_RUNS: Final = f"{_HAPPENED} AND (h.event = 'WorkloadPlaced' OR h.previous <> h.phase) ORDER BY h.seq DESC LIMIT $2"
_OTHERS: Final = f"""
SELECT w.id::text AS id, {views.OTHER_COLUMNS} FROM workloads w JOIN workloads o ON o.id = w.reason_other
WHERE w.id = ANY ($1)
"""  # noqa: S608 - constants only
# The same questions to the archive.
_ARCHIVED_BY_IDS: Final = f"SELECT {views.COLUMNS} FROM {archive.SOURCE} WHERE w.id = ANY ($1)"  # noqa: S608 - constants only
_ARCHIVED_BY_NAME: Final = (
    f"SELECT {views.COLUMNS} FROM {archive.SOURCE} "  # noqa: S608 - constants only
    "WHERE w.project = $1 AND w.name = $2 ORDER BY w.ended_at DESC, w.id DESC LIMIT 1"
)
_ARCHIVED_LISTED: Final = f"""
SELECT {views.COLUMNS}, s.asked_cluster, w.moved_at, w.deleted_at, 0::bigint AS gpus, w.pods, w.last_phase
FROM {archive.SOURCE} WHERE w.id = ANY ($1)
"""  # noqa: S608 - constants only
_IN_ARCHIVE: Final = f"""
(SELECT h.*, a.id AS workload_id FROM archive a CROSS JOIN LATERAL {archive.HISTORY} WHERE a.id = $1)
"""  # noqa: S608 - constants only
_CHANGES: Final = f"""
SELECT c.seq, c.workload_id::text AS workload_id, c.project, c.name, c.kind, c.event, c.text, c.previous, c.phase,
       c.desired, c.reason_code, c.reason_message, c.generation, c.attempt, c.cluster, c.node_pool,
       {views.OTHER_COLUMNS}
FROM changes c LEFT JOIN workloads o ON o.id = c.other WHERE c.seq > $1 ORDER BY c.seq LIMIT $2
"""  # noqa: S608 - constants only
_PRUNE: Final = """
WITH old AS (
    SELECT seq FROM changes WHERE seq <= (SELECT min(seq) + $2 FROM changes) AND at < $1::timestamptz ORDER BY seq
), gone AS (
    DELETE FROM changes c USING old WHERE c.seq = old.seq RETURNING c.seq
)
UPDATE changes_floor SET seq = greatest(changes_floor.seq, (SELECT max(seq) FROM gone))
WHERE EXISTS (SELECT 1 FROM gone) RETURNING seq
"""
_FORGET: Final = """
WITH old AS (
    SELECT workload_id, seq FROM workload_history WHERE at < $1::timestamptz ORDER BY at LIMIT $2
), gone AS (
    DELETE FROM workload_history h USING old WHERE h.workload_id = old.workload_id AND h.seq = old.seq RETURNING 1
)
SELECT 1 FROM gone LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of workloads, newest first; `head`: how far the change log was; `full`: more may follow."""

    workloads: list[Workload]
    head: int
    full: bool

    @property
    def last(self) -> str:
        """The id with which the page ends."""
        return self.workloads[-1].id if self.workloads else ""


@dataclass(frozen=True, slots=True)
class Listed:
    """A workload with what only lists show. `last_phase`: a deleted one keeps the phase that it had before."""

    workload: Workload
    asked_cluster: str
    moved_at: datetime
    deleted_at: datetime | None
    gpus: int
    last_phase: int


@dataclass(frozen=True, slots=True)
class Happened:
    """One entry of a workload's history. other: the workload that its text is about."""

    seq: int
    at: datetime
    event: str
    text: str
    previous: int
    phase: int
    reason: str
    cluster: str
    attempt: int = 0
    other: Other | None = None


class Reading:
    """Questions to the read model."""

    def __init__(self, pool: asyncpg.Pool, directory: DirectoryBooks) -> None:
        self._pool = pool
        self.directory = directory
        self.lists = Lists(pool)

    async def by_id(self, workload_id: str) -> Workload | None:
        """The workload with that id."""
        row = await self._pool.fetchrow(_BY_ID, workload_id)
        row = row or await self._pool.fetchrow(archive.BY_ID, workload_id)
        return None if row is None else views.workload(row)

    async def with_verdict(self, workload_id: str, generation: int = 1) -> tuple[Workload | None, int]:
        """The workload, and policy's verdict; NOT_JUDGED while `generation` of it waits for one."""
        row = await self._pool.fetchrow(_BY_ID, workload_id)
        if row is None:
            return None, NOT_JUDGED
        return views.workload(row), row["verdict"] if row["judged"] >= generation else NOT_JUDGED

    async def judged(self, ids: Sequence[str]) -> dict[str, int]:
        """The highest generation that policy has judged, of those workloads that exist."""
        return {row["id"]: row["judged"] for row in await self._pool.fetch(_JUDGED, ids)}

    async def by_name(self, project: str, name: str) -> Workload | None:
        """The workload that holds the name, else the newest that had it."""
        row = await self._pool.fetchrow(_BY_NAME, project, name)
        row = row or await self._pool.fetchrow(_ARCHIVED_BY_NAME, project, name)
        return None if row is None else views.workload(row)

    async def held(self, names: Collection[tuple[str, str]]) -> frozenset[tuple[str, str]]:
        """Those (project, name) that a workload has now."""
        projects, wanted = [project for project, _ in names], [name for _, name in names]
        return frozenset((row["project"], row["name"]) for row in await self._pool.fetch(_HELD, projects, wanted))

    async def by_ids(self, ids: Iterable[str]) -> dict[str, Workload]:
        """Those that exist, by id."""
        asked = list(ids)
        found = {row["id"]: views.workload(row) for row in await self._pool.fetch(_BY_IDS, asked)}
        if missing := [one for one in asked if one not in found]:
            rows = await self._pool.fetch(_ARCHIVED_BY_IDS, missing)
            found |= {row["id"]: views.workload(row) for row in rows}
        return found

    async def page(self, wanted: Filter, size: int, after: str = "") -> Page:
        """The `size` newest workloads in view that are older than `after` ('' for the first page)."""
        async with self._pool.acquire() as connection, connection.transaction(isolation="repeatable_read"):
            found = [await Lists(connection).ids(asked) for asked in wanted.questions(size, after)]
            newest = sorted({one for some in found for one in some}, reverse=True)[:size]
            head = await connection.fetchval(_HEAD)
            rows = await connection.fetch(_BY_IDS, newest)
        shown = {row["id"]: views.workload(row) for row in rows}
        return Page([shown[one] for one in newest if one in shown], head, len(newest) == size)

    async def listed(self, ids: Sequence[str]) -> list[Listed]:
        """These workloads with what lists show, in the order of the ids; one that is gone meanwhile is left out."""
        found = {row["id"]: row for row in await self._pool.fetch(_LISTED, ids)}
        if missing := [one for one in ids if one not in found]:
            found |= {row["id"]: row for row in await self._pool.fetch(_ARCHIVED_LISTED, missing)}
        return [_listed(found[one]) for one in ids if one in found]

    async def history(self, workload_id: str, offset: int, limit: int) -> list[Happened]:
        """What happened to a workload, newest first; its beginning is not among it."""
        return await self._happened(_HISTORY, workload_id, offset, limit)

    async def history_before(self, workload_id: str, seq: int, limit: int) -> list[Happened]:
        """The same, of what comes before the entry `seq`: a page that new entries do not move."""
        return await self._happened(_BEFORE, workload_id, seq, limit)

    async def runs(self, workload_id: str, limit: int) -> list[Happened]:
        """The newest entries in which it got a place or entered another phase, oldest first."""
        return (await self._happened(_RUNS, workload_id, limit))[::-1]

    async def _happened(self, query: str, workload_id: str, *values: int) -> list[Happened]:
        """Entries of a history; where there is none, those that went into the archive with their workload."""
        found = await self._pool.fetch(query, workload_id, *values)
        if not found:
            found = await self._pool.fetch(
                query.replace("workload_history h", f"{_IN_ARCHIVE} h"), workload_id, *values
            )
        return [_happened(row) for row in found]

    async def others(self, ids: Iterable[str]) -> dict[str, Other]:
        """By workload the one that its reason is about, where it is about one that is known."""
        rows = await self._pool.fetch(_OTHERS, list(ids))
        return {row["id"]: other for row in rows if (other := views.other(row))}

    async def reach(self) -> Reach:
        """What the change log holds."""
        (row,) = await self._pool.fetch(_REACH)  # changes_floor has one row
        return Reach(row["floor"], row["head"])

    async def changes(self, after: int, limit: int) -> Sequence[ChangeRow]:
        """The next entries of the change log."""
        rows = await self._pool.fetch(_CHANGES, after, limit)
        return [ChangeRow(row["seq"], row["workload_id"], row) for row in rows]

    async def prune(self, before: Any, at_most: int) -> bool:
        """Drops entries older than `before`, a bounded number of the oldest. Returns whether anything went."""
        return await self._pool.fetchval(_PRUNE, before, at_most) is not None

    async def forget(self, before: Any, at_most: int) -> bool:
        """Drops what histories hold from before a moment, a bounded number. Returns whether anything went."""
        return await self._pool.fetchval(_FORGET, before, at_most) is not None


def _happened(row: Any) -> Happened:
    return Happened(
        row["seq"],
        row["at"],
        row["event"],
        row["text"],
        row["previous"],
        row["phase"],
        row["reason_code"],
        row["cluster"],
        row["attempt"],
        views.other(row),
    )


def _listed(row: Any) -> Listed:
    return Listed(
        views.workload(row), row["asked_cluster"], row["moved_at"], row["deleted_at"], row["gpus"], row["last_phase"]
    )
