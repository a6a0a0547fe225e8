"""The starts of a workload, from what its history has of places and phases.

Called where one workload is shown. An attempt begins with its placement and ends when its end is ordered, not
when its last process is gone: what people ask is how long it ran, and why no longer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from muster_kernel.lifecycle import ACTIVE, Phase
from muster_submission.domain.others import Other

MOST: Final = 20
"""Attempts that are shown, the last ones."""
STEPS: Final = 400
"""Entries of a history that are read for them: an attempt has about six."""
_THERE: Final = ACTIVE | {Phase.UNKNOWN}
_UP: Final = frozenset({Phase.RUNNING, Phase.DEGRADED, Phase.UPDATING, Phase.COMPLETED})


class Step(NamedTuple):
    """One entry of a history: it got a place, or it went from one phase to another."""

    at: datetime
    attempt: int
    before: Phase | None
    after: Phase
    cluster: str
    code: str
    text: str
    other: Other | None = None


@dataclass(slots=True)
class Attempt:
    """One start. running: when it first ran. ended: when its end was ordered; why: the step that ended it."""

    number: int
    cluster: str
    placed: datetime
    running: datetime | None = None
    ended: datetime | None = None
    why: Step | None = None


def attempts(steps: Iterable[Step]) -> list[Attempt]:
    """The last starts, oldest first. steps: oldest first; a history that begins in the middle of a start is enough."""
    found: list[Attempt] = []
    for step in steps:
        if step.after in _THERE and (not found or found[-1].number < step.attempt):
            found.append(Attempt(step.attempt, step.cluster, step.at))
        if not found:
            continue
        last = found[-1]
        if last.running is None and last.ended is None and step.after in _UP:
            last.running = step.at
        if last.ended is None and step.after not in _THERE and step.before in _THERE:
            last.ended, last.why = step.at, step
    return found[-MOST:]
