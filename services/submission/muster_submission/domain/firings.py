"""What one event makes one rule do: start, wait, or be dropped; once within the rule's window.

Called under the lock of the rule, so that what it is told about the rule's runs stays true until the decision is
written. Holds: an event that is remembered fires nothing; no start goes beyond the rule's limits; nobody overtakes
those that wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Final

MOST_WAITING: Final = 1000
WAIT: Final = timedelta(hours=1)


class Outcome(IntEnum):
    """What came of a firing; the numbers are those of the API and of the books."""

    WAITING = 1
    STARTED = 2
    DROPPED = 3
    EXPIRED = 4
    ERROR = 5


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `runs` starts within any stretch of the length `per`."""

    runs: int
    per: timedelta


@dataclass(frozen=True, slots=True)
class Excess:
    """What happens above the limits: it waits, at most so many for so long, or is dropped."""

    waits: bool = True
    most: int = MOST_WAITING
    deadline: timedelta = WAIT


@dataclass(frozen=True, slots=True)
class Limits:
    """A rule's limits. `running` 0 and `rate` None: none."""

    running: int = 0
    rate: Rate | None = None
    excess: Excess = Excess()


@dataclass(frozen=True, slots=True)
class Load:
    """What a rule has under way: runs that have not ended, starts within its rate's stretch, firings that wait."""

    running: int = 0
    recent: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class Before:
    """The last firing of a rule by an event: its number, and until when the event is remembered."""

    number: int
    until: datetime


@dataclass(frozen=True, slots=True)
class Start:
    """A run starts now."""


@dataclass(frozen=True, slots=True)
class Wait:
    """It waits for the limits; `why` names the one that it waits for."""

    until: datetime
    why: str


@dataclass(frozen=True, slots=True)
class Drop:
    """It is dropped; `why` is a sentence for people."""

    why: str


Decision = Start | Wait | Drop


def number(before: Before | None, now: datetime, *, replayed: bool = False) -> int | None:
    """The number of a firing by an event whose last firing was `before`; None: it is remembered, nothing happens."""
    if before is None:
        return 1
    return before.number + 1 if replayed or now >= before.until else None


def decide(limits: Limits, load: Load, now: datetime) -> Decision:
    """What a new firing does. Behind others that wait it waits too."""
    above = exceeded(limits, load)
    excess = limits.excess
    if not above and not (load.waiting and excess.waits):
        return Start()
    above = above or f"{load.waiting} firings wait before it"
    if not excess.waits:
        return Drop(above)
    if load.waiting >= excess.most:
        return Drop(f"{above}; {load.waiting} firings wait already, at most {excess.most} may")
    return Wait(now + excess.deadline, above)


def exceeded(limits: Limits, load: Load) -> str:
    """The limit that one more start would exceed, as a sentence; empty: none."""
    if limits.running and load.running >= limits.running:
        return f"{load.running} runs of the trigger have not ended, at most {limits.running} may be at once"
    if limits.rate is not None and load.recent >= limits.rate.runs:
        per = f"{limits.rate.per.total_seconds():g} s"
        return f"{load.recent} runs were started within {per}, at most {limits.rate.runs} may be"
    return ""
