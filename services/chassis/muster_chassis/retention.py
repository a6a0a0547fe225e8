"""Retention: the eternal task that keeps the chassis's tables bounded.

Each service with a database runs it; one instance of a service works at a time. A service marks with `Unit.mark_ended`
which aggregates are over, because only the service knows when a workload was Deleted.

1. Remove rows that expire by age: inbox, commits, idempotency keys, handled dead letters, unversioned outbox rows.
2. On topics where only the newest record of an aggregate counts, remove an outbox row once a newer one is published.
3. Remove the outbox rows of an aggregate one retention (7 days) after its end. Remove all other rows of it after one
   more retention, when no copy of its events can be on the bus or in another outbox.

Holds: the cost of a step does not depend on how much is kept, because each step reads an index from where its rows are
due. A row that may not be removed yet delays no other row. Each deletion is a small transaction, and the task rests
after each one (see `paced`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, TypeVar

import asyncpg

from muster_chassis import identity, logs, metrics
from muster_chassis.connection import AnyConnection, affected
from muster_chassis.database import TRANSIENT, Database
from muster_chassis.gaps import OPEN, gaps_of
from muster_chassis.topics import ADVICE, TENANCY
from muster_chassis.unit import ASSIGNMENTS

_log = logs.get(__name__)
_INTERVAL: Final = 60.0
_ROWS: Final = 2000
_AGGREGATES: Final = 500
_OUTBOX_ROWS: Final = 20_000
"""What a statement removes well within its time limit; 500 aggregates have 5,000 rows as a rule."""
_REST: Final = 3.0
"""Rest of upkeep for each second of work. With 1 it took 1,300 workloads a second away, and halved placements."""
_LONGEST_PAUSE: Final = 5.0
_BEGINNING: Final = datetime.min.replace(tzinfo=UTC)

T = TypeVar("T")
Forget = Callable[[AnyConnection, Sequence[str]], Awaitable[object]]
"""A function that removes a service's own rows of aggregates, in the transaction that removes their version numbers."""
Step = Callable[[AnyConnection], Awaitable[bool]]
"""A function that removes some rows and returns whether there may be more."""

_AGED: Final = (
    # Table, column, the number of retentions for which a row is kept, and the longest time.
    ("inbox", "at", 2, timedelta.max),
    ("commits", "at", 1, timedelta(days=1)),
    ("idempotency", "at", 1, timedelta(days=1)),
    ("parked", "done_at", 1, timedelta.max),
)
_NEWEST_COUNTS: Final = (TENANCY.name, ADVICE.name)
_LOCK: Final = "SELECT pg_try_advisory_lock(hashtextextended(current_schema() || '.retention', 0))"
_UNLOCK: Final = "SELECT pg_advisory_unlock(hashtextextended(current_schema() || '.retention', 0))"
# After a change of Kafka, a relay that still works on the previous cluster may store its position once more.
_OTHER_BUSES: Final = (
    "DELETE FROM acknowledged_offsets WHERE bus <> (SELECT cluster_id FROM bus_identity)",
    "DELETE FROM relay_positions WHERE bus <> (SELECT cluster_id FROM bus_identity)",
    "DELETE FROM relay_lanes WHERE bus <> (SELECT cluster_id FROM bus_identity)",
)
_PUBLISHED: Final = """(
    o.id <= (SELECT coalesce(max(p.last), 0) FROM relay_positions p JOIN bus_identity b ON b.cluster_id = p.bus
             WHERE p.lane = o.lane)
    AND NOT EXISTS (SELECT 1 FROM relay_lanes l JOIN bus_identity b ON b.cluster_id = l.bus
                    WHERE l.lane = o.lane AND l.topic = o.topic AND l.last < o.id))"""
_UNVERSIONED: Final = f"""
DELETE FROM outbox WHERE id = ANY(ARRAY(
    SELECT o.id FROM outbox o WHERE o.version = 0 AND o.created < $1 AND {_PUBLISHED} ORDER BY o.created LIMIT $2))
"""  # noqa: S608 - constants of this file
# Ids follow the order of commits, so no row appears before the position later.
_SUPERSEDED: Final = f"""
WITH looked AS (
    SELECT id, lane, topic, aggregate FROM outbox
    WHERE id > (SELECT coalesce(max(position), 0) FROM retention_positions WHERE name = 'superseded')
      AND id <= (SELECT min(p.last) FROM relay_positions p JOIN bus_identity b ON b.cluster_id = p.bus)
    ORDER BY id LIMIT $1
), newest AS (
    SELECT topic, aggregate, max(id) AS id FROM looked WHERE lane = $2 OR topic = ANY($3) GROUP BY topic, aggregate
), removed AS (
    DELETE FROM outbox o USING newest n
    WHERE o.aggregate = n.aggregate AND o.topic = n.topic AND o.id < n.id AND {_PUBLISHED} RETURNING o.id
), moved AS (
    INSERT INTO retention_positions AS r (name, position)
    SELECT 'superseded', max(id) FROM looked HAVING max(id) IS NOT NULL
    ON CONFLICT (name) DO UPDATE SET position = excluded.position
)
SELECT (SELECT count(*) FROM looked) AS looked, (SELECT count(*) FROM removed) AS removed
"""  # noqa: S608 - constants of this file
_OUTBOX_OF_ENDED: Final = f"""
WITH due AS (
    SELECT aggregate, at FROM ended_aggregates
    WHERE NOT outbox_removed AND at < $1 AND (at, aggregate) > ($2, $3) ORDER BY at, aggregate LIMIT $4
), removed AS (
    DELETE FROM outbox WHERE id = ANY(ARRAY(
        SELECT o.id FROM due d JOIN outbox o ON o.aggregate = d.aggregate WHERE {_PUBLISHED} LIMIT $5)) RETURNING id
), kept AS (
    SELECT DISTINCT d.aggregate FROM due d JOIN outbox o ON o.aggregate = d.aggregate
    WHERE NOT EXISTS (SELECT 1 FROM removed r WHERE r.id = o.id)
), done AS (
    UPDATE ended_aggregates e SET outbox_removed = true FROM due d
    WHERE e.aggregate = d.aggregate AND d.aggregate NOT IN (SELECT aggregate FROM kept)
)
SELECT at, aggregate, (SELECT count(*) FROM removed) AS removed FROM due ORDER BY at, aggregate
"""  # noqa: S608 - constants of this file
# A row that was written after the end, such as the release of a cluster that returned, may wait for its topic.
_FORGOTTEN: Final = f"""
DELETE FROM ended_aggregates WHERE aggregate = ANY(ARRAY(
    SELECT e.aggregate FROM ended_aggregates e WHERE e.outbox_removed AND e.at < $1 AND NOT EXISTS (
        SELECT 1 FROM outbox o WHERE o.aggregate = e.aggregate AND NOT {_PUBLISHED})
    ORDER BY e.at, e.aggregate LIMIT $2))
RETURNING aggregate
"""  # noqa: S608 - constants of this file
_OVERDUE: Final = "SELECT min(at) FROM ended_aggregates WHERE NOT outbox_removed"

REMOVED = metrics.counter(
    "muster_rows_removed_total",
    unit="rows",
    meaning="Rows removed because their time was over, by table.",
    action="None needed; flat for days while the service works: look for errors of the retention task in the log.",
    labels=("table",),
)
OVERDUE = metrics.gauge(
    "muster_rows_overdue_seconds",
    unit="seconds",
    meaning="For how long the rows of the oldest aggregate that is over should have been gone.",
    action="Above an hour: a topic waits (muster_outbox_waiting), or PostgreSQL is too slow to delete what ends.",
)


class Retention:
    """The retention of one service's tables. forget: removes the service's own rows of forgotten aggregates."""

    def __init__(self, database: Database, *, forget: Forget | None = None) -> None:
        self._database = database
        self._forget = forget

    async def run(self) -> None:
        """Run one round a minute, for ever. An eternal task."""
        while True:
            try:
                await self.round()
            except (*TRANSIENT, asyncpg.PostgresError, TimeoutError) as error:
                _log.warning("rows could not be removed; the next attempt is in a minute", error=repr(error))
            await asyncio.sleep(_INTERVAL)

    async def round(self) -> None:
        """Remove all rows that are due now, unless another instance is doing so."""
        async with self._database.acquired() as connection:
            if not await connection.fetchval(_LOCK):
                return
            try:
                await self._remove_all(connection, identity.now())
            finally:
                if not connection.is_closed():
                    await connection.execute(_UNLOCK)

    async def _remove_all(self, connection: AnyConnection, now: datetime) -> None:
        for statement in _OTHER_BUSES:
            await connection.execute(statement)
        kept = self._database.settings.retention
        steps: list[Step] = [
            *(_Aged(table, column, now - min(times * kept, most)).step for table, column, times, most in _AGED),
            _Unversioned(now - kept).step,
            _Aged("republications", "done_at", now - min(kept, timedelta(days=1))).step,
            _superseded,
            _OutboxOfEnded(now - kept).step,
            _Forgotten(now - 2 * kept, self._forget).step,
        ]
        while steps:  # in turn, so that a long backlog of one step delays no other step
            steps = [step for step in steps if await _tried(step, connection)]
        OPEN.set((await gaps_of(connection, self._database.source)).total)
        oldest = await connection.fetchval(_OVERDUE)
        OVERDUE.set(0.0 if oldest is None else max(0.0, (now - kept - oldest).total_seconds()))


async def _tried(step: Step, connection: AnyConnection) -> bool:
    """Run one step. One that is too slow ends for this round, and delays no other step."""
    try:
        return await paced(partial(step, connection))
    except (asyncpg.QueryCanceledError, TimeoutError) as error:
        _log.warning("rows could not be removed in time; the next attempt is in a minute", error=repr(error))
        return False


async def paced(step: Callable[[], Awaitable[T]]) -> T:
    """Run one step of upkeep and rest three times as long, at most 5 s: users' statements need the same disk."""
    began = time.monotonic()
    done = await step()
    await asyncio.sleep(min(_REST * (time.monotonic() - began), _LONGEST_PAUSE))
    return done


class _Aged:
    """Rows of one table that are older than a given time."""

    def __init__(self, table: str, column: str, before: datetime) -> None:
        self._table, self._before = table, before
        self._sql = (
            f"DELETE FROM {table} WHERE ctid = ANY(ARRAY("  # noqa: S608 - constants of this file
            f"SELECT ctid FROM {table} WHERE {column} < $1 LIMIT $2))"
        )

    async def step(self, connection: AnyConnection) -> bool:
        return _counted(self._table, await connection.execute(self._sql, self._before, _ROWS)) == _ROWS


class _Unversioned:
    """Outbox rows without a version that were created before a given time."""

    def __init__(self, before: datetime) -> None:
        self._before = before

    async def step(self, connection: AnyConnection) -> bool:
        return _counted("outbox", await connection.execute(_UNVERSIONED, self._before, _ROWS)) == _ROWS


async def _superseded(connection: AnyConnection) -> bool:
    (row,) = await connection.fetch(_SUPERSEDED, _ROWS, ASSIGNMENTS, _NEWEST_COUNTS)
    REMOVED.labels("outbox").inc(row["removed"])
    return bool(row["looked"] == _ROWS)


class _OutboxOfEnded:
    """Outbox rows of aggregates that ended before a given time. Aggregates with an unsent row delay no others.

    A step removes a limited number of rows: a service that ran for a year may have hundreds of thousands.
    """

    def __init__(self, before: datetime) -> None:
        self._before = before
        self._last: tuple[datetime, str] = (_BEGINNING, "")

    async def step(self, connection: AnyConnection) -> bool:
        rows = await connection.fetch(_OUTBOX_OF_ENDED, self._before, *self._last, _AGGREGATES, _OUTBOX_ROWS)
        if not rows:
            return False
        removed = rows[0]["removed"]
        REMOVED.labels("outbox").inc(removed)
        if removed == _OUTBOX_ROWS:
            return True  # from the same place: the last of these aggregates may have more rows
        self._last = (rows[-1]["at"], rows[-1]["aggregate"])
        return len(rows) == _AGGREGATES


class _Forgotten:
    """All other rows of aggregates that ended before a given time."""

    def __init__(self, before: datetime, forget: Forget | None) -> None:
        self._before, self._forget = before, forget

    async def step(self, connection: AnyConnection) -> bool:
        async with connection.transaction():
            over = [row["aggregate"] for row in await connection.fetch(_FORGOTTEN, self._before, _AGGREGATES)]
            for table in ("outbox", "aggregate_versions", "seen_versions", "parked"):
                # In the outbox: rows that were published after the end of the aggregate.
                sql = f"DELETE FROM {table} WHERE aggregate = ANY($1::text[])"  # noqa: S608 - constants of this file
                _counted(table, await connection.execute(sql, over))
            if self._forget is not None:
                await self._forget(connection, over)
        return len(over) == _AGGREGATES


def _counted(table: str, status: str) -> int:
    """Count the rows in the status of a DELETE, and return their number."""
    count = affected(status)
    REMOVED.labels(table).inc(count)
    return count
