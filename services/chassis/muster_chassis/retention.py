"""What is kept, and for how long: the eternal task that keeps the chassis's tables bounded.

Run by each service with a database. Every deletion is a small transaction of its own, so that nothing waits for it.
The service says which aggregates are over: only it knows when a workload was Deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final

import asyncpg

from muster_chassis import identity, logs, metrics
from muster_chassis.database import TRANSIENT, Database

_log = logs.get(__name__)
_INTERVAL: Final = 60.0
_ROWS: Final = 2000
_BATCHES: Final = 50  # a round's bound: what is left waits for the next one

Ended = Callable[[], Awaitable[Sequence[str]]]
"""Aggregates that are over, at most some thousands a call; called again in the next round for more."""

_AGED: Final = (
    ("inbox", "at", timedelta(days=14)),
    ("commits", "at", timedelta(days=1)),
    ("idempotency", "at", timedelta(hours=24)),
    ("parked", "done_at", timedelta(days=7)),
)
_PUBLISHED: Final = (
    # Never what is not sent yet: beyond the relay's position, or of a topic that waits.
    "id <= (SELECT coalesce(min(p.last), 0) FROM relay_positions p WHERE p.lane = o.lane) AND NOT EXISTS ("
    "SELECT 1 FROM relay_lanes l WHERE l.lane = o.lane AND l.topic = o.topic AND l.last < o.id)"
)
_SUPERSEDED: Final = f"""
(o.lane = 1 OR o.topic IN ('muster.tenancy', 'muster.advice')) AND o.{_PUBLISHED} AND EXISTS (
    SELECT 1 FROM outbox n WHERE n.topic = o.topic AND n.aggregate = o.aggregate AND n.id > o.id)
"""  # noqa: S608 - constants of this file
REMOVED = metrics.counter(
    "muster_rows_removed_total",
    unit="rows",
    meaning="Rows removed because their time was over, by table.",
    action="None needed; flat for days while the service works: look for errors of the retention task in the log.",
    labels=("table",),
)


class Retention:
    """Keeps the tables of one service bounded.

    deletable: aggregates whose outbox rows may go (Deleted for 7 days). forgotten: those whose version numbers may go
    as well (7 days later, when no copy of their events can be on the bus or in another outbox any more).
    """

    def __init__(self, database: Database, *, deletable: Ended | None = None, forgotten: Ended | None = None) -> None:
        self._database = database
        self._deletable = deletable
        self._forgotten = forgotten

    async def run(self) -> None:
        """One round a minute, for ever. An eternal task."""
        while True:
            try:
                await self.round()
            except (*TRANSIENT, asyncpg.PostgresError, TimeoutError) as error:
                _log.warning("rows could not be removed, tried again in a minute", error=repr(error))
            await asyncio.sleep(_INTERVAL)

    async def round(self) -> None:
        """Removes what is over now."""
        now = identity.now()
        for table, column, age in _AGED:
            await self._remove(table, f"o.{column} < $1", now - age)
        await self._remove("outbox", f"o.version = 0 AND o.created < $1 AND o.{_PUBLISHED}", now - timedelta(days=7))
        await self._remove("outbox", _SUPERSEDED)
        if self._deletable is not None and (ended := await self._deletable()):
            await self._remove("outbox", f"o.aggregate = ANY($1::text[]) AND o.{_PUBLISHED}", list(ended))
        if self._forgotten is not None and (ended := await self._forgotten()):
            for table in ("aggregate_versions", "seen_versions"):
                await self._remove(table, "o.aggregate = ANY($1::text[])", list(ended))

    async def _remove(self, table: str, condition: str, *arguments: object) -> None:
        sql = (
            f"DELETE FROM {table} WHERE ctid = ANY(ARRAY("  # noqa: S608 - constants of this file
            f"SELECT o.ctid FROM {table} o WHERE {condition} LIMIT {_ROWS}))"
        )
        for _ in range(_BATCHES):
            status = await self._database.pool.execute(sql, *arguments)
            count = int(status.rpartition(" ")[2])
            REMOVED.labels(table).inc(count)
            if count < _ROWS:
                return
