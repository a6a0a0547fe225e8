"""Many at once in the queue: how they come, which are next in a project, how those leave that found their place.

The queue of the world; filled when a state is read back, asked by the cycle for batches (turning/batching.py).
Holds: a stretch has the heads in the order in which `head` would name them, were each removed; after `leave` the queue
is as if they had been removed one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from muster_scheduler.domain.asked.quotas import Amount
from muster_scheduler.domain.asked.workloads import Workload
from muster_scheduler.domain.books.buckets import Bucket, Offer
from muster_scheduler.domain.books.classes import ClassKey, Kin, Place, request_of, traits_of
from muster_scheduler.domain.books.merging import merged
from muster_scheduler.domain.books.waiting import Queue

_MANY: Final = 8  # of so many offers of a project one is new, or more: then they are put in order at once
_TRIMMED: Final = 16  # of so many members one that has left has them moved up
_KNOWN: Final = 4_096  # classes that are known by what their keys are made of


class Stretch(NamedTuple):
    """Members of classes that are worth a try, in their order, each with its class."""

    places: Sequence[Place]
    buckets: Sequence[Bucket]


class Stretches(Queue):
    """The queue by classes, of which stretches can be seen."""

    def fill(self, workloads: Iterable[Workload]) -> None:
        """Puts many into an empty queue, as `add` would one by one: each class is sorted, counted and offered once."""
        known: dict[tuple[Any, ...], Bucket] = {}  # by what their keys are made of: a key takes longer to make
        for workload in workloads:
            request = request_of(workload)
            user = self._user(workload)
            made_of = request.roles, traits_of(workload, request, user)
            bucket = known.get(made_of)
            if bucket is None:
                bucket = self._bucket(self._kins.key_of(workload, user))
                if len(known) < _KNOWN:
                    known[made_of] = bucket
            place = Place(-bucket.kin.priority, workload.submitted, workload.id)
            bucket.members.append(place)
            self._listed[workload.id] = bucket, place
        for bucket in self.buckets.values():
            bucket.members.sort()
            bucket.count = len(bucket.members)
            self._demand(bucket, bucket.count)
            self._offer(bucket, bucket.members[0])

    def stretch(self, project: str, most: int) -> Stretch:
        """The first `most` heads of a project."""
        offered = self._offered(project, most)
        if len(offered) == 1:
            bucket = offered[0][2]
            places = self._first_of(bucket, most)
            return Stretch(places, [bucket] * len(places))
        classes = [bucket for _, _, bucket in offered]
        if all(bucket.count == 1 for bucket in classes):
            return Stretch([place for place, _, _ in offered], classes)
        numbers, places = merged(lambda number, some: self._first_of(classes[number], some), len(classes), most)
        return Stretch(places, [classes[number] for number in numbers])

    def _offered(self, project: str, most: int) -> list[Offer]:
        """The classes that the first `most` heads can be of, by their first members."""
        heads = self._in_order(project)
        found = [offer for offer in heads[:most] if offer[2].ticket == offer[1]]
        if len(found) < most < len(heads):
            found += islice((offer for offer in heads[most:] if offer[2].ticket == offer[1]), most - len(found))
        return found

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
        for _, _, workload in stretch.places:
            del self._listed[workload]
        left, stay = Counter(stretch.buckets), []
        for bucket, members in left.items():
            if bucket.count == members:
                bucket.count = 0
                self._forget(bucket)
            else:
                stay.append(bucket)
        last = _last(stretch) if stay else {}
        for bucket in stay:
            self._pass_over(bucket, left[bucket], last[bucket])
            bucket.count -= left[bucket]
        self._offer_all(stay)
        self._want_less(left)

    def _offer_all(self, classes: Sequence[Bucket]) -> None:
        """As `_offer` of each; a project of whose offers many are new is put in order once."""
        by_project: dict[str, list[Bucket]] = {}
        for bucket in classes:
            by_project.setdefault(bucket.kin.project, []).append(bucket)
        for project, fresh in by_project.items():
            for bucket in fresh:
                bucket.ticket = 0
            if _MANY * len(fresh) < len(self._heads.get(project, ())):
                for bucket in fresh:
                    self._offer(bucket, self.first(bucket))
                continue
            heads = [offer for offer in self._heads.get(project, ()) if offer[2].ticket == offer[1]]
            for bucket in fresh:
                self._tickets += 1
                bucket.ticket = self._tickets
                heads.append((bucket.members[self._first(bucket)], bucket.ticket, bucket))
            heads.sort()
            self._heads[project] = heads
            self._sorted[project] = self.offered[project] = None

    def _want_less(self, left: Mapping[Bucket, int]) -> None:
        """So many of each class, all of them worth a try, want nothing more: written once a project and its pools."""
        sums: dict[Kin, list[int]] = {}
        for bucket, members in left.items():
            gpu, cpu, memory = bucket.each
            total = sums.get(bucket.kin)
            if total is None:
                total = sums[bucket.kin] = [0, 0, 0, 0]
            total[0] += members
            total[1] += members * gpu
            total[2] += members * cpu
            total[3] += members * memory
        for kin, (members, *amounts) in sums.items():
            self._press(kin.pools, -members)
            self._ask(kin.project, kin.pools, Amount(*amounts), -1)

    def _pass_over(self, bucket: Bucket, left: int, last: Place) -> None:
        """Passes over so many members that have left, up to `last`, where these are all that stood before it."""
        end = bucket.first + left
        members = bucket.members
        if len(members) - bucket.first != bucket.count or members[end - 1] != last:
            return
        if _TRIMMED * end > len(members):
            del members[:end]  # while they are still near
            end = 0
        bucket.first = end


def _last(stretch: Stretch) -> dict[Bucket, Place]:
    """The last member of each class."""
    places, buckets = stretch
    if buckets and buckets.count(buckets[0]) == len(buckets):
        return {buckets[0]: places[-1]}
    return dict(zip(buckets, places, strict=True))
