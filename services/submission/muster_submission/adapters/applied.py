"""Which workload a document named when it was applied last, in PostgreSQL. Table: migrations/0007_applied.sql.

Called by handlers/apply.py within its transaction.
"""

from __future__ import annotations

from typing import Final

from muster_chassis.unit import Unit

# The update changes nothing and locks the row: of two that apply one document at once the second waits, and then sees
# the first one's workload instead of making another.
_CLAIM: Final = """
INSERT INTO applied AS a (project, kind, name) VALUES ($1, $2, $3)
ON CONFLICT (project, kind, name) DO UPDATE SET name = excluded.name
RETURNING a.workload_id::text
"""
_POINT: Final = "UPDATE applied SET workload_id = $4 WHERE project = $1 AND kind = $2 AND name = $3"
_HOLDER: Final = "SELECT id::text FROM workloads WHERE project = $1 AND kind = $2 AND name = $3 AND held"
_GIVE_UP: Final = "UPDATE workloads SET held = false WHERE id = $1"


class PostgresApplied:
    """AppliedBooks on PostgreSQL."""

    async def claim(self, unit: Unit, project: str, kind: int, name: str) -> str | None:
        """The id of the workload that (project, kind, name) means; nobody else applies it until the unit ends."""
        found: str | None = await unit.connection.fetchval(_CLAIM, project, kind, name)
        return found

    async def holder(self, unit: Unit, project: str, kind: int, name: str) -> str | None:
        """The id of the workload of that kind that holds the name; somebody may have submitted it."""
        found: str | None = await unit.connection.fetchval(_HOLDER, project, kind, name)
        return found

    async def point(self, unit: Unit, project: str, kind: int, name: str, workload_id: str) -> None:
        """From now on (project, kind, name) means this workload."""
        await unit.connection.execute(_POINT, project, kind, name, workload_id)

    async def give_up_name(self, unit: Unit, workload_id: str) -> None:
        """The workload, which has ended, holds its name no more."""
        await unit.connection.execute(_GIVE_UP, workload_id)
