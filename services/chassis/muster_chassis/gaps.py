"""Gaps: versions that a consumer lacks. This module lists them, and lets the owner of a topic close them.

DeadLettersService (dead_letters.py) of every service calls it. All events of a live aggregate are in its owner's
outbox, so publishing them again closes any gap. For an aggregate that ended long ago the outbox no longer has them.
The owner then publishes a snapshot, the state as of the newest version; a consumer always accepts it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import asyncpg

from muster.api.v1 import dead_letters_pb2 as pb
from muster_chassis import metrics, republishing
from muster_chassis.connection import AnyConnection
from muster_chassis.database import Database
from muster_chassis.errors import InvalidArgument, NotFound, Violation
from muster_chassis.rpc.idempotency import once
from muster_chassis.text import clean
from muster_chassis.topics import SERVICES, TRIGGERS, find
from muster_chassis.unit import ASSIGNMENTS, Unit, lane_of

_MOST: Final = 500
_PAUSE: Final = 0.1
_GAPS: Final = """
SELECT p.topic, p.aggregate, coalesce(s.version, 0) + 1 AS first, p.version - 1 AS last, p.waiting, p.since,
       count(*) OVER () AS total
FROM (
    SELECT topic, aggregate, min(version) AS version, count(*) AS waiting, min(at) AS since,
           bool_or(why = 'rejected') AS rejected
    FROM parked WHERE done_at IS NULL AND aggregate <> '' GROUP BY topic, aggregate
) p LEFT JOIN seen_versions s ON s.topic = p.topic AND s.aggregate = p.aggregate
WHERE NOT p.rejected AND p.version > coalesce(s.version, 0) + 1
ORDER BY p.since LIMIT $1
"""

_NUMBER: Final = "INSERT INTO aggregate_versions (topic, aggregate, version) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"

OPEN: Final = metrics.gauge(
    "muster_gaps",
    unit="aggregates",
    meaning="Aggregates of which versions are missing, so that later ones wait. Looked at once a minute.",
    action="Stays above 0: `muster dead-letters gaps` shows them, and `muster dead-letters republish` closes them.",
)
Snapshot = Callable[[Unit, str, str], Awaitable[bool]]
"""A function that publishes the state of an aggregate (topic, key) with the header SNAPSHOT (codec.py).

It returns False if it does not know the aggregate.
"""


async def gaps_of(connection: AnyConnection | asyncpg.Pool, service: str) -> pb.ListGapsResponse:
    """Return the gaps of a service, oldest first."""
    rows = await connection.fetch(_GAPS, _MOST)
    answer = pb.ListGapsResponse(total=rows[0]["total"] if rows else 0)
    for row in rows:
        gap = answer.gaps.add(
            service=service,
            topic=row["topic"],
            aggregate=row["aggregate"],
            first=row["first"],
            last=row["last"],
            waiting=row["waiting"],
        )
        gap.since.FromDatetime(row["since"])
    return answer


def owner_of(topic: str) -> str:
    """Return the service that publishes a topic. Raises NotFound if none does, InvalidArgument for assignments."""
    found = find(topic)
    writer = found.writers[0] if found is not None and found.writers else ""
    if writer not in SERVICES or topic == TRIGGERS.name:
        raise NotFound(f"no service publishes {clean(topic, 80)!r}: name a topic such as muster.decisions")
    if lane_of(topic) == ASSIGNMENTS:
        raise InvalidArgument(
            f"{topic} is published again by each new term of the scheduler: start the leading scheduler again",
            violations=[Violation("topic", "no topic of assignments")],
        )
    return writer


async def republish(
    database: Database, request: pb.RepublishRequest, seconds: float, snapshot: Snapshot | None
) -> pb.RepublishResponse:
    """Publish again what this service has of a topic, and wait for it. Raises InvalidArgument."""
    if len(request.key) > _MOST or "\x00" in request.key:
        raise InvalidArgument(
            f"key has {len(request.key)} characters: expected the id of an aggregate, such as a workload's",
            violations=[Violation("key", f"at most {_MOST} characters, none of them NUL")],
        )

    async def ask(unit: Unit) -> pb.RepublishResponse:
        lacks = bool(request.key) and not await _kept(unit, request.topic, request.key)
        if lacks and snapshot is not None and await snapshot(unit, request.topic, request.key):
            # The numbers of what ended long ago are removed. The clock is above any that it had.
            await unit.connection.execute(_NUMBER, request.topic, request.key, int(unit.now.timestamp()))
            return pb.RepublishResponse(sent=1, finished=True, snapshot=True)
        number = await republishing.ask(unit.connection, request.topic, request.key, "it was asked for", unit.now)
        return pb.RepublishResponse(sent=number)  # in the stored answer: the number of the request

    asked = await once(database, "Republish", request, pb.RepublishResponse, ask)
    return asked if asked.finished else await _outcome(database, asked.sent, seconds)


async def _kept(unit: Unit, topic: str, key: str) -> bool:
    """Return whether the outbox still has every version of the aggregate."""
    sql = "SELECT min(version) = 1 FROM outbox WHERE aggregate = $2 AND topic = $1 AND version > 0"
    return bool(await unit.connection.fetchval(sql, topic, key))


async def _outcome(database: Database, number: int, seconds: float) -> pb.RepublishResponse:
    """Wait until a request is done, for at most `seconds`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        async with database.acquired() as connection:
            found = await republishing.look(connection, number)
        if found is None or found.done or loop.time() >= deadline:
            break
        await asyncio.sleep(_PAUSE)
    if found is None:
        return pb.RepublishResponse(finished=True)
    return pb.RepublishResponse(sent=found.sent, finished=found.done)
