"""Trigger rules and their firings in PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, Final

import asyncpg

from muster.workload.v1.workload_pb2 import Owner
from muster_chassis.unit import Unit
from muster_submission.domain.triggers import Firing, Rule
from muster_submission.ports import StoredRule

KEPT_AFTER: Final = timedelta(days=30)
"""How long a firing stays beyond its window, so that its number goes on."""
_COLUMNS: Final = """
project, name, template, event_type, event_source, event_subject, variables, remember, enabled, fired, version, owner
"""
_SAVE: Final = f"""
INSERT INTO triggers AS t (project, name, template, event_type, event_source, event_subject, variables, remember,
                           enabled, version, owner)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 1, $10)
ON CONFLICT (project, name) DO UPDATE SET
    template = excluded.template, event_type = excluded.event_type, event_source = excluded.event_source,
    event_subject = excluded.event_subject, variables = excluded.variables, remember = excluded.remember,
    enabled = excluded.enabled, version = t.version + 1, owner = excluded.owner
RETURNING {_COLUMNS}
"""  # noqa: S608 - constants only
_REMEMBER: Final = """
WITH counted AS (UPDATE triggers SET fired = fired + 1 WHERE project = $1 AND name = $2)
INSERT INTO firings AS f (project, trigger, source, event_id, number, workload_id, until)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (project, trigger, source, event_id) DO UPDATE SET
    number = excluded.number, workload_id = excluded.workload_id, until = excluded.until
"""


class PostgresTriggers:
    """Triggers on PostgreSQL."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def save(self, unit: Unit, rule: Rule, owner: Owner) -> StoredRule:
        """Makes a rule or replaces it."""
        row = await unit.connection.fetchrow(
            _SAVE,
            rule.project,
            rule.name,
            rule.template,
            rule.event_type,
            rule.event_source,
            rule.event_subject,
            json.dumps(dict(rule.variables or {}), sort_keys=True),
            rule.window,
            rule.enabled,
            owner.SerializeToString(),
        )
        return _stored(row)

    async def for_types(self, unit: Unit, types: Iterable[str]) -> Sequence[StoredRule]:
        """The enabled rules of these event types, by name."""
        rows = await unit.connection.fetch(
            f"SELECT {_COLUMNS} FROM triggers WHERE enabled AND event_type = ANY ($1) ORDER BY project, name",  # noqa: S608
            sorted(set(types)),
        )
        return [_stored(row) for row in rows]

    async def firing(self, unit: Unit, rule: Rule, source: str, event_id: str) -> Firing | None:
        """The last firing of a rule by an event. Two deliveries of one event take turns here."""
        key = f"{rule.project}\x1f{rule.name}\x1f{source}\x1f{event_id}"
        await unit.connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 2))", key)
        row = await unit.connection.fetchrow(
            "SELECT number, until FROM firings WHERE project = $1 AND trigger = $2 AND source = $3 AND event_id = $4",
            rule.project,
            rule.name,
            source,
            event_id,
        )
        return None if row is None else Firing(row["number"], row["until"])

    async def remember(
        self, unit: Unit, rule: Rule, source: str, event_id: str, firing: Firing, workload_id: str
    ) -> None:
        """Writes a firing and counts it."""
        await unit.connection.execute(
            _REMEMBER, rule.project, rule.name, source, event_id, firing.number, workload_id, firing.until
        )

    async def page(self, project: str, size: int, after: tuple[str, str]) -> Sequence[StoredRule]:
        """Rules by project and name, after that (project, name); of one project, or all."""
        rows = await self._pool.fetch(
            f"SELECT {_COLUMNS} FROM triggers WHERE ($1 = '' OR project = $1) AND (project, name) > ($2, $3) "  # noqa: S608
            "ORDER BY project, name LIMIT $4",
            project,
            *after,
            size,
        )
        return [_stored(row) for row in rows]

    async def forget(self, now: Any, at_most: int) -> None:
        """Drops firings whose window ended long ago."""
        await self._pool.execute(
            "DELETE FROM firings WHERE ctid = ANY (ARRAY(SELECT ctid FROM firings WHERE until < $1 LIMIT $2))",
            now - KEPT_AFTER,
            at_most,
        )


def _stored(row: Any) -> StoredRule:
    rule = Rule(
        project=row["project"],
        name=row["name"],
        template=row["template"],
        event_type=row["event_type"],
        event_source=row["event_source"],
        event_subject=row["event_subject"],
        variables=json.loads(row["variables"]),
        window=row["remember"],
        enabled=row["enabled"],
    )
    return StoredRule(rule, Owner.FromString(row["owner"]), row["fired"], row["version"])
