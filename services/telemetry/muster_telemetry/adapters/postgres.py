"""Telemetry's accounts in PostgreSQL: one statement for a whole batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

from muster_chassis.connection import affected
from muster_chassis.unit import Unit
from muster_telemetry.domain.accounts import Growth
from muster_telemetry.domain.coverage import Span
from muster_telemetry.ports import Account

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Two instances that count the same replica, while partitions change hands, would both find it uncovered.
_ALONE: Final = "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '.accounts', 0))"
_COVERED: Final = "SELECT replica, starts, ends FROM coverage WHERE replica = ANY($1::text[])"
_COVER: Final = """
INSERT INTO coverage AS c (replica, starts, ends, heard)
SELECT r, string_to_array(s, ',')::bigint[], string_to_array(e, ',')::bigint[], $4
FROM unnest($1::text[], $2::text[], $3::text[]) AS u(r, s, e)
ON CONFLICT (replica) DO UPDATE SET starts = excluded.starts, ends = excluded.ends, heard = excluded.heard
"""
# A repeat of use from before an account was removed begins no account: the next use would be taken for a part of it.
_GROW: Final = """
INSERT INTO accounts AS a (workload_id, project, name, amount, until, changed, begun)
SELECT w, p, n, m, u, true, b
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::numeric[], $5::timestamptz[], $6::timestamptz[])
    AS g(w, p, n, m, u, b)
WHERE m > 0 OR EXISTS (SELECT 1 FROM accounts k WHERE k.workload_id = w)
ON CONFLICT (workload_id) DO UPDATE
SET amount = a.amount + excluded.amount, until = greatest(a.until, excluded.until), changed = true
WHERE excluded.amount > 0 OR excluded.until > a.until
"""
_CHANGED: Final = """
UPDATE accounts SET changed = false WHERE workload_id IN (
    SELECT workload_id FROM accounts WHERE changed ORDER BY workload_id LIMIT $1 FOR UPDATE SKIP LOCKED)
RETURNING workload_id::text AS workload, project, name, amount, until, nullif(begun, 'epoch') AS begun
"""
_SINCE: Final = """
INSERT INTO retention_positions AS r (name, position) VALUES ('accounts', $1)
ON CONFLICT (name) DO UPDATE SET position = r.position RETURNING position
"""
_FORGET_REPLICAS: Final = """
DELETE FROM coverage WHERE replica = ANY(ARRAY(
    SELECT replica FROM coverage WHERE heard < $1 ORDER BY heard LIMIT $2 FOR UPDATE SKIP LOCKED))
"""
_FORGET_WORKLOADS: Final = """
WITH gone AS (
    DELETE FROM accounts WHERE workload_id = ANY(ARRAY(
        SELECT workload_id FROM accounts WHERE until < $1 AND NOT changed ORDER BY until LIMIT $2
        FOR UPDATE SKIP LOCKED))
    RETURNING project, amount, until
), kept AS (
    INSERT INTO earlier_usage AS e (project, amount, until)
    SELECT project, sum(amount), max(until) FROM gone GROUP BY project ORDER BY project
    ON CONFLICT (project) DO UPDATE
    SET amount = e.amount + excluded.amount, until = greatest(e.until, excluded.until)
)
SELECT count(*) FROM gone
"""


class PostgresAccounts:
    """The accounts of one instance; the tables are the service's own."""

    async def covered(self, unit: Unit, replicas: Iterable[str]) -> Mapping[str, Sequence[Span]]:
        """What of these replicas was counted already."""
        await unit.connection.execute(_ALONE)
        rows = await unit.connection.fetch(_COVERED, list(replicas))
        return {row["replica"]: list(zip(row["starts"], row["ends"], strict=True)) for row in rows}

    async def keep(self, unit: Unit, covered: Mapping[str, Sequence[Span]], growth: Sequence[Growth]) -> None:
        """Writes the coverage and lets the accounts grow; they are to be told."""
        await unit.connection.execute(
            _COVER,
            list(covered),
            [",".join(str(span[0]) for span in spans) for spans in covered.values()],
            [",".join(str(span[1]) for span in spans) for spans in covered.values()],
            unit.now,
        )
        await unit.connection.execute(
            _GROW,
            [each.workload for each in growth],
            [each.project for each in growth],
            [each.name for each in growth],
            [Decimal(each.amount) for each in growth],
            [_EPOCH + timedelta(microseconds=each.until) for each in growth],
            [_EPOCH + timedelta(microseconds=each.since) for each in growth],
        )

    async def take_changed(self, unit: Unit, limit: int) -> Sequence[Account]:
        """Accounts that have changed since they were told; they count as told."""
        rows = await unit.connection.fetch(_CHANGED, limit)
        return [
            Account(row["workload"], row["project"], row["name"], int(row["amount"]), row["until"], row["begun"])
            for row in rows
        ]

    async def runs_since(self, unit: Unit) -> datetime:
        """Return when a release that removes accounts first ran here, to the second."""
        seconds = await unit.connection.fetchval(_SINCE, int(unit.now.timestamp()))
        return _EPOCH + timedelta(seconds=int(seconds))

    async def forget_replicas(self, unit: Unit, before: datetime, at_most: int) -> bool:
        """Remove the coverage of replicas not heard of since then; return whether there may be more."""
        return affected(await unit.connection.execute(_FORGET_REPLICAS, before, at_most)) == at_most

    async def forget_workloads(self, unit: Unit, before: datetime, at_most: int) -> bool:
        """Remove accounts without use since then that the others know; return whether there may be more.

        What they had stays in the sum of their project.
        """
        return bool(await unit.connection.fetchval(_FORGET_WORKLOADS, before, at_most) == at_most)
