"""Access rules in PostgreSQL, as rows that people give, take and look at. Table: migrations/0003_access.sql."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import asyncpg

from muster_chassis.unit import Unit
from muster_submission.access_ports import GivenRule
from muster_submission.domain.access import Binding, Role, Scope, ScopeKind
from muster_submission.domain.bindings import Holder, HolderKind

_LARGEST: Final = 2**63 - 1
_SHOWN: Final = """
SELECT r.id, r.holder_kind, r.holder, r.issuer, r.role, r.scope_kind, r.scope, r.created_at, r.created_by,
       coalesce(a.name, '') AS holder_name
FROM access_rules r LEFT JOIN applications a ON r.holder_kind = 'application' AND a.id::text = r.holder
"""
_ADD: Final = """
INSERT INTO access_rules (holder_kind, holder, issuer, role, scope_kind, scope, created_at, created_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING RETURNING id
"""
_SAME: Final = "holder_kind = $1 AND holder = $2 AND issuer = $3 AND role = $4 AND scope_kind = $5 AND scope = $6"


class PostgresRules:
    """Rules on PostgreSQL."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def add(self, unit: Unit, holder: Holder, binding: Binding, by: str) -> tuple[GivenRule, bool]:
        """The rule, and whether it is new."""
        scope = binding.scope
        key = (holder.kind, holder.name, holder.issuer, binding.role, scope.kind, scope.name)
        made = await unit.connection.fetchval(_ADD, *key, unit.now, by)
        (row,) = await unit.connection.fetch(f"{_SHOWN} WHERE {_SAME}", *key)
        return _rule(row), made is not None

    async def count(self, unit: Unit) -> int:
        """How many rules there are; nobody else gives one until the transaction ends."""
        await unit.connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '.rules', 0))")
        return int(await unit.connection.fetchval("SELECT count(*) FROM access_rules"))

    async def lock(self, unit: Unit, number: int) -> GivenRule | None:
        """A rule, locked until the transaction ends."""
        if not 1 <= number <= _LARGEST:
            return None
        row = await unit.connection.fetchrow(f"{_SHOWN} WHERE r.id = $1 FOR UPDATE OF r", number)
        return None if row is None else _rule(row)

    async def remove(self, unit: Unit, number: int) -> None:
        """Removes a rule."""
        await unit.connection.execute("DELETE FROM access_rules WHERE id = $1", number)

    async def admins(self, unit: Unit) -> int:
        """How many rules give the whole tenant to somebody; none of them goes until the transaction ends."""
        await self.count(unit)
        return int(
            await unit.connection.fetchval("SELECT count(*) FROM access_rules WHERE role = $1", Role.SYSTEM_ADMIN)
        )

    async def all(self) -> Sequence[GivenRule]:
        """Every rule, by number; their count is bounded (domain/grants.py)."""
        return [_rule(row) for row in await self._pool.fetch(f"{_SHOWN} ORDER BY r.id")]


def _rule(row: Any) -> GivenRule:
    return GivenRule(
        number=row["id"],
        holder=Holder(HolderKind(row["holder_kind"]), row["holder"], row["issuer"]),
        binding=Binding(Role(row["role"]), Scope(ScopeKind(row["scope_kind"]), row["scope"])),
        created_at=row["created_at"],
        created_by=row["created_by"],
        holder_name=row["holder_name"],
    )
