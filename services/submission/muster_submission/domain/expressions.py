"""What a rule asks of an event in CEL, and what comes back.

Asked by the handlers of triggers, answered by whatever stands behind the port `Expressions`. Holds: an answer's texts
have the question's keys, without the condition's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from muster_submission.domain.cloudevents import CloudEvent

CONDITION: Final = "condition"
"""The key of the expression that decides whether the rule takes the event at all."""


@dataclass(frozen=True, slots=True)
class Schema:
    """How protobuf data is read: a serialised FileDescriptorSet, and the full name of the message."""

    descriptor_set: bytes
    message: str


@dataclass(frozen=True, slots=True)
class Question:
    """Expressions by key, over one event."""

    expressions: Mapping[str, str]
    event: CloudEvent
    schema: Schema | None = None


@dataclass(frozen=True, slots=True)
class Values:
    """Every expression has a value. `matched`: the condition holds; where it does not, nothing else was looked at."""

    matched: bool
    texts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Broken:
    """An expression has no value. `runaway`: it took more than its share of time or memory."""

    why: str
    runaway: bool = False


Answer = Values | Broken
