"""Who waits, by class: a class that was refused costs nothing until something that it could use changes.

Used by the engine. Members of a class are sorted by (priority, age, id); a batch takes the first of every class worth a
try and merges them by queue.
Holds: a class has a number while it has members or places; numbers of forgotten classes are used again; what a batch
gets depends on who waits and on what was refused, never on the order in which they came.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from muster_scheduler.domain.asked.requests import Shape
from muster_scheduler.domain.deciding.batch import Heads
from muster_scheduler.domain.deciding.shapes import QUEUE, WIDTH, row_of
from muster_scheduler.domain.deciding.values import Ask, Refusal
from muster_scheduler.domain.fleet.columns import Ints64


class ClassKey(NamedTuple):
    """What makes two asks equal to the engine."""

    queue: str
    priority: int
    preemptible: bool
    shape: Shape
    units: int
    eligible: int


Spot = tuple[int, int, str, int]
"""(-priority, queued, id, class number): where a member stands."""


class Line:
    """All that waits in one pool."""

    def __init__(self) -> None:
        """Begins empty."""
        self.numbers: dict[ClassKey, int] = {}
        self.keys: list[ClassKey | None] = []
        self.members: list[list[Spot]] = []
        self.places: list[int] = []  # how many of the class hold a place
        self.refused: list[Refusal | None] = []
        self.shapes: Ints64 = np.zeros((16, WIDTH), np.int64)
        self.counts: Ints64 = np.zeros(16, np.int64)
        self.spots: dict[str, Spot] = {}
        self._free: list[int] = []

    def add(self, ask: Ask) -> None:
        """Puts an ask in. Raises ValueError for one that waits already."""
        if ask.id in self.spots:
            raise ValueError(f"{ask.id} waits already")
        key = ClassKey(ask.queue, ask.priority, ask.preemptible, ask.shape, ask.units, ask.eligible)
        number = self.numbers.get(key)
        if number is None:
            number = self._found(key)
        self.enter((-ask.priority, ask.queued, ask.id, number))

    def enter(self, spot: Spot) -> None:
        """Puts a member of a known class in."""
        insort(self.members[spot[3]], spot)
        self.spots[spot[2]] = spot
        self.counts[spot[3]] += 1

    def leave(self, name: str) -> Spot:
        """Takes a member out. Raises KeyError for one that does not wait."""
        spot = self.spots.pop(name)
        members = self.members[spot[3]]
        del members[bisect_left(members, spot)]
        self.counts[spot[3]] -= 1
        return spot

    def _found(self, key: ClassKey) -> int:
        if self._free:
            number = self._free.pop()
        else:
            number = len(self.keys)
            self.keys.append(None)
            self.members.append([])
            self.places.append(0)
            self.refused.append(None)
        self.revive(key, number)
        return number

    def revive(self, key: ClassKey, number: int) -> None:
        """Gives a class its number (again). The queue's row is set when a batch is made."""
        if number >= len(self.shapes):
            self.shapes = np.concatenate([self.shapes, np.zeros_like(self.shapes)])
            self.counts = np.concatenate([self.counts, np.zeros_like(self.counts)])
        self.keys[number], self.numbers[key], self.refused[number] = key, number, None
        row = row_of(key.shape, key.units, -1, preemptible=key.preemptible, eligible=key.eligible)
        self.shapes[number] = row

    def sweep(self) -> None:
        """Forgets classes that have neither members nor places."""
        for number, key in enumerate(self.keys):
            if key is not None and not self.members[number] and not self.places[number]:
                self.keys[number], self.refused[number] = None, None
                del self.numbers[key]
                self._free.append(number)
        # So that the lowest number is used again first, whatever the order in which classes were forgotten.
        self._free.sort(reverse=True)

    def aim(self, queues: dict[str, int]) -> None:
        """Writes the row of each class's queue; -1 for a queue that is not known."""
        rows = [queues.get(key.queue, -1) if key else -1 for key in self.keys]
        self.shapes[: len(rows), QUEUE] = rows

    def batch(self, worth: Iterable[int], queues: int, most: int) -> tuple[list[Spot], Heads]:
        """The members of the classes worth a try, at most `most` of each, in order by queue, and the same as arrays."""
        by_queue: list[list[int]] = [[] for _ in range(queues)]
        for number in worth:
            by_queue[self.shapes[number, QUEUE]].append(number)
        spots: list[Spot] = []
        bounds = [0]
        for numbers in by_queue:
            spots += self._merged(numbers, most)
            bounds.append(len(spots))
        return spots, _heads(spots, bounds)

    def _merged(self, numbers: Sequence[int], most: int) -> list[Spot]:
        merged: list[Spot] = []
        for number in numbers:
            merged += self.members[number][:most]
        if len(numbers) > 1:
            merged.sort()
        return merged

    def settle(self, spots: Sequence[Spot], numbers: Ints64) -> None:
        """Members have got their places: they no longer wait. numbers: their classes, in the order of `spots`."""
        placed = np.bincount(numbers, minlength=len(self.keys))
        for number in np.flatnonzero(placed).tolist():
            count = int(placed[number])
            # A batch places the members of a class in their order, so those placed are the first.
            del self.members[number][:count]
            self.places[number] += count
            self.counts[number] -= count
        for spot in spots:
            del self.spots[spot[2]]

    def unsettle(self, spots: Iterable[Spot]) -> None:
        """The undo of `settle`."""
        for spot in spots:
            self.places[spot[3]] -= 1
            self.enter(spot)


def _heads(spots: list[Spot], bounds: list[int]) -> Heads:
    stretch = np.array(bounds, np.int64)
    shapes = np.fromiter((spot[3] for spot in spots), np.int64, len(spots))
    return Heads(np.arange(len(spots), dtype=np.int64), shapes, stretch[:-1].copy(), stretch[1:].copy())
