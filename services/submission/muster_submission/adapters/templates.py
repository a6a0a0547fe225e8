"""Templates in PostgreSQL: found by the names that workloads give, the project's own before the global one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import asyncpg

from muster.workload.v1.workload_pb2 import WorkloadSpec
from muster_chassis.unit import Unit
from muster_submission.ports import Base

GLOBAL: Final = ""
_COLUMNS: Final = "id::text AS id, project, name, version, spec"
_FIND: Final = f"""
SELECT u.asked, t.* FROM unnest($1::text[], $2::text[]) AS u(asked, name), LATERAL (
    SELECT {_COLUMNS} FROM templates t WHERE t.name = u.name AND t.project IN (u.asked, '')
    ORDER BY t.project DESC LIMIT 1
) t
"""  # noqa: S608 - constants only
_SAVE: Final = f"""
INSERT INTO templates AS t (id, project, name, version, spec) VALUES ($1, $2, $3, 1, $4)
ON CONFLICT (project, name) DO UPDATE SET version = t.version + 1, spec = excluded.spec
RETURNING {_COLUMNS}
"""  # noqa: S608 - constants only


class PostgresTemplates:
    """Templates on PostgreSQL."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def find(self, wanted: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Base]:
        """For each (project, name): the project's template, else the global one of that name."""
        asked = sorted(set(wanted))
        if not asked:
            return {}
        rows = await self._pool.fetch(_FIND, [project for project, _ in asked], [name for _, name in asked])
        return {(row["asked"], row["name"]): _base(row) for row in rows}

    async def current(self, unit: Unit, project: str, name: str) -> Base | None:
        """The template of exactly that project ('' is global), locked until the transaction ends."""
        row = await unit.connection.fetchrow(
            f"SELECT {_COLUMNS} FROM templates WHERE project = $1 AND name = $2 FOR UPDATE",  # noqa: S608 - constants
            project,
            name,
        )
        return None if row is None else _base(row)

    async def save(self, unit: Unit, base: Base) -> Base:
        """Makes the template or replaces its spec."""
        row = await unit.connection.fetchrow(
            _SAVE, base.template_id, base.project, base.name, base.spec.SerializeToString()
        )
        return _base(row)

    async def remove(self, unit: Unit, base: Base) -> None:
        """Removes a locked template."""
        await unit.connection.execute("DELETE FROM templates WHERE id = $1", base.template_id)

    async def page(
        self, project: str, within: Collection[str] | None, size: int, after: tuple[str, str]
    ) -> Sequence[Base]:
        """Templates by name, then project, after that (name, project); of one project with the global ones, or all.

        within: only of these projects ('': the global ones); None: of every one.
        """
        rows = await self._pool.fetch(
            f"SELECT {_COLUMNS} FROM templates WHERE ($1 = '' OR project IN ($1, '')) AND (name, project) > ($2, $3) "  # noqa: S608
            "AND ($5::text[] IS NULL OR project = ANY ($5)) ORDER BY name, project LIMIT $4",
            project,
            *after,
            size,
            None if within is None else sorted(within),
        )
        return [_base(row) for row in rows]


def _base(row: Any) -> Base:
    return Base(row["id"], row["version"], row["name"], row["project"], WorkloadSpec.FromString(row["spec"]))
