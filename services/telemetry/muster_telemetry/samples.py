"""Records of muster.samples as samples: what the agents write, checked.

Used by the stream. Holds: a sample that cannot be counted is told with the reason and costs its neighbours nothing; a
record of which nothing can be counted raises Reject, and so becomes a dead letter.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from google.protobuf.timestamp_pb2 import Timestamp

from muster.events.v1.agent_pb2 import UsageSample, UsageSampled
from muster_chassis.codec import MessageDecoder
from muster_chassis.events import Event, Reject
from muster_kernel.ids import is_uuid
from muster_telemetry.domain.accounts import Sample, objection

DECODER: Final = MessageDecoder([UsageSampled])
_LONGEST_TEXT: Final = 253
_SECOND: Final = 1_000_000_000  # nanoseconds
_LATEST: Final = 253_402_300_799  # the last second of the year 9999, as protobuf has it


class Rest(NamedTuple):
    """What of a record cannot be counted, as a record of its own, and why."""

    value: bytes
    reason: str


def samples_of(event: Event) -> tuple[list[Sample], Rest | None]:
    """The samples in an event, and the rest. Raises Reject where there is none that can be counted."""
    message = event.message
    if not isinstance(message, UsageSampled):
        raise Reject("a record of muster.samples has no value: nothing there is ever deleted")
    if not message.samples:
        raise Reject("a record of muster.samples has no samples: expected at least one")
    good: list[Sample] = []
    bad: list[UsageSample] = []
    reasons: list[str] = []
    for number, sample in enumerate(message.samples):
        try:
            good.append(_sample_of(sample))
        except Reject as poison:
            bad.append(sample)
            reasons.append(f"samples[{number}]: {poison.reason}")
    if not bad:
        return good, None
    reason = f"{len(bad)} of {len(message.samples)} samples cannot be counted; {reasons[0]}"
    if not good:
        raise Reject(reason)
    return good, Rest(UsageSampled(cluster=message.cluster, samples=bad).SerializeToString(), reason)


def _sample_of(message: UsageSample) -> Sample:
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
