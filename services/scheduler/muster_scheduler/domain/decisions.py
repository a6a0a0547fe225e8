"""What goes out: the scheduler's decisions as plain values, in the order in which they were taken.

The outbox adapter turns them into protobuf. Small on purpose: hundreds of them are made a second. A burst of placements
is taken as one value, which stands for all that each of them tells; `each` names it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from muster_kernel.lifecycle import DesiredPhase, Phase
from muster_kernel.reasons import ChangeReason, PreemptionCause
from muster_kernel.sentences import Reason
from muster_scheduler.domain.asked.courses import Planned


class Queued(NamedTuple):
    """A workload stands in the queue."""

    workload: str
    pool: str
    at: int


class Claimed(NamedTuple):
    """Room is being made for a workload."""

    workload: str
    cluster: str
    planned: tuple[Planned, ...]
    waits_for: tuple[str, ...]


class Placed(NamedTuple):
    """A workload has its place; its replicas are in its books."""

    workload: str
    at: int


class Waiting(NamedTuple):
    """The dominant reason for which a workload waits has changed."""

    workload: str
    reason: Reason


class Preempted(NamedTuple):
    """A workload gives its place to another one."""

    workload: str
    attempt: int
    by: str
    cause: PreemptionCause


class Evicted(NamedTuple):
    """A workload gives its place up and none takes it."""

    workload: str
    attempt: int
    cause: PreemptionCause


class Scaled(NamedTuple):
    """The number of replicas changed."""

    workload: str
    before: int
    after: int


class PhaseChange(NamedTuple):
    """A phase changed, or (before = after) what is known of the replicas."""

    workload: str
    attempt: int
    before: Phase
    after: Phase
    desired: DesiredPhase
    reason: ChangeReason
    message: str
    at: int


class Refused(NamedTuple):
    """A request could not be done."""

    workload: str
    request: str
    phase: Phase


class Assign(NamedTuple):
    """The record of a workload on its cluster's topic is to say what the books say now."""

    cluster: str
    workload: str


class Release(NamedTuple):
    """The record of a workload on a cluster's topic is to be a tombstone."""

    cluster: str
    workload: str
    generation: int
    attempt: int
    grace: int  # seconds
    reason: str


class Wish(NamedTuple):
    """The record of a node on its cluster's topic is to ask for a MIG layout."""

    cluster: str
    node: str
    config: str
    revision: int


class EndWish(NamedTuple):
    """The record of a node on its cluster's topic is to be a tombstone."""

    cluster: str
    node: str
    revision: int
    reason: str


class Begun(NamedTuple):
    """How a workload's phase moves by being placed; one value for all who follow one another and are alike."""

    attempt: int
    before: Phase
    after: Phase
    desired: DesiredPhase


class Burst(NamedTuple):
    """Workloads that were placed one after the other on one cluster. workloads, begun: one of each a placement."""

    cluster: str
    at: int
    workloads: tuple[str, ...]
    begun: tuple[Begun, ...]

    def changes(self) -> Iterator[PhaseChange]:
        """The phase that each entered, in their order."""
        for workload, begun in zip(self.workloads, self.begun, strict=True):
            yield PhaseChange(workload, *begun, ChangeReason.PLACED, "", self.at)

    def told(self) -> Iterator[Decision]:
        """What each placement tells: that it is placed, its phase, its record."""
        for change in self.changes():
            yield Placed(change.workload, self.at)
            yield change
            yield Assign(self.cluster, change.workload)


Event = Queued | Claimed | Placed | Waiting | Preempted | Evicted | Scaled | PhaseChange | Refused
Record = Assign | Release | Wish | EndWish
Decision = Event | Record
Taken = Decision | Burst


def tally(taken: Sequence[Taken]) -> dict[str, int]:
    """How many decisions of each kind there are, as if each were told alone."""
    found = Counter(type(one).__name__ for one in taken if not isinstance(one, Burst))
    placed = sum(len(one.workloads) for one in taken if isinstance(one, Burst))
    for kind in (Placed, PhaseChange, Assign) if placed else ():
        found[kind.__name__] += placed
    return dict(found)


def each(taken: Iterable[Taken]) -> Iterator[Decision]:
    """Every decision alone, in the order in which they were taken."""
    for one in taken:
        if isinstance(one, Burst):
            yield from one.told()
        else:
            yield one
