"""Where the time of one transaction goes, step by step.

A `Steps` travels with the budget of a cycle; each step says when it is done. The clock is handed in by handlers.py,
which turns the seconds into metrics; without one (simulator, tests, questions) nothing is measured.
Holds: nothing that is decided depends on it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class Step(StrEnum):
    """The steps of a transaction, in their order; those from DUE to GROW are its cycle."""

    WAIT = "wait"
    APPLY = "apply"
    DUE = "due"
    CLAIMS = "claims"
    FILL = "fill"
    ORDER = "order"
    PLACE = "place"
    ROOM = "room"
    GROW = "grow"
    WRITE = "write"
    PUBLISH = "publish"
    COMMIT = "commit"


class Steps:
    """A stopwatch with laps."""

    __slots__ = ("_clock", "_since", "seconds")

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        """Starts. clock: seconds that never go back; None: nothing is measured."""
        self._clock = clock
        self._since = clock() if clock else 0.0
        self.seconds: dict[Step, float] = {}

    def done(self, step: Step) -> None:
        """What has passed since the last step was done is this one's."""
        if self._clock is not None:
            now = self._clock()
            self.seconds[step] = self.seconds.get(step, 0.0) + now - self._since
            self._since = now
