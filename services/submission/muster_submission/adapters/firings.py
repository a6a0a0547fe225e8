"""What events made rules do, in PostgreSQL. Rows are written under the lock of their rule."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import asyncpg

from muster.events.v1.cloudevent_pb2 import CloudEvent as Message
from muster_chassis.connection import affected
from muster_chassis.unit import Unit
from muster_submission.adapters.protobuf_events import event_of, pack
from muster_submission.domain.cloudevents import CloudEvent, NoCloudEvent
from muster_submission.domain.firings import Before, Load, Outcome
from muster_submission.domain.triggers import Rule
from muster_submission.trigger_ports import StoredFiring

KEPT_AFTER: Final = timedelta(days=30)
"""How long a firing stays beyond its window, so that its number goes on."""
_COLUMNS: Final = (
    "id::text AS id, project, trigger, event, number, outcome, why, name, workload_id::text AS workload_id, at, until, "
    "deadline, started_at"
)
_ADD: Final = """
WITH counted AS (
    UPDATE triggers SET fired = fired + 1 WHERE $9::smallint = 2 AND project = $2 AND name = $3
)
INSERT INTO firings (id, project, trigger, event_key, source, event_id, event, number, outcome, why, name, workload_id,
                     at, until, deadline, started_at, live)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $9 = 2)
"""
_SETTLE: Final = """
WITH counted AS (
    UPDATE triggers SET fired = fired + 1 WHERE $2::smallint = 2 AND (project, name) = ($7, $8)
)
UPDATE firings SET outcome = $2, why = $3, name = $4, workload_id = $5, started_at = $6, live = $2 = 2, deadline = NULL
WHERE id = $1
"""
_WAITING: Final = f"""
SELECT {_COLUMNS} FROM firings WHERE project = $1 AND trigger = $2 AND outcome = 1 ORDER BY id LIMIT $3
"""  # noqa: S608 - constants only
_EXPIRE: Final = """
UPDATE firings SET outcome = 4, why = 'waited until its deadline: ' || why
WHERE project = $1 AND trigger = $2 AND outcome = 1 AND deadline <= $3
"""
_DROP: Final = """
UPDATE firings SET outcome = 3, why = $3, deadline = NULL WHERE project = $1 AND trigger = $2 AND outcome = 1
"""
_WITH_WAITING: Final = """
SELECT project, trigger FROM firings WHERE outcome = 1 GROUP BY project, trigger ORDER BY min(id::text) LIMIT 1000
"""
_PAGE: Final = f"""
SELECT {_COLUMNS} FROM firings
WHERE project = $1 AND ($2 = '' OR trigger = $2) AND (cardinality($3::smallint[]) = 0 OR outcome = ANY ($3))
  AND ($4::uuid IS NULL OR id < $4)
ORDER BY id DESC LIMIT $5
"""  # noqa: S608 - constants only
_FORGET: Final = """
DELETE FROM firings WHERE id = ANY (ARRAY(SELECT id FROM firings WHERE until < $1 AND outcome <> 1 LIMIT $2))
"""


class PostgresFirings:
    """Firings on PostgreSQL."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def before(self, unit: Unit, rule: Rule, event: CloudEvent) -> Before | None:
        """The last firing of a rule by an event."""
        row = await unit.connection.fetchrow(
            "SELECT number, until FROM firings WHERE project = $1 AND trigger = $2 AND event_key = $3 "
            "ORDER BY number DESC LIMIT 1",
            rule.project,
            rule.name,
            _key(event),
        )
        return None if row is None else Before(row["number"], row["until"])

    async def load(self, unit: Unit, rule: Rule) -> Load:
        """What the rule has under way. A rule without limits is not looked at."""
        limits = rule.limits
        if not limits.running and limits.rate is None:
            return Load()
        since = unit.now - (limits.rate.per if limits.rate else timedelta())
        (row,) = await unit.connection.fetch(
            "SELECT * FROM trigger_load($1, $2, $3, $4)",
            rule.project,
            rule.name,
            since,
            limits.rate.runs if limits.rate else 0,
        )
        return Load(row["running"], row["recent"], row["waiting"])

    async def add(self, unit: Unit, firing: StoredFiring) -> None:
        """Writes a new firing, and counts it where it started a run."""
        event = firing.event
        await unit.connection.execute(
            _ADD,
            firing.id,
            firing.project,
            firing.trigger,
            _key(event),
            event.source,
            event.id,
            pack(event).SerializeToString(),
            firing.number,
            int(firing.outcome),
            firing.why,
            firing.name,
            firing.workload_id,
            firing.at,
            firing.until,
            firing.deadline,
            firing.started_at,
        )

    async def settle(self, unit: Unit, firing: StoredFiring) -> None:
        """Writes what became of one that waited."""
        await unit.connection.execute(
            _SETTLE,
            firing.id,
            int(firing.outcome),
            firing.why,
            firing.name,
            firing.workload_id,
            firing.started_at,
            firing.project,
            firing.trigger,
        )

    async def find(self, project: str, firing_id: str) -> StoredFiring | None:
        """A firing."""
        row = await self._pool.fetchrow(
            f"SELECT {_COLUMNS} FROM firings WHERE id = $1 AND project = $2",  # noqa: S608 - constants only
            firing_id,
            project,
        )
        return None if row is None else _stored(row)

    async def waiting(self, unit: Unit, project: str, trigger: str, at_most: int) -> Sequence[StoredFiring]:
        """Those of a rule that wait, the oldest first."""
        return [_stored(row) for row in await unit.connection.fetch(_WAITING, project, trigger, at_most)]

    async def expire(self, unit: Unit, project: str, trigger: str) -> int:
        """Ends those of a rule that wait past their deadline; how many."""
        return affected(await unit.connection.execute(_EXPIRE, project, trigger, unit.now))

    async def drop(self, unit: Unit, project: str, trigger: str, why: str) -> int:
        """Drops all of a rule that wait; how many."""
        return affected(await unit.connection.execute(_DROP, project, trigger, why))

    async def with_waiting(self) -> Sequence[tuple[str, str]]:
        """The (project, trigger) for which something waits, the longest waiting first."""
        return [(row["project"], row["trigger"]) for row in await self._pool.fetch(_WITH_WAITING)]

    async def under_way(self, project: str, trigger: str) -> Load:
        """How many runs of a rule have not ended, and how many firings wait."""
        (row,) = await self._pool.fetch(
            "SELECT count(w.id) AS running, count(*) FILTER (WHERE f.outcome = 1) AS waiting "
            "FROM firings f LEFT JOIN workloads w ON w.id = f.workload_id AND NOT w.ended "
            "WHERE f.project = $1 AND f.trigger = $2 AND (f.live OR f.outcome = 1)",
            project,
            trigger,
        )
        return Load(running=row["running"], waiting=row["waiting"])

    async def page(
        self, project: str, trigger: str, outcomes: Sequence[int], size: int, after: str
    ) -> Sequence[StoredFiring]:
        """Firings of a project or of one trigger, the newest first, after that id."""
        rows = await self._pool.fetch(_PAGE, project, trigger, list(outcomes), after or None, size)
        return [_stored(row) for row in rows]

    async def forget(self, now: datetime, at_most: int) -> bool:
        """Remove at most `at_most` firings whose window ended long ago; return whether there may be more."""
        return affected(await self._pool.execute(_FORGET, now - KEPT_AFTER, at_most)) == at_most


def _key(event: CloudEvent) -> bytes:
    return hashlib.sha256(f"{event.source}\x00{event.id}".encode()).digest()


def _stored(row: Any) -> StoredFiring:
    event = event_of(Message.FromString(row["event"]))
    assert not isinstance(event, NoCloudEvent), event  # noqa: S101 - only events are written
    return StoredFiring(
        id=row["id"],
        project=row["project"],
        trigger=row["trigger"],
        event=event,
        number=row["number"],
        outcome=Outcome(row["outcome"]),
        at=row["at"],
        until=row["until"],
        why=row["why"],
        name=row["name"],
        workload_id=row["workload_id"],
        deadline=row["deadline"],
        started_at=row["started_at"],
    )
