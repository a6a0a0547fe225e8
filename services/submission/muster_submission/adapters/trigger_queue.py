"""Events that wait for the lane of their project, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import asyncpg

from muster.events.v1.cloudevent_pb2 import CloudEvent as Message
from muster_chassis.unit import Unit
from muster_submission.adapters.protobuf_events import event_of, pack
from muster_submission.domain.cloudevents import CloudEvent, NoCloudEvent
from muster_submission.trigger_ports import QueuedEvent

_ADD: Final = """
INSERT INTO trigger_queue (project, event, at) SELECT p, e, $3 FROM unnest($1::text[], $2::bytea[]) AS u(p, e)
"""
_DEPTHS: Final = """
SELECT p AS project, (SELECT count(*) FROM trigger_queue q WHERE q.project = p COLLATE "C") AS depth
FROM unnest($1::text[]) AS u(p)
"""
_DUE: Final = """
WITH RECURSIVE p AS (
    SELECT min(project) AS project FROM trigger_queue
    UNION ALL
    SELECT (SELECT min(q.project) FROM trigger_queue q WHERE q.project > p.project) FROM p WHERE p.project IS NOT NULL
)
SELECT project FROM p WHERE project IS NOT NULL AND EXISTS (
    SELECT 1 FROM trigger_queue q WHERE q.project = p.project AND (not_before IS NULL OR not_before <= now())
    AND (claimed_until IS NULL OR claimed_until < now() OR claimant = $1))
LIMIT 1000
"""
"""One step of the index a project, however many events wait."""
_CLAIM: Final = """
UPDATE trigger_queue SET claimant = $2, claimed_until = now() + interval '1 minute' WHERE id IN (
    SELECT id FROM trigger_queue q WHERE project = $1 AND (not_before IS NULL OR not_before <= now()) AND NOT EXISTS (
        SELECT 1 FROM trigger_queue o WHERE o.project = $1 AND o.claimant <> $2 AND o.claimed_until > now())
    ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED)
RETURNING id, project, event, tries, at
"""
_SET_ASIDE: Final = """
UPDATE trigger_queue SET tries = tries + 1, why = left($2, 2000), claimed_until = NULL,
       not_before = now() + least(interval '10 minutes', interval '5 seconds' * 2 ^ least(tries, 10))
WHERE id = $1
"""


class PostgresTriggerQueue:
    """The queue on PostgreSQL. `instance`: under which name events are claimed."""

    def __init__(self, pool: asyncpg.Pool, instance: str) -> None:
        self._pool = pool
        self._instance = instance

    async def add(self, unit: Unit, queued: Sequence[tuple[str, CloudEvent]]) -> None:
        """Write events down, each for one project."""
        packed = [pack(event).SerializeToString() for _, event in queued]
        await unit.connection.execute(_ADD, [project for project, _ in queued], packed, unit.now)

    async def depths(self, unit: Unit, projects: Iterable[str]) -> dict[str, int]:
        """Return how many events wait for each project."""
        rows = await unit.connection.fetch(_DEPTHS, sorted(projects))
        return {row["project"]: row["depth"] for row in rows}

    async def due(self) -> Sequence[str]:
        """Return the projects for which an event waits that this instance may take, at most a thousand."""
        return [row["project"] for row in await self._pool.fetch(_DUE, self._instance)]

    async def claim(self, project: str, at_most: int) -> Sequence[QueuedEvent]:
        """Return the oldest events of a project, claimed; none while another instance has the project's."""
        rows = await self._pool.fetch(_CLAIM, project, self._instance, at_most)
        return [_queued(row) for row in sorted(rows, key=lambda row: row["id"])]

    async def remove(self, unit: Unit, ids: Sequence[int]) -> frozenset[int]:
        """Remove events; return those that were there."""
        rows = await unit.connection.fetch("DELETE FROM trigger_queue WHERE id = ANY($1) RETURNING id", list(ids))
        return frozenset(row["id"] for row in rows)

    async def set_aside(self, queued: int, why: str) -> None:
        """Let an event wait: 5 s, then twice as long each time, at most 10 minutes."""
        await self._pool.execute(_SET_ASIDE, queued, why)

    async def aside(self) -> str:
        """Return what is set aside, as a sentence; empty: nothing is."""
        (row,) = await self._pool.fetch(
            "SELECT count(*) AS number, min(project) AS project, min(why) AS why FROM trigger_queue "
            "WHERE not_before IS NOT NULL"
        )
        if not row["number"]:
            return ""
        return f"{row['number']} events are set aside, as of project {row['project']}: {row['why']}"


def _queued(row: Any) -> QueuedEvent:
    event = event_of(Message.FromString(row["event"]))
    assert not isinstance(event, NoCloudEvent), event  # noqa: S101 - only events are written
    return QueuedEvent(row["id"], row["project"], event, row["tries"], row["at"])
