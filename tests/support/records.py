"""Records as they come from Kafka, made by hand, for tests that feed an intake without a broker."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from google.protobuf.message import Message

from muster_chassis import identity
from muster_chassis.codec import encode_headers
from muster_chassis.database import Database
from muster_chassis.events import Event, Origin
from muster_chassis.intake import Handler, Intake
from muster_chassis.topics import SUBMISSIONS, Topic
from muster_chassis.unit import Unit
from tests.support.stations import DECODER, asked

_offsets = itertools.count()


def record(
    workload: str,
    version: int = 0,
    *,
    message: Message | None = None,
    topic: Topic = SUBMISSIONS,
    partition: int = 0,
    value: bytes | None = None,
    event_id: str | None = None,
) -> Origin:
    """One record of ours; `value` replaces the message's bytes."""
    content = message or asked(workload)
    headers = encode_headers(
        event_id=event_id or identity.event_id(),
        event_type=content.DESCRIPTOR.full_name,
        source="submission",
        aggregate=workload,
        version=version,
        time=datetime(2026, 1, 1, tzinfo=UTC),
        traceparent=None,
    )
    body = content.SerializeToString() if value is None else value
    return Origin(topic.name, partition, next(_offsets), workload.encode(), body, tuple(headers))


def poison(workload: str, version: int = 0, **options: Any) -> Origin:
    """A record that cannot be decoded."""
    return record(workload, version, value=b"\xff\xff\xff", **options)


def intake(database: Database, handler: Handler, kind: type[Intake] = Intake, **options: Any) -> Intake:
    """An intake of muster.submissions."""
    made = kind(database, handler, [SUBMISSIONS], DECODER, **options)
    made.bus = "test-bus"
    return made


class Ledger:
    """A handler that counts in PostgreSQL and follows in memory: what both say can be compared."""

    def __init__(self) -> None:
        self.memory: dict[str, int] = {}
        self.order: list[tuple[str, int]] = []
        self.refuse: dict[str, Exception] = {}

    async def __call__(self, unit: Unit, events: Sequence[Event]) -> None:
        """Counts each event under its aggregate."""
        for event in events:
            if event.aggregate in self.refuse:
                raise self.refuse[event.aggregate]
            await unit.connection.execute(
                "INSERT INTO ledger VALUES ($1, 1) ON CONFLICT (aggregate) DO UPDATE SET count = ledger.count + 1",
                event.aggregate,
            )
        unit.after_commit(lambda: self._follow(events))

    def _follow(self, events: Sequence[Event]) -> None:
        for event in events:
            self.memory[event.aggregate] = self.memory.get(event.aggregate, 0) + 1
            self.order.append((event.aggregate, event.version))

    async def truth(self, database: Database) -> dict[str, int]:
        """What PostgreSQL says."""
        rows = await database.pool.fetch("SELECT aggregate, count FROM ledger")
        return {row["aggregate"]: row["count"] for row in rows}


async def with_ledger(database: Database) -> Ledger:
    """A ledger and its table."""
    await database.pool.execute("CREATE TABLE IF NOT EXISTS ledger (aggregate text PRIMARY KEY, count bigint)")
    return Ledger()
