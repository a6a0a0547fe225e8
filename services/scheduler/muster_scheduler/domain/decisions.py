"""What goes out: the scheduler's decisions as plain values, in the order in which they were taken.

The outbox adapter turns them into protobuf. Small on purpose: hundreds of them are made a second.
"""

from __future__ import annotations

from typing import NamedTuple

from muster_kernel.lifecycle import DesiredPhase, Phase
from muster_kernel.reasons import ChangeReason, Reason
from muster_scheduler.domain.asked.workloads import Planned


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
    """A workload gives its place up."""

    workload: str
    attempt: int
    by: str


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


Event = Queued | Claimed | Placed | Waiting | Preempted | Scaled | PhaseChange | Refused
Decision = Event | Assign | Release
