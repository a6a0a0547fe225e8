"""Which workload an object's name means, read outside of transactions. Table: migrations/0007_applied.sql."""

from __future__ import annotations

from typing import Final

import asyncpg

# What was made by another way has no row of its own: there the workload's name is the object's.
_FIND: Final = """
SELECT coalesce(
    (SELECT workload_id FROM applied WHERE project = $1 AND kind = $2 AND name = $3),
    (SELECT id FROM workloads WHERE project = $1 AND kind = $2 AND name = $3 AND held)
)::text
"""


class KnownObjects:
    """Finds workloads by the names of objects."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def find(self, project: str, kind: int, name: str) -> str | None:
        """The workload's id; None where there is no such object."""
        found: str | None = await self._pool.fetchval(_FIND, project, kind, name)
        return found
