"""Reports with numbers that no agent can have written: refused as they are translated, before any state sees them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from muster.events.v1 import agent_pb2
from muster_chassis.events import Event, Origin, Reject
from muster_chassis.topics import reports
from muster_scheduler import stream
from muster_scheduler.domain.events import HeartbeatSeen

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _heartbeat(*, start: int = 1, sequence: int = 1) -> Event:
    order = agent_pb2.ReportOrder(cluster="north", instance="one", start=start, sequence=sequence)
    message = agent_pb2.Heartbeat(order=order)
    origin = Origin(reports("north").name, 0, 1, b"north", message.SerializeToString(), ())
    return Event("id", message.DESCRIPTOR.full_name, "agent/north", "north", 0, NOW, message, origin, None)


def test_the_numbers_of_an_old_agent_are_taken() -> None:
    translated = stream.translate(_heartbeat(start=1_000_000, sequence=1 << 40))
    assert isinstance(translated, HeartbeatSeen)
    assert (translated.order.start, translated.order.sequence) == (1_000_000, 1 << 40)


@pytest.mark.parametrize("number", [1 << 62, (1 << 63) - 1, (1 << 63) + 9, (1 << 64) - 1])
@pytest.mark.parametrize("field", ["start", "sequence"])
def test_a_number_that_no_agent_reaches_is_refused(field: str, number: int) -> None:
    with pytest.raises(Reject, match=rf"order\.{field} is {number}: at most \d+ is allowed"):
        stream.translate(_heartbeat(**{field: number}))


def test_a_time_beyond_every_calendar_is_refused() -> None:
    event = _heartbeat()
    assert isinstance(event.message, agent_pb2.Heartbeat)
    event.message.order.observed_at.seconds = 1 << 60
    with pytest.raises(Reject, match="seconds from 1970"):
        stream.translate(event)
