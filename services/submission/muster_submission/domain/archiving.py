"""When what is over is archived, by which partitions it is kept, and what goes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Self

_NAME: Final = re.compile(r"archive_(\d{4})_(\d{2})")
_DECEMBER: Final = 12


@dataclass(frozen=True, slots=True, order=True)
class Month:
    """A month of UTC, which is a partition of the archive."""

    year: int
    number: int

    @classmethod
    def of(cls, moment: datetime) -> Self:
        """The month of a moment."""
        there = moment.astimezone(UTC)
        return cls(there.year, there.month)

    @classmethod
    def of_partition(cls, name: str) -> Self | None:
        """The month of a partition; None for a table that is none."""
        found = _NAME.fullmatch(name)
        return cls(int(found[1]), int(found[2])) if found else None

    @property
    def begin(self) -> datetime:
        """Its first moment."""
        return datetime(self.year, self.number, 1, tzinfo=UTC)

    @property
    def end(self) -> datetime:
        """The first moment of the next month."""
        following = (self.year + 1, 1) if self.number == _DECEMBER else (self.year, self.number + 1)
        return datetime(*following, 1, tzinfo=UTC)

    def __str__(self) -> str:
        """Such as 2026-11."""
        return f"{self.year:04}-{self.number:02}"


def partition(month: Month) -> str:
    """The name of a month's partition."""
    return f"archive_{month.year:04}_{month.number:02}"


def lacking(ends: Iterable[datetime], there: Iterable[Month]) -> list[Month]:
    """The months of these ends that have no partition yet, in order."""
    return sorted({Month.of(end) for end in ends} - set(there))


@dataclass(frozen=True, slots=True)
class Leaving:
    """What leaves the archive: whole months, and of the month that is partly too old what ended before a moment."""

    months: tuple[Month, ...]
    before: datetime


def leaving(there: Iterable[Month], now: datetime, kept: timedelta) -> Leaving | None:
    """What is older than `kept`; None where everything is kept for ever (`kept` is zero)."""
    if not kept:
        return None
    before = now - kept
    return Leaving(tuple(sorted(month for month in there if month.end <= before)), before)
