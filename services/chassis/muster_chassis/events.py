"""A record that came in, as services see it, and the two ways to refuse it.

To a stream there are three answers: done (return), retry, reject. Everything else that a handler raises is tried a
bounded number of times and then counts as rejected.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from google.protobuf.message import Message

from muster_chassis.text import clean

LARGEST_VERSION: Final = 2**63 - 1
_REASON_LIMIT: Final = 2000


class Reject(Exception):
    """Poison: this event can never be handled. It goes to the dead letters with the reason."""

    def __init__(self, reason: str | bytes) -> None:
        self.reason = clean(reason, _REASON_LIMIT)
        super().__init__(self.reason)


class Retry(Exception):
    """Transient: try again with a backoff, without limit, partitions paused meanwhile."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a record stood, and its bytes as they were. `timestamp`: Kafka's, in milliseconds since 1970."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    timestamp: int = 0

    def header(self, name: str) -> str | None:
        """The text of the last header called `name`; None where there is none or it is no UTF-8."""
        for key, value in reversed(self.headers):
            if key == name:
                try:
                    return value.decode()
                except UnicodeDecodeError:
                    return None
        return None


@dataclass(frozen=True, slots=True)
class Event:
    """One record, decoded. `version` is 0 where its aggregate is not versioned (reports, heartbeats)."""

    id: str
    type: str
    source: str
    aggregate: str
    version: int
    time: datetime
    message: Message | None
    """None: a tombstone, or an event of a type that this consumer did not ask for."""
    origin: Origin
    traceparent: str | None

    @property
    def tombstone(self) -> bool:
        """Whether the record says that its key is no more."""
        return self.origin.value is None
