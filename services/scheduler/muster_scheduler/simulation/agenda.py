"""What is to happen when: the simulation's only clock.

Holds: entries of one time come out in the order in which they were added, so that a run depends on nothing but its
scenario.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from muster_scheduler.domain.events import Event

Makes = Callable[..., Iterable[Event]]
Entry = tuple[Makes, tuple[Any, ...]]


class Agenda:
    """Entries by time, each a function that makes its events from the world as it is then."""

    def __init__(self) -> None:
        """Begins empty."""
        self._times: list[int] = []  # a heap, each time once
        self._entries: dict[int, list[Entry]] = {}

    def add(self, time: int, makes: Makes, *arguments: object) -> None:
        """`makes(world, *arguments)` is asked at `time`, microseconds of the domain."""
        entries = self._entries.get(time)
        if entries is None:
            entries = self._entries[time] = []
            heapq.heappush(self._times, time)
        entries.append((makes, arguments))

    def due(self, now: int) -> Iterator[Entry]:
        """Everything whose time has come, in order: who makes the events, and of what beside the world."""
        while self._times and self._times[0] <= now:
            yield from self._entries.pop(heapq.heappop(self._times))

    def next(self) -> int | None:
        """The time of the next entry, or None."""
        return self._times[0] if self._times else None
