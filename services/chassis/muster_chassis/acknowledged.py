"""What Kafka has acknowledged of each partition, so that a loss is noticed: a log must not become shorter.

Kept by the relay. A broker that comes back without its disk, or a leader that lacked what was acknowledged, has the id
of its cluster still: without this the records would be missing, and nothing would say so. Holds: an offset counts once
Kafka has acknowledged it, and is written down within a second; what is forgotten by a crash is at most noticed later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from muster_chassis import metrics
from muster_chassis.connection import AnyConnection

_WRITE: Final = """
INSERT INTO acknowledged_offsets AS a (lane, bus, topic, partition, last)
SELECT $1, $2, t, p, o FROM unnest($3::text[], $4::integer[], $5::bigint[]) AS u (t, p, o)
ON CONFLICT (lane, bus, topic, partition) DO UPDATE SET last = excluded.last
"""
Partition = tuple[str, int]

LOST: Final = metrics.counter(
    "muster_records_lost_total",
    unit="losses",
    meaning="How often a partition of Kafka was shorter than what it had acknowledged, by topic.",
    action="Look at Kafka: a disk was lost, or a leader was elected that lacked records. They are published again.",
    labels=("topic",),
)


class Acknowledged:
    """The highest offsets of one lane on one bus."""

    def __init__(self, lane: int) -> None:
        self._lane = lane
        self._last: dict[Partition, int] = {}
        self._unwritten: set[Partition] = set()

    async def load(self, connection: AnyConnection, bus: str) -> None:
        """Begins with what is written down for a bus."""
        rows = await connection.fetch(
            "SELECT topic, partition, last FROM acknowledged_offsets WHERE lane = $1 AND bus = $2", self._lane, bus
        )
        self._last = {(row["topic"], row["partition"]): row["last"] for row in rows}
        self._unwritten.clear()

    async def save(self, connection: AnyConnection, bus: str) -> None:
        """Writes down what is new."""
        places = sorted(self._unwritten)
        if not places:
            return
        await connection.execute(
            _WRITE,
            self._lane,
            bus,
            [topic for topic, _ in places],
            [number for _, number in places],
            [self._last[place] for place in places],
        )
        self._unwritten.difference_update(places)

    def note(self, offsets: Iterable[tuple[str, int, int]]) -> set[str]:
        """Takes in (topic, partition, offset) of acknowledged records; the topics that have lost some before these."""
        lost, highest = set[str](), dict[Partition, int]()
        for topic, number, offset in offsets:
            place = topic, number
            # Within one pass answers may come in any order: only what was known before it counts.
            if 0 <= offset <= self._last.get(place, -1):  # below 0: Kafka had it already and does not say where
                lost.add(topic)
            highest[place] = max(highest.get(place, -1), offset)
        for place, offset in highest.items():
            if place[0] in lost or offset > self._last.get(place, -1):
                self._last[place] = offset
                self._unwritten.add(place)
        return self._told(lost)

    def compare(self, ends: Mapping[Partition, int]) -> set[str]:
        """Takes in where partitions end, the offset after the last record; the topics that have lost some."""
        lost = set[str]()
        for place, end in ends.items():
            if place in self._last and end <= self._last[place]:
                lost.add(place[0])
                self._last[place] = end - 1
                self._unwritten.add(place)
        return self._told(lost)

    @property
    def partitions(self) -> list[Partition]:
        """Those that something is known of."""
        return sorted(self._last)

    def _told(self, lost: set[str]) -> set[str]:
        for topic in lost:
            LOST.labels(topic).inc()
        return lost
