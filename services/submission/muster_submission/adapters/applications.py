"""Applications in PostgreSQL. Table: migrations/0003_access.sql. Of a secret there is only its SHA-256."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import asyncpg

from muster_chassis.unit import Unit
from muster_kernel.ids import is_uuid
from muster_submission.access_ports import Application

_LONGEST: Final = 100  # of a name
_COLUMNS: Final = "id::text AS id, name, secret, credential, enabled, created_at, created_by, updated_at, used_at"
_ADD: Final = f"""
INSERT INTO applications (id, name, secret, created_at, created_by, updated_at) VALUES ($1, $2, $3, $4, $5, $4)
ON CONFLICT DO NOTHING RETURNING {_COLUMNS}
"""  # noqa: S608 - constants only
_FIND: Final = f"SELECT {_COLUMNS} FROM applications WHERE NOT ended AND "  # noqa: S608 - constants only


class PostgresApplications:
    """Applications on PostgreSQL."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def find(self, ref: str, unit: Unit | None = None) -> Application | None:
        """The application of that id or name; within a transaction it is locked until its end."""
        if "\x00" in ref or len(ref) > _LONGEST:
            return None
        condition = "id = $1" if is_uuid(ref) else "name = $1"
        row = await (
            self._pool.fetchrow(_FIND + condition, ref)
            if unit is None
            else unit.connection.fetchrow(f"{_FIND}{condition} FOR UPDATE", ref)
        )
        return None if row is None else _application(row)

    async def page(self, size: int, after: str) -> Sequence[Application]:
        """Applications by name."""
        rows = await self._pool.fetch(f"{_FIND} name > $1 ORDER BY name LIMIT $2", after, size)
        return [_application(row) for row in rows]

    async def add(self, unit: Unit, application: str, name: str, secret: bytes, by: str) -> Application | None:
        """Makes an application; None where its id or name is taken."""
        row = await unit.connection.fetchrow(_ADD, application, name, secret, unit.now, by)
        return None if row is None else _application(row)

    async def new_secret(self, unit: Unit, application: str, secret: bytes) -> None:
        """Replaces the secret; tokens made with the one before count no more."""
        await unit.connection.execute(
            "UPDATE applications SET secret = $2, credential = credential + 1, updated_at = $3 WHERE id = $1",
            application,
            secret,
            unit.now,
        )

    async def enable(self, unit: Unit, application: str, enabled: bool) -> None:  # noqa: FBT001 - a column's value
        """Switches an application on or off. Tokens from before it was off never count again."""
        await unit.connection.execute(
            "UPDATE applications SET enabled = $2, updated_at = $3, "
            "credential = credential + CASE WHEN enabled AND NOT $2 THEN 1 ELSE 0 END WHERE id = $1",
            application,
            enabled,
            unit.now,
        )

    async def end(self, unit: Unit, application: str) -> None:
        """Ends an application for good, with its rules."""
        await unit.connection.execute(
            "UPDATE applications SET ended = true, enabled = false, updated_at = $2 WHERE id = $1",
            application,
            unit.now,
        )
        await unit.connection.execute(
            "DELETE FROM access_rules WHERE holder_kind = 'application' AND holder = $1", application
        )

    async def used(self, unit: Unit, application: str) -> None:
        """Notes that it got a token."""
        await unit.connection.execute("UPDATE applications SET used_at = $2 WHERE id = $1", application, unit.now)


def _application(row: Any) -> Application:
    return Application(**dict(row))
