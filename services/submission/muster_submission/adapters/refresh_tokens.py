"""Refresh tokens in PostgreSQL. Table: migrations/0008_refresh_tokens.sql. No token itself is kept, only its id."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from muster_chassis.connection import affected
from muster_chassis.unit import Unit
from muster_submission.domain.refreshing import RefreshToken

_LOCK: Final = """
SELECT id::text AS id, family::text AS family, made_at, successor::text AS successor, rotated_at
FROM refresh_tokens WHERE id = $1 FOR UPDATE
"""
_ADD: Final = "INSERT INTO refresh_tokens (id, family, made_at, ends_at) VALUES ($1, $2, $3, $4)"
_ROTATE: Final = "UPDATE refresh_tokens SET successor = $2, rotated_at = $3 WHERE id = $1"
_END: Final = "DELETE FROM refresh_tokens WHERE family = $1"
_FORGET: Final = """
DELETE FROM refresh_tokens WHERE id IN (SELECT id FROM refresh_tokens WHERE ends_at < $1 ORDER BY ends_at LIMIT $2)
"""


class PostgresRefreshTokens:
    """Refresh tokens on PostgreSQL."""

    async def lock(self, unit: Unit, token: str) -> RefreshToken | None:
        """The token of that id, locked until the transaction ends; None for one that ended."""
        row = await unit.connection.fetchrow(_LOCK, token)
        return None if row is None else RefreshToken(**dict(row))

    async def add(self, unit: Unit, token: RefreshToken, ends_at: datetime) -> None:
        """Writes a new token."""
        await unit.connection.execute(_ADD, token.id, token.family, token.made_at, ends_at)

    async def rotate(self, unit: Unit, token: str, successor: RefreshToken, ends_at: datetime) -> None:
        """Writes the successor of a token."""
        await unit.connection.execute(_ROTATE, token, successor.id, successor.made_at)
        await self.add(unit, successor, ends_at)

    async def end(self, unit: Unit, family: str) -> None:
        """Ends all tokens of a family."""
        await unit.connection.execute(_END, family)

    async def forget(self, unit: Unit, now: datetime, limit: int) -> bool:
        """Removes at most `limit` tokens that ended; whether there may be more."""
        return affected(await unit.connection.execute(_FORGET, now, limit)) == limit
