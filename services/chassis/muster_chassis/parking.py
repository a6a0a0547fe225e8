"""Records that wait in PostgreSQL: rejected ones, what stands behind them, and what came before its predecessor.

The intake parks, and later takes from the head of a line. A line is one aggregate on one topic, in order of version
and arrival. Its head may go on when it is not rejected, or was asked for, and when its version is the next one. A
rejected record that has no right to hold others back stands in no line: its `aggregate` is empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from google.protobuf import descriptor_pool
from google.protobuf.timestamp_pb2 import Timestamp

from muster.events.v1.dead_letter_pb2 import DeadLettered, RecordHeader
from muster_chassis.codec import TOMBSTONE, aggregate_of
from muster_chassis.connection import AnyConnection
from muster_chassis.events import Origin
from muster_chassis.text import clean
from muster_chassis.topics import DEAD_LETTERS, Topic
from muster_chassis.unit import Unit
from muster_kernel.ids import is_uuid

REJECTED: Final = "rejected"
BEHIND: Final = "behind"
GAP: Final = "gap"
_SHOWN: Final = 64 << 10  # bytes of the value in the dead letter's record; the table keeps it whole
_REASON: Final = 2000
_INSERT: Final = """
INSERT INTO parked (event_id, why, topic, partition, record_offset, stamp, key, value, headers, aggregate, version,
                    reason, attempts, trace, at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
ON CONFLICT (event_id) DO NOTHING RETURNING id
"""
_HEADS: Final = """
SELECT p.*, coalesce(s.version, 0) AS seen FROM (
    SELECT DISTINCT ON (topic, aggregate) * FROM parked
    WHERE done_at IS NULL AND aggregate <> '' AND topic = ANY($1) ORDER BY topic, aggregate, version, id
) AS p
LEFT JOIN seen_versions s ON s.topic = p.topic AND s.aggregate = p.aggregate
WHERE CASE WHEN p.why = 'rejected' THEN p.asked
      ELSE p.version = 0 OR p.topic = ANY($2) OR p.version <= coalesce(s.version, 0) + 1 END
UNION ALL
SELECT p.*, 0 FROM parked p WHERE p.done_at IS NULL AND p.aggregate = '' AND p.asked AND p.topic = ANY($1)
LIMIT 100
"""
_DISCARD: Final = """
UPDATE parked SET done_at = $2, asked = false, reason = left($3 || reason, $4) WHERE id = $1
"""
_LINE: Final = """
SELECT count(*) FILTER (WHERE version < $3) AS before, count(*) FILTER (WHERE version = $3) AS beside,
       count(*) FILTER (WHERE version > $3) AS after, coalesce(bool_or(version - 1 = $3), false) AS next
FROM parked WHERE topic = $1 AND aggregate = $2 AND done_at IS NULL AND id <> $4
"""
_SEEN: Final = """
INSERT INTO seen_versions AS s (topic, aggregate, version) VALUES ($1, $2, $3)
ON CONFLICT (topic, aggregate) DO UPDATE SET version = excluded.version WHERE s.version < excluded.version
"""
_MINE: Final = "muster.events."
_SOURCES: Final = frozenset({"submission", "policy", "scheduler", "telemetry"})
_AGENT: Final = "agent/"
_COLUMNS = msgspec.msgpack.Encoder()


@dataclass(frozen=True, slots=True)
class Waiting:
    """One row. `seen`: the last version of its aggregate that was taken in."""

    id: int
    key: str
    why: str
    origin: Origin
    aggregate: str
    version: int
    attempts: int
    trace: str | None
    seen: int


@dataclass(frozen=True, slots=True)
class Parking:
    """What is to be parked: the record, its inbox key and the reason."""

    key: str
    why: str
    origin: Origin
    aggregate: str
    version: int
    reason: str
    attempts: int
    trace: str | None


def identified(origin: Origin) -> bool:
    """Whether a record says who it is as our services do: an id, a type of ours, one of us as its source.

    Only such a one may hold others back: a stray record that happens to name a workload must not freeze it.
    """
    kind, source = origin.header("ce_type") or "", origin.header("ce_source") or ""
    return (
        is_uuid(origin.header("ce_id") or "")
        and (source in _SOURCES or (source.startswith(_AGENT) and source != _AGENT))
        and (kind == TOMBSTONE or (kind.startswith(_MINE) and _known(kind)))
    )


async def park(unit: Unit, parking: Parking) -> None:
    """Parks one record and turns its inbox outcome; a rejected one is also told on muster.dead-letters."""
    origin = parking.origin
    await unit.connection.execute(
        _INSERT,
        parking.key,
        parking.why,
        origin.topic,
        origin.partition,
        origin.offset,
        origin.timestamp,
        origin.key,
        origin.value,
        _COLUMNS.encode(origin.headers),
        parking.aggregate,
        parking.version,
        clean(parking.reason, _REASON),
        parking.attempts,
        parking.trace,
        unit.now,
    )
    await unit.connection.execute("UPDATE inbox SET outcome = 'parked' WHERE event_id = $1", parking.key)
    if parking.why == REJECTED:
        tell(unit, parking)


def tell(unit: Unit, parking: Parking) -> None:
    """Publishes the dead letter, with the service that gave up and the record as far as it fits."""
    message = dead_letter(unit.source, parking)
    message.at.CopyFrom(_stamp(unit))
    key = parking.origin.key if parking.origin.key is not None else parking.key.encode()
    unit.publish(DEAD_LETTERS, message.aggregate or parking.key, message, key=key, versioned=False)


def dead_letter(service: str, parking: Parking) -> DeadLettered:
    """The message for muster.dead-letters; the caller sets its time."""
    origin = parking.origin
    return DeadLettered(
        id=parking.key,
        service=service,
        reason=clean(parking.reason, _REASON),
        topic=origin.topic,
        partition=origin.partition,
        offset=origin.offset,
        key=(origin.key or b"")[:_SHOWN],
        value=(origin.value or b"")[:_SHOWN],
        headers=_headers(origin.headers),
        attempts=parking.attempts,
        traceparent=parking.trace or "",
        event_id=clean(origin.header("ce_id") or "", 200),
        aggregate=parking.aggregate or aggregate_of(origin),
    )


async def heads(connection: AnyConnection, topics: Sequence[Topic]) -> list[Waiting]:
    """The rows of these topics that may be handled now, one a line, at most 100."""
    names = [topic.name for topic in topics]
    compacted = [topic.name for topic in topics if topic.compacted]
    return [_waiting(row) for row in await connection.fetch(_HEADS, names, compacted)]


async def release(unit: Unit, row: Waiting) -> bool:
    """Takes one row out of its line within the transaction that handles it; False where someone else has."""
    if row.why == REJECTED:
        sql = "UPDATE parked SET done_at = $2, asked = false WHERE id = $1 AND done_at IS NULL RETURNING 1"
        gone = await unit.connection.fetchval(sql, row.id, unit.now)
    else:
        gone = await unit.connection.fetchval("DELETE FROM parked WHERE id = $1 RETURNING 1", row.id)
    await unit.connection.execute("UPDATE inbox SET outcome = 'done' WHERE event_id = $1", row.key)
    return bool(gone)


async def refuse(unit: Unit, row: Waiting, reason: str) -> None:
    """Keeps one row at the head of its line: it failed, for the first time or again."""
    await unit.connection.execute(
        """UPDATE parked SET why = 'rejected', asked = false, attempts = attempts + 1, reason = $2,
           aggregate = CASE WHEN version = 0 THEN '' ELSE aggregate END WHERE id = $1""",
        row.id,
        clean(reason, _REASON),
    )
    if row.why != REJECTED:
        tell(
            unit,
            Parking(row.key, REJECTED, row.origin, row.aggregate, row.version, reason, row.attempts + 1, row.trace),
        )


async def seen_version(unit: Unit, topic: str, aggregate: str) -> int:
    """The last version of an aggregate that was taken in; 0: none."""
    sql = "SELECT version FROM seen_versions WHERE topic = $1 AND aggregate = $2"
    return await unit.connection.fetchval(sql, topic, aggregate) or 0


async def discard(unit: Unit, row: Any, topic: Topic | None) -> tuple[str, int]:
    """Gives up one rejected row (id, event_id, topic, aggregate, version), which the caller has locked.

    Returns ('', how many waited behind it), or why that cannot be yet. Where its version is the next one, that
    version counts as taken in, so that its successor is the next; where it is a later one, giving it up now would
    leave a gap that nothing ever closes. `topic` is None where the catalogue no longer has it.
    """
    behind = 0
    if row["aggregate"]:
        (line,) = await unit.connection.fetch(_LINE, row["topic"], row["aggregate"], row["version"], row["id"])
        if topic is None or not topic.compacted:
            seen = await seen_version(unit, row["topic"], row["aggregate"])
            # Where nothing was taken in yet, what came before may have gone by retention: the line begins anywhere.
            if row["version"] > seen + 1 and (seen or line["before"]):
                return f"version {seen + 1} of {row['aggregate']} comes first, and has not been taken in", 0
            if not line["beside"] and (row["version"] == seen + 1 or line["next"]):
                await unit.connection.execute(_SEEN, row["topic"], row["aggregate"], row["version"])
        behind = line["before"] + line["beside"] + line["after"]
    await unit.connection.execute(_DISCARD, row["id"], unit.now, "given up: ", _REASON)
    await unit.connection.execute("UPDATE inbox SET outcome = 'done' WHERE event_id = $1", row["event_id"])
    return "", behind


def headers_of(column: bytes) -> tuple[tuple[str, bytes], ...]:
    """A record's headers as the table keeps them."""
    return msgspec.msgpack.decode(column, type=tuple[tuple[str, bytes], ...])


def _known(kind: str) -> bool:
    try:
        descriptor_pool.Default().FindMessageTypeByName(kind)
    except KeyError:
        return False
    return True


def _waiting(row: Any) -> Waiting:
    headers = headers_of(row["headers"])
    origin = Origin(
        row["topic"], row["partition"], row["record_offset"], row["key"], row["value"], headers, row["stamp"]
    )
    return Waiting(
        row["id"],
        str(row["event_id"]),
        row["why"],
        origin,
        row["aggregate"],
        row["version"],
        row["attempts"],
        row["trace"],
        row["seen"],
    )


def _headers(headers: Sequence[tuple[str, bytes]]) -> list[RecordHeader]:
    kept, room = [], _SHOWN
    for name, value in headers:
        room -= len(name) + len(value)
        if room < 0:
            break
        kept.append(RecordHeader(name=clean(name, 200), value=value))
    return kept


def _stamp(unit: Unit) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(unit.now)
    return stamp
