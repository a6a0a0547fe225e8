"""Times and amounts in the words of people. Pure: now is an argument."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from muster_kernel.quantities import format_bytes, format_gpu

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_KIBI: Final = 1024.0


def time_of(stamp: Timestamp) -> datetime | None:
    """A time, or None where the message has none."""
    return stamp.ToDatetime(UTC) if stamp.seconds or stamp.nanos else None


def age(since: datetime | None, now: datetime) -> str:
    """How long ago, in one unit: 5s, 12m, 3h, 9d. A clock that is ahead of ours makes 0s, never a negative age."""
    return "-" if since is None else short_span((now - since).total_seconds())


def short_span(seconds: float) -> str:
    """A span for a table: 5s, 12m, 3h, 9d."""
    seconds = max(0, int(seconds))
    for unit, letter in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "m")):
        if seconds >= 2 * unit or (unit == _DAY and seconds >= unit):
            return f"{seconds // unit}{letter}"
    return f"{seconds}s"


def span(seconds: float) -> str:
    """A span in a sentence: 5 s, 12 min, 3 h 10 min, 9 days."""
    whole = max(0, round(seconds))
    if whole < 2 * _MINUTE:
        return f"{whole} s"
    if whole < 2 * _HOUR:
        return f"{whole // _MINUTE} min"
    if whole < 2 * _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"
    return f"{whole // _DAY} days"


def clock(moment: datetime | None) -> str:
    """A time of day with its date, in UTC."""
    return "-" if moment is None else moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def gpus(units: int) -> str:
    """An account of 1/7,000 GPU as GPUs."""
    return format_gpu(units)


def memory(amount: int) -> str:
    """Bytes, rounded to what a table has room for: 31.5Gi."""
    exact = format_bytes(amount)
    if len(exact) <= len("1023Mi"):
        return exact
    number, suffix = float(amount), ""
    for suffix in ("", "Ki", "Mi", "Gi", "Ti", "Pi"):  # noqa: B007  read after the loop
        if number < _KIBI:
            break
        number /= _KIBI
    return f"{number:.1f}".removesuffix(".0") + suffix


def cores(milli: int) -> str:
    """CPU in cores: 8, 0.5."""
    return f"{milli / 1000:g}"


def ordinal(number: int) -> str:
    """first, second, third, 4th .."""
    words = {1: "first", 2: "second", 3: "third"}
    if number in words:
        return words[number]
    endings = {1: "st", 2: "nd", 3: "rd"}
    teens = number % 100 in {11, 12, 13}
    return f"{number}{'th' if teens else endings.get(number % 10, 'th')}"
