"""What is known of each workload, and which of them are due: one worker at a time takes one.

Used by the agent alone. Bounded: a case goes as soon as its workload is released, nothing of it is here and the bus has
acknowledged that; of the last ones only the tombstone is kept, so that no older record brings them back.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from muster_cluster_agent.domain.actions import Refuse
from muster_cluster_agent.domain.model import Assignment, Release
from muster_cluster_agent.domain.plan import Plans

_RETRY_SECONDS: Final = 0.5
_LONGEST_RETRY: Final = 30.0
_MOST_DOUBLINGS: Final = 10
_QUIET: Final = 4  # with fewer busy workers, objects that are left over are deleted, by as many at once
_LEFT_OVER_SECONDS: Final = 30.0  # after which they are deleted however many are busy
_REMEMBERED: Final = 4_000  # tombstones of finished workloads; the back end keeps the names that it removed for good


@dataclass(slots=True)
class Case:
    """Everything that is known of one workload."""

    desired: Assignment | Release | None = None
    planned: frozenset[str] = frozenset()
    plans: Plans | None = None  # of the desired assignment
    removed: set[str] = field(default_factory=set)
    refused: set[Refuse] = field(default_factory=set)  # what was told of this record
    answered: bool = False  # it was told that nothing of the released run is here
    acknowledged: bool = False  # and the bus has it
    denied: set[str] = field(default_factory=set)  # replicas of which it was said that they are not here
    idle: bool = False  # nothing of it is here and nothing is due: only a record or the back end wakes it
    tries: int = 0
    traceparent: str | None = None

    def obey(self, record: Assignment | Release, traceparent: str | None) -> None:
        """The record is what counts from now on; what was answered to an older one no longer does."""
        self.desired, self.traceparent, self.plans = record, traceparent, None
        self.answered, self.acknowledged, self.tries = False, False, 0
        self.denied.clear()
        self.refused.clear()

    @property
    def without_effect(self) -> str:
        """What its spec sets and has no effect here, as a sentence; empty where everything has."""
        return self.desired.newest.without_effect if isinstance(self.desired, Assignment) else ""


class Agenda:
    """Cases by workload, and the queue of those that are due. `held_up`: nothing is handed out for now."""

    def __init__(self) -> None:
        self.held_up = True
        self._cases: dict[str, Case] = {}
        self._ended: OrderedDict[str, Release] = OrderedDict()
        self._queue: OrderedDict[str, None] = OrderedDict()
        self._left_over: OrderedDict[str, float] = OrderedDict()  # workloads, and since when (monotonic seconds)
        self._busy: set[str] = set()
        self._deleting: set[str] = set()  # of those: workloads whose left-over objects are deleted
        self._waiting: deque[asyncio.Future[None]] = deque()  # workers without work

    def case(self, workload_id: str) -> Case:
        """The case of a workload, made where there is none."""
        case = self._cases.get(workload_id)
        if case is None:
            case = self._cases[workload_id] = Case()
        return case

    def known(self, workload_id: str) -> Case | None:
        """The case of a workload, if there is one."""
        return self._cases.get(workload_id)

    def newest(self, workload_id: str) -> Assignment | Release | None:
        """The last record that was obeyed for a workload, also where its case has gone since."""
        case = self._cases.get(workload_id)
        return self._ended.get(workload_id) if case is None or case.desired is None else case.desired

    def items(self) -> Iterator[tuple[str, Case]]:
        """Every case with its workload, as they are now."""
        return iter(tuple(self._cases.items()))

    def cases(self) -> Iterator[Case]:
        """Every case, as they are now."""
        return iter(tuple(self._cases.values()))

    def drop(self, workload_id: str) -> None:
        """Nothing is wanted or here of it: of its case only the tombstone is kept, of the last 4,000."""
        case = self._cases.pop(workload_id, None)
        if case is None or not isinstance(case.desired, Release):
            return
        self._ended.pop(workload_id, None)
        self._ended[workload_id] = case.desired
        if len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)

    def mark(self, workload_id: str) -> None:
        """The workload is due."""
        self._queue[workload_id] = None
        self._wake()

    def mark_left_over(self, workload_id: str) -> None:
        """Note that only objects that hold nothing are left of a workload: they go when few workers are busy."""
        self._left_over.setdefault(workload_id, time.monotonic())
        self._wake()

    def mark_everything(self) -> None:
        """Every workload is due of which something is here, or of which something is wanted."""
        for workload_id, case in self.items():
            if not case.idle:
                self.mark(workload_id)

    def resume(self) -> None:
        """Everything that is due is handed out from now on."""
        self.held_up = False
        self.mark_everything()
        for _ in range(len(self._waiting)):  # what became due meanwhile woke no worker
            self._wake()

    def again(self, workload_id: str) -> None:
        """The workload is due later; each time later than before."""
        case = self.case(workload_id)
        delay = min(_LONGEST_RETRY, _RETRY_SECONDS * 2**case.tries)
        case.tries = min(case.tries + 1, _MOST_DOUBLINGS)
        asyncio.get_running_loop().call_later(delay, self.mark, workload_id)

    async def take(self) -> tuple[str, bool]:
        """Waits for a workload that is due and that no other task works on. `done` gives it back.

        The second value: whether the objects that are left over of it are to be deleted now.
        """
        while True:
            for left_over in (True, False) if self._is_overdue() else (False, True):
                if left_over and not self._may_delete():
                    continue
                workload_id = self._next(self._left_over if left_over else self._queue)
                if workload_id is not None:
                    self._busy.add(workload_id)
                    if left_over:
                        self._deleting.add(workload_id)
                        self._wake()  # this worker may have been woken for what is due, and more may be deleted
                    return workload_id, left_over
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter

    def done(self, workload_id: str) -> None:
        """The worker has finished with it; it may have become due again meanwhile."""
        self._busy.discard(workload_id)
        self._deleting.discard(workload_id)
        if workload_id in self._queue:
            self._wake()
        if self._left_over and self._may_delete():
            self._wake()

    def _wake(self) -> None:
        """Have one worker look for work; 64 of them for each workload that is due would cost more than the work."""
        while self._waiting and not self.held_up:
            waiter = self._waiting.popleft()
            if not waiter.done():  # its worker may have been cancelled
                waiter.set_result(None)
                return

    @property
    def quiet(self) -> bool:
        """Whether nothing is due."""
        return not self._queue and not self._left_over

    def _is_overdue(self) -> bool:
        since = next(iter(self._left_over.values()), None)
        return since is not None and time.monotonic() - since > _LEFT_OVER_SECONDS

    def _may_delete(self) -> bool:
        # After a burst of ends thousands are overdue at once: what users wait for keeps most of the workers.
        return len(self._deleting) < _QUIET and (len(self._busy) < _QUIET or self._is_overdue())

    def _next(self, queue: OrderedDict[str, Any]) -> str | None:
        if self.held_up:
            return None
        for workload_id in queue:
            if workload_id not in self._busy:
                del queue[workload_id]
                return workload_id
        return None
