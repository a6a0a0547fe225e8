"""One transaction: the rows that a handler writes, the events that it publishes, and the actions after the commit.

Handlers get a Unit from the consumer loop or from `Database.unit`. The last statements of the transaction insert the
published events into the outbox, and then the commit row. Other sessions see nothing of it before it commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import asyncpg
import msgspec
from google.protobuf.message import Message

from muster_chassis import identity, tracing
from muster_chassis.codec import LARGEST_VALUE, TOMBSTONE
from muster_chassis.events import Reject
from muster_chassis.topics import Topic, named

ORDINARY: Final = 0
ASSIGNMENTS: Final = 1
_NO_HEADERS: Final[Mapping[str, str]] = {}
_SEAL: Final = f"SELECT seal_unit({', '.join(f'${number}' for number in range(1, 22))})"


def lane_of(topic: str) -> int:
    """Return the lane of a topic: the leader's own producer publishes assignments (outbox.py)."""
    return ASSIGNMENTS if topic.endswith(".assignments") else ORDINARY


class ValueTooLarge(Reject):
    """An event that no consumer could read: its value is above the size limit of a record."""


@dataclass(frozen=True, slots=True)
class Staged:
    """One future row of the outbox."""

    event_id: str
    lane: int
    topic: str
    aggregate: str
    versioned: bool
    key: bytes
    type: str
    headers: str | None
    value: bytes | None
    trace: str | None


@dataclass(slots=True)
class Settlement:
    """Rows that the consumer loop writes in addition to the handler: the versions that it has seen, and its offsets."""

    seen: dict[tuple[str, str], int] = field(default_factory=dict)
    consumer: str = ""
    bus: str = ""
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)


class Unit:
    """One open transaction. Use it in one task only, and not after its block has ended."""

    def __init__(self, connection: asyncpg.Connection, now: datetime, source: str) -> None:
        self.connection = connection
        self.now = now
        self.source = source
        self.commit_id = identity.event_id()
        self.traces: Mapping[str, str] = {}
        """The trace of each aggregate whose event is being handled. Events published for the aggregate continue it."""
        self.settlement: Settlement | None = None
        self._staged: list[Staged] = []
        self._ended: set[str] = set()
        self._after_commit: list[Callable[[], None]] = []
        self._after_rollback: list[Callable[[], None]] = []

    def publish(
        self,
        topic: str | Topic,
        aggregate: str,
        message: Message | None,
        *,
        key: str | bytes | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
        versioned: bool = True,
        event_id: str | None = None,
    ) -> str:
        """Stage one event and return its id. `message` None is a tombstone; `key` defaults to the aggregate.

        Raises ValueTooLarge above 1 MiB and KeyError for a topic outside the catalogue.
        """
        declared = topic if isinstance(topic, Topic) else named(topic)
        value = None if message is None else message.SerializeToString()
        if value is not None and len(value) > LARGEST_VALUE:
            raise ValueTooLarge(
                f"{declared.name}: the event of {aggregate} has {len(value)} bytes; at most {LARGEST_VALUE} are allowed"
            )
        made = event_id or identity.event_id()
        plain = aggregate if key is None else key
        self._staged.append(
            Staged(
                event_id=made,
                lane=lane_of(declared.name),
                topic=declared.name,
                aggregate=aggregate,
                versioned=versioned,
                key=plain.encode() if isinstance(plain, str) else plain,
                type=TOMBSTONE if message is None else message.DESCRIPTOR.full_name,
                headers=msgspec.json.encode(dict(headers)).decode() if headers else None,
                value=value,
                trace=self.traces.get(aggregate) or tracing.current(),
            )
        )
        return made

    def mark_ended(self, aggregates: Iterable[str]) -> None:
        """Mark these aggregates as over: their events and version numbers are kept for days only (retention.py).

        A second mark starts these days again.
        """
        self._ended.update(aggregates)

    def after_commit(self, action: Callable[[], None]) -> None:
        """Call `action` once this transaction is known to be committed, in the order of staging; never otherwise."""
        self._after_commit.append(action)

    def after_rollback(self, action: Callable[[], None]) -> None:
        """Call `action` once this transaction has ended and is not known to be committed; never otherwise."""
        self._after_rollback.append(action)

    @property
    def staged(self) -> Sequence[Staged]:
        """The events that were published so far."""
        return self._staged

    async def seal(self) -> None:
        """Write the last rows in one round trip: the settlement, the outbox under its lock, the commit row."""
        settlement, rows = self.settlement or Settlement(), self._staged
        seen, offsets = settlement.seen, settlement.offsets
        await self.connection.execute(
            _SEAL,
            self.commit_id,
            self.now,
            sorted(self._ended),
            [topic for topic, _ in seen],
            [aggregate for _, aggregate in seen],
            list(seen.values()),
            settlement.consumer,
            settlement.bus,
            [topic for topic, _ in offsets],
            [partition for _, partition in offsets],
            list(offsets.values()),
            [row.event_id for row in rows],
            [row.lane for row in rows],
            [row.topic for row in rows],
            [row.aggregate for row in rows],
            [row.versioned for row in rows],
            [row.key for row in rows],
            [row.type for row in rows],
            [row.headers for row in rows],
            [row.value for row in rows],
            [row.trace for row in rows],
        )

    def committed(self) -> None:
        """Run the actions that update memory. The owner calls this once."""
        self._after_rollback.clear()
        for action in self._after_commit:
            action()

    def rolled_back(self) -> None:
        """Undo early changes in memory. The owner calls this if the transaction did not commit."""
        actions, self._after_rollback = self._after_rollback, []
        for action in actions:
            action()
