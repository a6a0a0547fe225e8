"""Many heads of the queue at once: which come next in a project, and how those leave that found their place together.

The queue of the world; asked by the cycle for batches (turning/batching.py).
Holds: a stretch has the heads in the order in which `head` would name them, were each removed; after `leave` the queue
is as if they had been removed one by one.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, islice, repeat
from typing import Final, NamedTuple

from muster_scheduler.domain.books.classes import ClassKey, Place
from muster_scheduler.domain.books.waiting import Bucket, Offer, Queue

_SORTED: Final = 2  # classes that list up to so many times as many heads as are wanted are sorted, others merged


class Stretch(NamedTuple):
    """Members of classes that are worth a try, in their order, each with its class."""

    places: Sequence[Place]
    buckets: Sequence[Bucket]


class Stretches(Queue):
    """The queue by classes, of which stretches can be seen."""

    def stretch(self, project: str, most: int) -> Stretch:
        """The first `most` heads of a project."""
        offered = self._offered(project, most)
        if len(offered) == 1:
            bucket = offered[0][2]
            places = self._first_of(bucket, most)
            return Stretch(places, [bucket] * len(places))
        lines = [self._line(offer, most) for offer in offered if offer[2].count > 1]
        single = (offer for offer in offered if offer[2].count == 1)
        heads: Iterable[Offer] = offered
        if lines and sum(offer[2].count for offer in offered) <= _SORTED * most:
            heads = sorted(chain(single, *lines))
        elif lines:
            heads = heapq.merge(single, *lines)
        found = list(islice(heads, most))
        return Stretch([place for place, _, _ in found], [bucket for _, _, bucket in found])

    def _line(self, offer: Offer, most: int) -> Iterable[Offer]:
        """The first `most` members of a class, each as if it were offered."""
        _, number, bucket = offer
        return zip(self._first_of(bucket, most), repeat(number), repeat(bucket))

    def _first_of(self, bucket: Bucket, most: int) -> list[Place]:
        """The first `most` members of a class."""
        first, members = self._first(bucket), bucket.members
        if len(members) - first == bucket.count:  # then every one that is listed still waits
            return members[first : first + most]
        return list(islice(self._waiting(bucket), most))

    def _offered(self, project: str, most: int) -> list[Offer]:
        """The classes that the first `most` heads can be of, by their first members."""
        found: dict[Bucket, Offer] = {}
        for offer in self._in_order(project):
            place, _, bucket = offer
            if bucket not in found and self._stands(place, bucket):
                found[bucket] = offer
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

    def leave(self, stretch: Stretch) -> None:
        """These wait no more: as `remove`, each class being looked at once."""
        for place in stretch.places:
            del self._of[place.id], self._places[place.id]
        last = dict(zip(stretch.buckets, stretch.places, strict=True))
        for bucket, left in Counter(stretch.buckets).items():
            self._pass_over(bucket, left, last[bucket])
            bucket.count -= left
            self._demand(bucket, -left)
            if bucket.count == 0:
                self._forget(bucket.key)
            else:
                self._offer(bucket)

    def _pass_over(self, bucket: Bucket, left: int, last: Place) -> None:
        """Passes over so many members that have left, up to `last`, where these are all that stood before it."""
        end = bucket.first + left
        if len(bucket.members) - bucket.first == bucket.count and bucket.members[end - 1] == last:
            bucket.first = end
