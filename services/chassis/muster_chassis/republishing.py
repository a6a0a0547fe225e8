"""Publishing again what is in the outbox: for consumers that lack versions, and after Kafka has lost records.

The relay does it between its passes, a stretch at a time. Holds: the order of what is new on a topic is not touched; a
record that goes out again has the id and the version that it had, so that a consumer that has it drops it; a request
outlives the relay.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from muster_chassis import identity, logs, metrics
from muster_chassis.connection import AnyConnection
from muster_chassis.outbox_rows import PASS_BYTES, Rows, bounded
from muster_chassis.topics import named
from muster_chassis.unit import lane_of

_log = logs.get(__name__)
STRETCH: Final = 500
_WINDOW: Final = 20_000
_ASK: Final = """
INSERT INTO republications (lane, topic, aggregate, upto, why, at)
SELECT $1, $2, $3, coalesce(max(id), 0), $4, $5 FROM outbox WHERE lane = $1
RETURNING id
"""
_OPEN: Final = """
SELECT id, topic, aggregate, last, upto, sent FROM republications
WHERE lane = $1 AND done_at IS NULL AND topic <> ALL ($2::text[]) ORDER BY id LIMIT 1
"""
# On a compacted topic the last record of a key is what it is: an older one must not come behind it.
_NEWEST: Final = """(NOT $6 OR NOT EXISTS (
    SELECT 1 FROM outbox n WHERE n.aggregate = o.aggregate AND n.topic = o.topic AND n.id > o.id))"""
_OF_TOPIC: Final = bounded(
    f"""
SELECT o.* FROM outbox o
WHERE o.lane = $1 AND o.id > $2 AND o.id <= $3 AND o.topic = $4 AND {_NEWEST} ORDER BY o.id LIMIT $5
""",  # noqa: S608 - constants of this file
    "$7",
)
_OF_AGGREGATE: Final = bounded(
    f"""
SELECT o.* FROM outbox o
WHERE o.aggregate = $8 AND o.topic = $4 AND o.lane = $1 AND o.id > $2 AND o.id <= $3 AND {_NEWEST}
ORDER BY o.id LIMIT $5
""",  # noqa: S608 - constants of this file
    "$7",
)
_NOTE: Final = "UPDATE republications SET last = $2, sent = sent + $3, done_at = $4 WHERE id = $1"
_SAME: Final = """
UPDATE republications SET last = 0, upto = (SELECT coalesce(max(id), 0) FROM outbox WHERE lane = $1)
WHERE id = (
    SELECT id FROM republications WHERE lane = $1 AND topic = $2 AND aggregate = '' AND done_at IS NULL
    ORDER BY id LIMIT 1)
RETURNING true
"""

AGAIN: Final = metrics.counter(
    "muster_outbox_republished_total",
    unit="records",
    meaning="Outbox rows that were published once more, because Kafka had lost records or an operator asked for it.",
    action="Grows by itself: Kafka loses what it has acknowledged; look at its disks and its replication.",
    labels=("topic",),
)

Send = Callable[[Sequence[Any]], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Republication:
    """One request. sent: how many records have gone out; done: whether that is all."""

    sent: int
    done: bool


async def ask(connection: AnyConnection, topic: str, aggregate: str, why: str, now: datetime) -> int:
    """Asks the relay to publish a topic again, or what it has of one aggregate: the number of the request."""
    found: int = await connection.fetchval(_ASK, lane_of(topic), topic, aggregate, why, now)
    return found


async def ask_once(connection: AnyConnection, topic: str, why: str) -> None:
    """Asks for a whole topic; where that is under way, it begins again with all that there is by now."""
    if not await connection.fetchval(_SAME, lane_of(topic), topic):
        await ask(connection, topic, "", why, identity.now())


async def look(connection: AnyConnection, number: int) -> Republication | None:
    """What has become of a request."""
    row = await connection.fetchrow("SELECT sent, done_at FROM republications WHERE id = $1", number)
    return None if row is None else Republication(row["sent"], row["done_at"] is not None)


async def step(connection: AnyConnection, lane: int, most: int, waiting: Sequence[str], send: Send) -> bool:
    """Publishes one stretch of the oldest request of a lane; whether there was one.

    most: the last row that the relay has published; what comes after it goes out by itself. waiting: topics that cannot
    be sent to now.
    """
    found = await connection.fetchrow(_OPEN, lane, list(waiting))
    if found is None:
        return False
    # A window of ids bounds what is looked through for a topic that has few rows.
    limit = min(found["upto"], most)
    upper = limit if found["aggregate"] else min(found["last"] + _WINDOW, limit)
    values = [lane, found["last"], upper, found["topic"], STRETCH, named(found["topic"]).compacted, PASS_BYTES]
    if found["aggregate"]:
        stretch = Rows.of(await connection.fetch(_OF_AGGREGATE, *values, found["aggregate"]), STRETCH)
    else:
        stretch = Rows.of(await connection.fetch(_OF_TOPIC, *values), STRETCH)
    rows = stretch.rows
    if rows:
        await send(rows)
        AGAIN.labels(found["topic"]).inc(len(rows))
    last = rows[-1]["id"] if stretch.more else upper
    over = last >= limit
    await connection.execute(_NOTE, found["id"], last, len(rows), identity.now() if over else None)
    if over:
        _log.info("published again", topic=found["topic"], of=found["aggregate"], records=found["sent"] + len(rows))
    return True
