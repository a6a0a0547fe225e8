"""Timestamps of protobuf requests as Python's datetimes, refused by name where they are none.

Called by gRPC methods for each moment that a caller names. protobuf takes any 64 bits as seconds and any 32 as
nanoseconds; Python's calendar ends in the year 9999.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from muster_chassis.errors import InvalidArgument, Violation

_NANOS: Final = 10**9
_ALLOWED: Final = "seconds from 0001-01-01 to 9999-12-31 and nanos from 0 to 999999999"


def moment_of(given: Timestamp, field: str) -> datetime:
    """The moment in UTC. Raises InvalidArgument, which names `field`."""
    try:
        if 0 <= given.nanos < _NANOS:
            return given.ToDatetime(UTC)
    except (ValueError, OverflowError):
        pass  # answered below, as nanos out of range are
    told = f"{field} is no moment: it has seconds {given.seconds} and nanos {given.nanos}; expected {_ALLOWED}"
    raise InvalidArgument(told, violations=[Violation(field, f"expected {_ALLOWED}")])
