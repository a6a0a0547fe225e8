"""Records of muster.samples as samples: what the agents write, checked.

Used by the stream. Holds: what cannot be counted raises Reject with the reason, and so becomes a dead letter.
"""

from __future__ import annotations

from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from muster.events.v1.agent_pb2 import UsageSampled
from muster_chassis.codec import MessageDecoder
from muster_chassis.events import Event, Reject
from muster_kernel.ids import is_uuid
from muster_telemetry.domain.accounts import Sample, objection

DECODER: Final = MessageDecoder([UsageSampled])
_LONGEST_TEXT: Final = 253
_SECOND: Final = 1_000_000_000  # nanoseconds
_LATEST: Final = 253_402_300_799  # the last second of the year 9999, as protobuf has it


def sample_of(event: Event) -> Sample:
    """The sample in an event. Raises Reject where there is none that can be counted."""
    message = event.message
    if not isinstance(message, UsageSampled):
        raise Reject("a record of muster.samples has no value: nothing there is ever deleted")
    if not is_uuid(message.workload_id):
        raise Reject(f"workload_id is {message.workload_id[:60]!r}: expected a UUID")
    sample = Sample(
        message.workload_id,
        _text(message.project, "project"),
        _text(message.name, "name", empty=True),
        _text(message.replica, "replica"),
        (_micros(getattr(message, "from")), _micros(message.to)),
        message.gpu_charge,
    )
    refused = objection(sample)
    if refused is not None:
        raise Reject(refused)
    return sample


def _text(text: str, what: str, *, empty: bool = False) -> str:
    if not (text or empty) or "\0" in text or len(text) > _LONGEST_TEXT:
        raise Reject(f"{what} is {text[:60]!r}: expected 1 to {_LONGEST_TEXT} characters, none of them NUL")
    return text


def _micros(stamp: Timestamp) -> int:
    if not (0 <= stamp.seconds <= _LATEST and 0 <= stamp.nanos < _SECOND):
        raise Reject(f"a time of {stamp.seconds} s and {stamp.nanos} ns since 1970 is none that can be")
    return stamp.seconds * 1_000_000 + stamp.nanos // 1_000
