"""What makes waiting workloads equal to the scheduler, and who of a project stands before whom.

Used by the queue (waiting.py), which keeps one bucket for each class, and by whoever decides about a class at once.
"""

from __future__ import annotations

from typing import NamedTuple

from muster_scheduler.domain.asked.quotas import Amount
from muster_scheduler.domain.asked.requests import Role, total_charge
from muster_scheduler.domain.asked.terms import Terms
from muster_scheduler.domain.asked.workloads import Stretch, Trials, Workload, WorkloadKind


class ClassKey(NamedTuple):
    """What makes two waiting workloads equal to the scheduler."""

    project: str
    priority: int
    preemptible: bool
    roles: tuple[Role, ...]
    pools: tuple[str, ...]
    clusters: tuple[str, ...]
    fields: frozenset[str]
    avoid: frozenset[tuple[str, str]]
    kind: WorkloadKind
    trials: Trials | None  # these and elastic gangs begin otherwise than what asks for the same at first
    stretch: Stretch | None
    terms: Terms
    ran: int
    user: str  # where its project limits users; else empty, and users share a class
    returning: bool  # was evicted, and so evicts nobody in order to come back


class Place(NamedTuple):
    """Where a workload stands within its project: the higher priority first, then the older, then by id."""

    rank: int  # -priority
    submitted: int
    id: str


def class_of(workload: Workload, user: str = "") -> ClassKey:
    """The class of an admitted workload. user: whose, where that counts."""
    request = workload.request
    if request is None:
        raise ValueError(f"workload {workload.id} is not admitted, so it has no class")
    return ClassKey(
        workload.project,
        request.priority,
        request.preemptible,
        request.roles,
        request.pools,
        request.clusters,
        request.fields,
        frozenset(workload.avoid),
        request.kind,
        request.trials,
        request.stretch,
        request.terms,
        workload.ran,
        user,
        bool(workload.preempted_by),
    )


def asked_by(key: ClassKey) -> Amount:
    """What one member of a class asks for, before it has a device."""
    roles = key.roles
    return Amount(
        total_charge(roles),
        sum(role.size * role.shape.cpu for role in roles),
        sum(role.size * role.shape.memory for role in roles),
    )
