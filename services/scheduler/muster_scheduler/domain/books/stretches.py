"""Many heads of the queue at once: which come next in a project, and how those leave that found their place together.

The queue of the world; asked by the cycle for batches (turning/batching.py).
Holds: a stretch has the heads in the order in which `head` would name them, were each removed; after `leave` the queue
is as if they had been removed one by one.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from muster_scheduler.domain.books.classes import ClassKey, Place
from muster_scheduler.domain.books.waiting import Bucket, Queue


class Head(NamedTuple):
    """A member of a class that is worth a try."""

    place: Place
    bucket: Bucket


class Stretches(Queue):
    """The queue by classes, of which stretches can be seen."""

    def heads(self, project: str, most: int) -> list[Head]:
        """The first `most` heads of a project."""
        lines = [
            [Head(place, bucket) for place in islice(self._waiting(bucket), most)]
            for bucket in self._offered(project, most)
        ]
        return lines[0] if len(lines) == 1 else list(islice(heapq.merge(*lines, key=_place), most))

    def _offered(self, project: str, most: int) -> list[Bucket]:
        """The classes that the first `most` heads can be of."""
        offers = self._heads.get(project, [])
        offers.sort()  # what is sorted is a heap, and is quickly sorted again
        found: dict[int, Bucket] = {}
        for place, number, bucket in offers:
            if bucket.count and bucket.reason is None and number not in found and self._head(bucket) == place:
                found[number] = bucket
                if len(found) == most:
                    break
        return list(found.values())

    def wake_higher(self, project: str, pool: str, priority: int) -> None:
        """Preemptible work of `priority` was placed: what waits in that project and may take its place is tried."""
        for key in self._higher(project, pool, priority):
            self._wake(key)

    def wakes(self, project: str, pool: str, priority: int) -> bool:
        """Whether `wake_higher` would change anything."""
        buckets = (self.buckets.get(key) for key in self._higher(project, pool, priority))
        return any(bucket is not None and (bucket.reason or bucket.before) for bucket in buckets)

    def _higher(self, project: str, pool: str, priority: int) -> list[ClassKey]:
        return [
            key
            for key in self._by_project.get(project, {})
            if (key.priority > priority or not key.preemptible) and pool in key.pools
        ]

    def leave(self, heads: Iterable[Head]) -> None:
        """These wait no more: as `remove`, each class being looked at once."""
        left: dict[int, tuple[Bucket, int]] = {}
        for place, bucket in heads:
            del self._of[place.id], self._places[place.id]
            left[bucket.number] = bucket, left.get(bucket.number, (bucket, 0))[1] + 1
        for bucket, members in left.values():
            bucket.count -= members
            self._demand(bucket, -members)
            if bucket.count == 0:
                self._forget(bucket.key)
            else:
                self._offer(bucket)


def _place(head: Head) -> Place:
    return head.place
