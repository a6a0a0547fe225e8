"""What the intake makes of a batch before anything is handled: each record accepted, parked or dropped."""

from __future__ import annotations

from dataclasses import dataclass, field

from muster_chassis import parking, tracing
from muster_chassis.events import Event, Origin
from muster_chassis.parking import REJECTED, Parking


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of a batch: decoded, or the reason why it cannot be."""

    key: str
    origin: Origin
    aggregate: str
    version: int
    event: Event | None
    reason: str = ""

    @property
    def line(self) -> tuple[str, str]:
        """What it waits in: one aggregate on one topic."""
        return (self.origin.topic, self.aggregate)

    @property
    def holds(self) -> bool:
        """Whether its successors wait for it once it is rejected."""
        return bool(self.aggregate) and self.version > 0 and parking.identified(self.origin)

    def parked(self, why: str, reason: str, attempts: int) -> Parking:
        """The record as it waits. A rejected one that holds nobody back stands in no line."""
        trace = self.event.traceparent if self.event else tracing.valid(self.origin.header("traceparent"))
        line = self.aggregate if why != REJECTED or self.holds else ""
        return Parking(self.key, why, self.origin, line, self.version, reason, attempts, trace)


@dataclass(slots=True)
class Admission:
    """What a batch turned into: events for the handler, and records to park."""

    accepted: list[Event] = field(default_factory=list)
    parked: list[Parking] = field(default_factory=list)
    seen: dict[tuple[str, str], int] = field(default_factory=dict)
    duplicates: int = 0
