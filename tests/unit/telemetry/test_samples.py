"""What counts as a sample, and why the rest does not."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from muster.events.v1.agent_pb2 import UsageSampled
from muster_chassis.events import Event, Origin, Reject
from muster_telemetry.samples import sample_of

ID = "00000000-0000-7000-8000-000000000001"


def event(**fields: Any) -> Event:
    message = UsageSampled(workload_id=ID, project="team-a", name="t", replica="r-0", gpu_charge=7000)
    getattr(message, "from").seconds = 10
    message.to.seconds = 12
    for name, value in fields.items():
        setattr(message, name, value)
    return of(message)


def of(message: Any) -> Event:
    origin = Origin("muster.samples", 0, 0, b"k", b"v", ())
    return Event(ID, "t", "agent/a", ID, 0, datetime(2026, 1, 1, tzinfo=UTC), message, origin, None)


def test_a_sample() -> None:
    sample = sample_of(event())
    assert (sample.workload, sample.replica, sample.span, sample.charge) == (ID, "r-0", (10_000_000, 12_000_000), 7000)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"workload_id": "x"}, "expected a UUID"),
        ({"replica": ""}, "replica is ''"),
        ({"project": "a\0b"}, "none of them NUL"),
        ({"name": "x" * 300}, "name is"),
        ({"gpu_charge": 2**63}, "at most"),
    ],
)
def test_what_is_rejected(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(Reject) as caught:
        sample_of(event(**fields))
    assert said in caught.value.reason


def test_times_that_cannot_be() -> None:
    wrong = event().message
    assert isinstance(wrong, UsageSampled)
    wrong.to.seconds = 2**62
    with pytest.raises(Reject, match="none that can be"):
        sample_of(of(wrong))
    with pytest.raises(Reject, match="no value"):
        sample_of(of(None))
