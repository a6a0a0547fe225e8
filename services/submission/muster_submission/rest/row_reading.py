"""Rows of lists from the tables: what moves is read each time, what lasts is read and written once and kept.

Made once a process by the routes of lists. Holds: what is kept is found by the workload, its generation and the last
generation that policy has judged, so that a row is never older than its verdict; at most KEPT of them are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

import asyncpg

from muster_submission.adapters import views
from muster_submission.rest.workload_rows import Lasting, Rows, lasting_of

KEPT: Final = 10_000
MOVING: Final = f"""
SELECT w.id::text AS id, w.project, w.phase, w.reason_code, w.reason_message, w.generation, w.attempt, w.cluster,
       w.node_pool, w.judged, w.status, w.finished_at, l.moved_at, nullif(l.deleted_at, '-infinity') AS deleted_at,
       l.gpus, l.phase AS last_phase, {views.OTHER_COLUMNS}
FROM workloads w JOIN workload_list l ON l.id = w.id LEFT JOIN workloads o ON o.id = w.reason_other
WHERE w.id = ANY ($1)
"""  # noqa: S608 - constants only
LASTING: Final = """
SELECT w.id::text AS id, w.name, w.kind, w.created_at, s.spec, s.effective_spec, s.owner, s.origin, s.caused_by,
       s.asked_cluster, s.issues
FROM workloads w JOIN workload_specs s ON s.workload_id = w.id WHERE w.id = ANY ($1)
"""
_Key = tuple[str, int, int]


class RowReading:
    """Reads rows."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._kept: OrderedDict[_Key, Lasting] = OrderedDict()

    async def rows(self, ids: Sequence[str], rows: Rows) -> list[bytes]:
        """The rows of these workloads as JSON, in their order; one that is gone meanwhile is left out."""
        if not ids:
            return []
        moving = {row["id"]: row for row in await self._pool.fetch(MOVING, ids)}
        await self._keep([row for row in moving.values() if _key(row) not in self._kept])
        told = []
        for one in ids:
            row = moving.get(one)
            lasting = None if row is None else self._kept.get(_key(row))
            if lasting is not None:
                self._kept.move_to_end(_key(row))
                told.append(rows.row(row, lasting))
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return told

    async def _keep(self, missing: Sequence[Any]) -> None:
        if not missing:
            return
        keys = {row["id"]: _key(row) for row in missing}
        for row in await self._pool.fetch(LASTING, list(keys)):
            self._kept[keys[row["id"]]] = lasting_of(row)


def _key(row: Any) -> _Key:
    return row["id"], row["generation"], row["judged"]
