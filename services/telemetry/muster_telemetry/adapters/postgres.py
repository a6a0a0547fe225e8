"""Telemetry's accounts in PostgreSQL: one statement for a whole batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

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
_GROW: Final = """
INSERT INTO accounts AS a (workload_id, project, name, amount, until, changed)
SELECT w, p, n, m, u, true
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::numeric[], $5::timestamptz[]) AS g(w, p, n, m, u)
ON CONFLICT (workload_id) DO UPDATE
SET amount = a.amount + excluded.amount, until = greatest(a.until, excluded.until), changed = true
WHERE excluded.amount > 0 OR excluded.until > a.until
"""
_CHANGED: Final = """
UPDATE accounts SET changed = false WHERE workload_id IN (
    SELECT workload_id FROM accounts WHERE changed ORDER BY workload_id LIMIT $1 FOR UPDATE SKIP LOCKED)
RETURNING workload_id::text AS workload, project, name, amount, until
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
        )

    async def take_changed(self, unit: Unit, limit: int) -> Sequence[Account]:
        """Accounts that have changed since they were told; they count as told."""
        rows = await unit.connection.fetch(_CHANGED, limit)
        return [Account(row["workload"], row["project"], row["name"], int(row["amount"]), row["until"]) for row in rows]

    async def forget(self, unit: Unit, before: datetime) -> int:
        """Forgets the coverage of replicas not heard of since then; how many rows."""
        status = await unit.connection.execute("DELETE FROM coverage WHERE heard < $1", before)
        return int(status.rpartition(" ")[2])
