"""The queue: what waits, grouped by class, so that a class that did not fit is tried once and not once a member.

Derived from the workloads (restoring.py puts it right after an abort) and never changes a decision: a blocked class is
one that would fail again, because nothing that it could use has changed.
Called by the lifecycle (add, remove), by whatever frees capacity (wake) and by the cycle (next, block).
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import Final

from muster_kernel.reasons import FOR_ROOM, IN_VAIN, WaitingReason
from muster_kernel.sentences import Reason
from muster_scheduler.domain.asked.quotas import NOTHING, Amount
from muster_scheduler.domain.asked.workloads import Workload
from muster_scheduler.domain.books.buckets import Bucket, Help, Offer
from muster_scheduler.domain.books.classes import ClassKey, Kins, Place, asked_by, grant_of
from muster_scheduler.domain.books.weighed import Weighed
from muster_scheduler.domain.tuples import new

_LEFT: Final = 64  # members that have left and are still listed at a class's head


class Queue:
    """All that waits and may be tried, by class."""

    def __init__(self, limited: Iterable[str] = ()) -> None:
        """Begins empty. limited: the projects that limit users."""
        self.limited = dict.fromkeys(limited)
        self.demand: dict[tuple[str, str], Amount] = {}  # what waits and could run, by project and first pool
        self.buckets: dict[ClassKey, Bucket] = {}
        self.pressing: dict[str, int] = {}  # how many wait for room or a first look, by every pool of theirs
        self.stuck: dict[str, str] = {}  # elastic gangs that found no room to grow, with their pool: until that changes
        self.offered: dict[str, None] = {}  # projects that got something worth a try, for whoever clears it
        self._listed: dict[str, tuple[Bucket, Place]] = {}
        self._heads: dict[str, list[Offer]] = {}
        self._sorted: dict[str, None] = {}  # projects whose heads are not only a heap but in order
        self.nodes: dict[str, dict[tuple[str, str], None]] = {}  # by pool, those for which classes were woken
        self.weighed = Weighed()
        self._tickets = 0
        self._kins = Kins()
        self._blocked: dict[ClassKey, None] = {}  # by the transaction that is open
        self._by_pool: dict[str, dict[ClassKey, Bucket]] = {}
        self._by_project: dict[str, dict[ClassKey, Bucket]] = {}

    def __contains__(self, workload: str) -> bool:
        """Whether the workload stands in the queue."""
        return workload in self._listed

    def __len__(self) -> int:
        """How many stand in the queue."""
        return len(self._listed)

    def add(self, workload: Workload) -> Reason | None:
        """Puts a workload in. The reason of its class where that is blocked already, else None: worth a try."""
        key = self._kins.key_of(workload, self._user(workload))
        place = new(Place, (-key.kin.priority, workload.submitted, workload.id))
        if workload.id in self._listed:
            self.remove(workload.id)
        bucket = self._bucket(key)
        insort(bucket.members, place, bucket.first)
        bucket.count += 1
        bucket.before = None  # a member that nobody has told why it waits
        self._demand(bucket, 1)
        self._listed[workload.id] = bucket, place
        if bucket.reason is None and (bucket.count == 1 or self.first(bucket) == place):
            self._offer(bucket, place)  # else the one before it is offered already
        return bucket.reason

    def _user(self, workload: Workload) -> str:
        return workload.owner if workload.project in self.limited else ""

    def _bucket(self, key: ClassKey) -> Bucket:
        bucket = self.buckets.get(key)
        if bucket is None:
            bucket = self.buckets[key] = Bucket(key, key.kin, key.amounts, grant_of(key), each=asked_by(key))
            self._kins.drop_unused(self.buckets)
        return bucket

    def remove(self, workload: str) -> None:
        """Takes a workload out; one that is not in stays out."""
        listed = self._listed.pop(workload, None)
        if listed is None:
            return
        bucket, _ = listed
        bucket.count -= 1
        self._demand(bucket, -1)
        if bucket.count == 0:
            self._forget(bucket)
        elif bucket.reason is None:
            self._offer(bucket, self.first(bucket))

    def limit_users(self, project: str, *, limited: bool, find: Callable[[str], Workload]) -> None:
        """The project limits users now, or no longer: whose a workload is makes a class, or does not."""
        if (project in self.limited) == limited:
            return
        if limited:
            self.limited[project] = None
        else:
            del self.limited[project]
        for workload in sorted(each for each, (bucket, _) in self._listed.items() if bucket.key.project == project):
            self.add(find(workload))

    def _demand(self, bucket: Bucket, members: int) -> None:
        kin, reason = bucket.kin, bucket.reason
        if members and (reason is None or reason.code in FOR_ROOM):
            self._press(kin.pools, members)
        if members and (reason is None or reason.code not in IN_VAIN):
            self._ask(kin.project, kin.pools, bucket.each, members)

    def _press(self, pools: tuple[str, ...], members: int) -> None:
        for pool in pools:
            self.pressing[pool] = self.pressing.get(pool, 0) + members

    def _ask(self, project: str, pools: tuple[str, ...], amount: Amount, times: int) -> None:
        at = project, pools[0] if pools else ""
        now = self.demand.get(at, NOTHING).plus(amount, times)
        if now == NOTHING:
            self.demand.pop(at, None)
        else:
            self.demand[at] = now

    def _forget(self, bucket: Bucket) -> None:
        key = bucket.key
        bucket.ticket = 0
        del self.buckets[key]
        if bucket.barred:
            for blocked in (*map(self._by_pool.get, bucket.kin.pools), self._by_project.get(bucket.kin.project)):
                if blocked:
                    blocked.pop(key, None)

    def first(self, bucket: Bucket) -> Place | None:
        """The first member of a class."""
        at = self._first(bucket)
        return bucket.members[at] if at < len(bucket.members) else None

    def _first(self, bucket: Bucket) -> int:
        """Where the first member stands that still waits; now and then those before it are dropped."""
        members = bucket.members
        while bucket.first < len(members) and not self._waits(bucket, members[bucket.first]):
            bucket.first += 1
        if bucket.first > _LEFT and 2 * bucket.first > len(members):
            del members[: bucket.first]
            bucket.first = 0
        return bucket.first

    def _waiting(self, bucket: Bucket) -> Iterator[Place]:
        """The members in their order."""
        first, members, before = self._first(bucket), bucket.members, None
        for at in range(first, len(members)):
            place = members[at]
            if place != before and self._waits(bucket, place):
                yield place
                before = place

    def _first_of(self, bucket: Bucket, most: int | None) -> list[Place]:
        """The first `most` members of a class; None: all."""
        first, members = self._first(bucket), bucket.members
        if len(members) - first == bucket.count:  # then every one that is listed still waits
            return members[first : None if most is None else first + most]
        return list(islice(self._waiting(bucket), most))

    def _waits(self, bucket: Bucket, place: Place) -> bool:
        listed = self._listed.get(place.id)
        return listed is not None and listed[0] is bucket and listed[1] == place

    def _offer(self, bucket: Bucket, head: Place | None) -> None:
        if head is not None:
            project = bucket.kin.project
            self.offered[project] = None
            self._sorted.pop(project, None)
            bucket.ticket = self._tickets = self._tickets + 1
            heapq.heappush(self._heads.setdefault(project, []), (head, bucket.ticket, bucket))

    def _in_order(self, project: str) -> list[Offer]:
        """What is offered of a project, the first to be tried first."""
        heads = self._heads.get(project, [])
        if project not in self._sorted:
            heads.sort()  # what is sorted is a heap too
            self._sorted[project] = None
        return heads

    def projects(self) -> list[str]:
        """The projects that have something worth a try, by name."""
        return sorted(project for project in list(self._heads) if self.head(project) is not None)

    def head(self, project: str) -> tuple[str, ClassKey] | None:
        """The project's next workload worth a try and its class."""
        heads = self._heads.get(project, [])
        if project in self._sorted:
            self._drop_passed(heads)
        while heads:
            place, ticket, bucket = heads[0]
            if bucket.ticket == ticket:
                return place.id, bucket.key
            heapq.heappop(heads)
            self._sorted.pop(project, None)
        self._heads.pop(project, None)
        return None

    def _drop_passed(self, heads: list[Offer]) -> None:
        """Drops the offers before the first that stands, at once and in order."""
        passed = 0
        for _, ticket, bucket in heads:
            if bucket.ticket == ticket:
                break
            passed += 1
        del heads[:passed]

    def block(self, key: ClassKey, reason: Reason) -> None:
        """The class did not fit: not tried again before one of its pools or its project is woken."""
        bucket = self.buckets.get(key)
        if bucket is None:
            return
        self._demand(bucket, -bucket.count)
        bucket.reason, bucket.before, bucket.ticket, bucket.barred = reason, None, 0, True
        self._blocked[key] = None
        self._demand(bucket, bucket.count)
        for pool in key.pools:
            self._by_pool.setdefault(pool, {})[key] = bucket
        self._by_project.setdefault(key.project, {})[key] = bucket

    def _unstick(self, pool: str) -> None:
        for gang in [each for each, at in self.stuck.items() if at == pool]:
            del self.stuck[gang]

    def blocked(self, pool: str) -> list[Bucket]:
        """The classes that are blocked in a node pool."""
        return [bucket for bucket in self._by_pool.get(pool, {}).values() if bucket.reason is not None]

    def blocked_pools(self) -> list[str]:
        """The node pools in which a class may be blocked, by name."""
        return sorted(self._by_pool)

    def keep(self) -> None:
        """What has been blocked since the last `keep` stays blocked."""
        self._blocked.clear()
        self.weighed.keep()

    def give_up(self) -> None:
        """What has been blocked since the last `keep` is worth a try: what stood in its way may not have happened."""
        for key in self._blocked:
            self._wake(key)
        self._blocked.clear()
        self.stuck.clear()
        self.weighed.give_up()

    def wake_pool(self, pool: str) -> None:
        """Something in this node pool changed for the better."""
        self._unstick(pool)
        for key in self._by_pool.pop(pool, {}):
            self._wake(key)

    def wake_where(self, pool: str, helped: Callable[[ClassKey, Reason], Help]) -> None:
        """Something in this node pool was given back: wakes the classes blocked there whom that helps."""
        self._unstick(pool)
        for key, bucket in list(self._by_pool.get(pool, {}).items()):
            said = bucket.reason or bucket.before
            if said is None:
                del self._by_pool[pool][key]
                continue
            helps = helped(key, said)
            if helps is not Help.NONE:
                del self._by_pool[pool][key]
                self._wake(key)
                # Of a claim the reason holds no longer: who was leaving then has left since.
                bucket.before = said if helps is Help.PLACE and said.code is not WaitingReason.CLAIM else None

    def before(self, key: ClassKey) -> Reason | None:
        """Why the class was blocked, where it was woken for a place alone: without one it is blocked for that again."""
        bucket = self.buckets.get(key)
        return bucket.before if bucket else None

    def wake_project(self, project: str) -> None:
        """The project's quota or use changed."""
        self.stuck.clear()
        for key in self._by_project.pop(project, {}):
            self._wake(key)

    def wake_all(self) -> None:
        """A cluster came or changed what it can do."""
        self.stuck.clear()
        for key in list(self.buckets):
            self._wake(key)

    def wake_mounting(self, namespaces: Collection[str]) -> None:
        """Objects of these namespaces came or went: wakes the classes that mount any."""
        for key in list(self.buckets):
            if key.kin.mounts and not {each.partition("/")[0] for each in key.kin.mounts}.isdisjoint(namespaces):
                self._wake(key)

    def _wake(self, key: ClassKey) -> None:
        bucket = self.buckets.get(key)
        if bucket is not None:
            bucket.before = None
        if bucket is not None and bucket.reason is not None:
            self._demand(bucket, -bucket.count)
            bucket.reason = None
            self._demand(bucket, bucket.count)
            self._offer(bucket, self.first(bucket))

    def reason(self, workload: str) -> Reason | None:
        """Why the workload's class is blocked; None where it is not, or the workload does not wait."""
        listed = self._listed.get(workload)
        return listed[0].reason if listed else None

    def members(self, key: ClassKey, most: int | None = None) -> list[str]:
        """Who waits in a class, in order: all, or the first `most`."""
        bucket = self.buckets.get(key)
        return [place.id for place in self._first_of(bucket, most)] if bucket else []

    def ahead(self, workload: str) -> int:
        """How many workloads of its project stand before it."""
        listed = self._listed.get(workload)
        if listed is None:
            return 0
        project, place = listed[0].key.project, listed[1]
        return sum(1 for bucket, spot in self._listed.values() if spot < place and bucket.key.project == project)
