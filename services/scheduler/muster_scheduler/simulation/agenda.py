"""What is to happen when: the simulation's only clock.

Holds: entries of one time come out in the order in which they were added, so that a run depends on nothing but its
scenario.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.events import Event

Makes = Callable[..., Iterable[Event]]


class Agenda:
    """Entries by time, each a function that makes its events from the world as it is then."""

    def __init__(self) -> None:
        """Begins empty."""
        self._heap: list[tuple[int, int, Makes, tuple[Any, ...]]] = []
        self._added = 0

    def add(self, time: int, makes: Makes, *arguments: object) -> None:
        """`makes(world, *arguments)` is asked at `time`, microseconds of the domain."""
        self._added += 1
        heapq.heappush(self._heap, (time, self._added, makes, arguments))

    def due(self, world: World, now: int) -> Iterator[Event]:
        """The events of everything whose time has come, in order, made one after the other."""
        while self._heap and self._heap[0][0] <= now:
            _, _, makes, arguments = heapq.heappop(self._heap)
            yield from makes(world, *arguments)

    def next(self) -> int | None:
        """The time of the next entry, or None."""
        return self._heap[0][0] if self._heap else None
