"""Trigger rules in PostgreSQL. What they have fired stands in `firings`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import asyncpg

from muster.api.v1.triggers_pb2 import Trigger
from muster.workload.v1.workload_pb2 import Owner
from muster_chassis.unit import Unit
from muster_submission.adapters.trigger_records import message_of, rule_of
from muster_submission.domain.triggers import Rule
from muster_submission.trigger_ports import StoredRule

_COLUMNS: Final = "rule, owner, enabled, fired, version, runaways, stopped"
_SAVE: Final = f"""
INSERT INTO triggers AS t (project, name, event_type, enabled, version, rule, owner)
VALUES ($1, $2, $3, $4, 1, $5, $6)
ON CONFLICT (project, name) DO UPDATE SET
    event_type = excluded.event_type, enabled = excluded.enabled, version = t.version + 1, rule = excluded.rule,
    owner = excluded.owner, runaways = 0, stopped = ''
RETURNING {_COLUMNS}
"""  # noqa: S608 - constants only
_FOR_TYPES: Final = f"""
SELECT {_COLUMNS} FROM triggers t
WHERE enabled AND ($2 = '' OR project = $2) AND (
    (NOT prefix AND event_type = ANY ($1::text[]))
    OR (prefix AND EXISTS (
        SELECT 1 FROM unnest($1::text[]) AS u(type) WHERE starts_with(u.type, left(t.event_type, -1))
    ))
)
ORDER BY project, name
"""  # noqa: S608 - constants only
_LOCK: Final = f"""
SELECT {_COLUMNS} FROM triggers WHERE (project, name) IN (SELECT * FROM unnest($1::text[], $2::text[]))
ORDER BY project, name FOR UPDATE
"""  # noqa: S608 - constants only
_PAGE: Final = f"""
SELECT {_COLUMNS} FROM triggers
WHERE ($1 = '' OR project = $1) AND ($2::text[] IS NULL OR project = ANY ($2)) AND (project, name) > ($3, $4)
ORDER BY project, name LIMIT $5
"""  # noqa: S608 - constants only
_RAN_AWAY: Final = """
UPDATE triggers SET runaways = $3, stopped = $4, enabled = enabled AND $4 = '' WHERE project = $1 AND name = $2
"""


class PostgresTriggers:
    """Triggers on PostgreSQL."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def save(self, unit: Unit, rule: Rule, owner: Owner) -> StoredRule:
        """Makes a rule or replaces it."""
        kept = message_of(rule).SerializeToString(deterministic=True)
        row = await unit.connection.fetchrow(
            _SAVE, rule.project, rule.name, rule.event_type, rule.enabled, kept, owner.SerializeToString()
        )
        return _stored(row)

    async def delete(self, unit: Unit, project: str, name: str) -> bool:
        """Removes a rule; False where there is none."""
        gone = await unit.connection.fetchval(
            "DELETE FROM triggers WHERE project = $1 AND name = $2 RETURNING true", project, name
        )
        return bool(gone)

    async def find(self, project: str, name: str) -> StoredRule | None:
        """A rule."""
        row = await self._pool.fetchrow(
            f"SELECT {_COLUMNS} FROM triggers WHERE project = $1 AND name = $2",  # noqa: S608 - constants only
            project,
            name,
        )
        return None if row is None else _stored(row)

    async def for_types(
        self, types: Iterable[str], *, project: str = "", unit: Unit | None = None
    ) -> Sequence[StoredRule]:
        """The enabled rules whose type is one of these, or a prefix of one, by project and name."""
        where = self._pool if unit is None else unit.connection
        return [_stored(row) for row in await where.fetch(_FOR_TYPES, sorted(set(types)), project)]

    async def lock(self, unit: Unit, names: Iterable[tuple[str, str]]) -> dict[tuple[str, str], StoredRule]:
        """Those that are there, locked in one order: two batches then wait for each other and never deadlock."""
        wanted = sorted(set(names))
        rows = await unit.connection.fetch(_LOCK, [project for project, _ in wanted], [name for _, name in wanted])
        found = [_stored(row) for row in rows]
        return {(one.rule.project, one.rule.name): one for one in found}

    async def ran_away(self, unit: Unit, rule: Rule, times: int, stopped: str) -> None:
        """Writes how many times in a row a locked rule's expressions ran away; with a reason it is switched off."""
        await unit.connection.execute(_RAN_AWAY, rule.project, rule.name, times, stopped)

    async def page(
        self, project: str, within: frozenset[str] | None, size: int, after: tuple[str, str]
    ) -> Sequence[StoredRule]:
        """Rules by project and name after that (project, name); of one project or all, `within` those that are seen."""
        scope = None if within is None else sorted(within)
        return [_stored(row) for row in await self._pool.fetch(_PAGE, project, scope, *after, size)]


def _stored(row: Any) -> StoredRule:
    message = Trigger.FromString(row["rule"])
    message.enabled = row["enabled"]  # a rule that was switched off by itself is written so only here
    return StoredRule(
        rule_of(message), Owner.FromString(row["owner"]), row["fired"], row["version"], row["runaways"], row["stopped"]
    )
