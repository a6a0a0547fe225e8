"""Records in and out: what we write we read, what is odd is read anyway, what is poison says why."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.events.v1.submission_pb2 import DeletionRequested, SuspendRequested
from muster_chassis.codec import LARGEST_VALUE, MessageDecoder, inbox_key, place_key
from muster_chassis.events import LARGEST_VERSION, Event, Origin, Reject
from tests.support.records import record
from tests.support.stations import DECODER, asked

_NO_MESSAGE = b"\xff\xff\xff"


def _with(origin: Origin, **headers: bytes | None) -> Origin:
    """The record with headers replaced, or taken away."""
    kept = tuple((name, value) for name, value in origin.headers if name not in headers)
    return replace(origin, headers=kept + tuple((n, v) for n, v in headers.items() if v is not None))


def test_what_we_write_we_read() -> None:
    event = DECODER(record("w1", 7))
    assert (event.aggregate, event.version, event.type) == ("w1", 7, "muster.events.v1.SuspendRequested")
    assert event.message == asked("w1")
    assert event.time == datetime(2026, 1, 1, tzinfo=UTC)


def test_a_tombstone_has_no_message() -> None:
    event = DECODER(replace(record("w1"), value=None))
    assert event.message is None
    assert event.tombstone


def test_types_that_nobody_asked_for_are_not_parsed() -> None:
    lazy = MessageDecoder([SuspendRequested, DeletionRequested], wants=[DeletionRequested])
    assert lazy(record("w1", value=_NO_MESSAGE)).message is None


@pytest.mark.parametrize(
    ("header", "value", "reason"),
    [
        ("ce_id", None, "ce_id"),
        ("ce_id", b"not a uuid", "ce_id"),
        ("ce_id", b"\xff\xfe", "ce_id"),
        ("ce_type", b"muster.events.v1.Unheard", "no message of that name"),
        ("ce_subject", b"a\x00b", "NUL"),
        ("ce_subject", b"x" * 600, "at most"),
        ("muster_version", b"-1", "a number"),
        ("muster_version", str(2**63).encode(), "a number"),
        ("muster_version", b"9" * 400, "a number"),
        ("muster_version", "\u0661".encode(), "a number"),
    ],
)
def test_poison_says_what_is_wrong(header: str, value: bytes | None, reason: str) -> None:
    with pytest.raises(Reject, match=reason):
        DECODER(_with(record("w1"), **{header: value}))


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("ce_time", None),
        ("ce_time", b"yesterday"),
        ("ce_time", b"9999-12-31T23:59:59-23:59"),
        ("ce_source", None),
        ("traceparent", b"nonsense"),
        ("traceparent", None),
        ("ce_specversion", b"7"),
        ("muster_version", None),
        ("muster_version", str(LARGEST_VERSION).encode()),
        ("something_else", b"\xff"),
    ],
)
def test_oddities_are_read_anyway(header: str, value: bytes | None) -> None:
    assert DECODER(_with(record("w1"), **{header: value})).message == asked("w1")


@pytest.mark.parametrize("stamp", [-1, 0, 2**62])
def test_any_clock_will_do(stamp: int) -> None:
    assert DECODER(_with(replace(record("w1"), timestamp=stamp), ce_time=None)).aggregate == "w1"


def test_bytes_that_are_no_message_are_poison() -> None:
    with pytest.raises(Reject, match="the value is no muster"):
        DECODER(record("w1", value=_NO_MESSAGE))


def test_what_is_too_large_is_poison() -> None:
    with pytest.raises(Reject, match=f"at most {LARGEST_VALUE}"):
        DECODER(record("w1", value=b"x" * (LARGEST_VALUE + 1)))


@given(st.binary(max_size=300), st.lists(st.tuples(st.text(max_size=20), st.binary(max_size=40)), max_size=12))
def test_anything_is_an_event_or_a_reject(value: bytes, headers: list[tuple[str, bytes]]) -> None:
    outcome: Event | Reject
    try:
        outcome = DECODER(Origin("muster.submissions", 0, 0, None, value, tuple(headers)))
    except Reject as poison:
        outcome = poison
    assert isinstance(outcome, Event) or "\x00" not in outcome.reason


def test_foreign_records_are_known_by_their_place_on_one_bus() -> None:
    origin = record("w1")
    foreign = replace(DECODER(origin), id="their own id")
    assert inbox_key(DECODER(origin), "bus") == DECODER(origin).id
    assert inbox_key(foreign, "bus") == place_key(origin, "bus") != place_key(origin, "another bus")
