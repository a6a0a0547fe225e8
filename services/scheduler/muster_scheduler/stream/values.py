"""Values of records, checked: what cannot mean anything raises Reject and becomes a dead letter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from muster_chassis.events import Reject
from muster_kernel.ids import is_uuid
from muster_scheduler.domain.asked.workloads import SECOND

MESSAGE_LIMIT: Final = 1024
MOST: Final = 1 << 53  # milli-CPU or bytes of one node or request: beyond any, and sums of many nodes stay exact
_LARGEST: Final = (1 << 63) - 1
_NAME_LIMIT: Final = 253
RESOURCE_LIMIT: Final = 316  # characters of a domain and a name
_MOST_RESOURCES: Final = 64
_LINES: Final = 3  # of a log that a message shows
_LINE: Final = 160  # characters of each
_TAIL: Final = 4096
# CSI and OSC sequences, ended or cut off, and what else begins with ESC.
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]?|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")
_LAST_SECOND: Final = 253_402_300_799  # of the year 9999, the last that a Timestamp may name


def workload_id(text: str) -> str:
    """A workload's id. Raises Reject."""
    if not is_uuid(text):
        raise Reject(f"workload_id is {text[:60]!r}: expected a UUID in lower case")
    return text


def number(value: int, what: str, largest: int = _LARGEST) -> int:
    """A number within its bounds. Raises Reject."""
    if value > largest:
        raise Reject(f"{what} is {value}: at most {largest} is allowed")
    return value


def amounts(named: Mapping[str, int]) -> dict[str, int]:
    """Amounts of named resources, by name: the first so many, each at most what anybody counts."""
    kept = sorted(name for name in named if named[name])[:_MOST_RESOURCES]
    return {text(name, RESOURCE_LIMIT): min(named[name], MOST) for name in kept}


def micros(time: Timestamp) -> int:
    """Microseconds since 1970. Raises Reject."""
    if not -_LAST_SECOND <= time.seconds <= _LAST_SECOND:
        raise Reject(f"a time is {time.seconds} seconds from 1970: expected one of the years 1 to 9999")
    return time.seconds * SECOND + time.nanos // 1000


def last_lines(tail: str) -> str:
    """The last lines of a log in one line, printable and short; empty where it has none.

    They are read in lists and stored with a reason, so nothing of a terminal's language may be left in them.
    """
    bare = _ESCAPES.sub("", tail[-_TAIL:])
    lines = ("".join(each if each.isprintable() else " " for each in line).strip() for line in bare.splitlines())
    kept = [line for line in lines if line][-_LINES:]
    return " | ".join(line if len(line) <= _LINE else f"{line[:_LINE]}..." for line in kept)


def text(value: str, limit: int = _NAME_LIMIT) -> str:
    """Text cut to `limit` characters, without what PostgreSQL cannot store."""
    return value.replace("\x00", "\N{REPLACEMENT CHARACTER}")[:limit]
