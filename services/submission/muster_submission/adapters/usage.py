"""Usage by workload in PostgreSQL, from telemetry's accounts. An account is a total, so the latest one counts.

Telemetry removes the account of a workload that has not used devices for long. An account that began after the last use
that is known here is therefore another one, and is added to the earlier ones.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import asyncpg

from muster_chassis.unit import Unit
from muster_submission.ports import Account

LONGEST: Final = 1000
"""How many workloads one answer has at most."""
_ADD_TO: Final = """
UPDATE usage k SET earlier = k.gpu_seconds FROM unnest($1::uuid[], $2::timestamptz[]) AS u (workload_id, begun)
WHERE k.workload_id = u.workload_id AND u.begun >= k.until
"""
_KEEP: Final = """
INSERT INTO usage AS k (workload_id, project, name, gpu_seconds, until)
SELECT u.* FROM unnest($1::uuid[], $2::text[], $3::text[], $4::float8[], $5::timestamptz[])
    AS u (workload_id, project, name, gpu_seconds, until)
WHERE EXISTS (SELECT 1 FROM workloads w WHERE w.id = u.workload_id) -- not of one that is archived meanwhile
ON CONFLICT (workload_id) DO UPDATE SET
    project = excluded.project, name = excluded.name, gpu_seconds = k.earlier + excluded.gpu_seconds,
    until = excluded.until
WHERE k.until < excluded.until
"""


class PostgresUsage:
    """Usage on PostgreSQL."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def keep(self, unit: Unit, accounts: Mapping[str, Account]) -> None:
        """Takes in accounts by workload id; an older one changes nothing."""
        ids = sorted(accounts)  # rows are locked in one order
        await unit.connection.execute(_ADD_TO, ids, [accounts[one].begun for one in ids])
        await unit.connection.execute(
            _KEEP,
            ids,
            [accounts[one].project for one in ids],
            [accounts[one].name for one in ids],
            [accounts[one].gpu_seconds for one in ids],
            [accounts[one].until for one in ids],
        )

    async def heaviest(self, project: str, within: Collection[str] | None) -> Sequence[Any]:
        """The heaviest workloads, of one project or of all, within these projects (None: everywhere)."""
        return await self._pool.fetch(
            "SELECT workload_id::text AS workload_id, project, name, gpu_seconds, until FROM usage "
            "WHERE ($1 = '' OR project = $1) AND ($3::text[] IS NULL OR project = ANY ($3)) "
            "ORDER BY gpu_seconds DESC, workload_id LIMIT $2",
            project,
            LONGEST,
            None if within is None else sorted(within),
        )
