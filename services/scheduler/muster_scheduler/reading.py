"""How far the reports of each cluster are read."""

from __future__ import annotations

from muster_chassis.assigned_consumer import AssignedConsumer
from muster_chassis.topics import reports
from muster_scheduler.domain.asked.workloads import SECOND
from muster_scheduler.domain.books.world import World


def read_until(world: World, consumer: AssignedConsumer) -> dict[str, int]:
    """Return the time up to which each cluster's reports are read, in microseconds since 1970; 0 if none is."""
    return {cluster: int((consumer.read_until(reports(cluster).name) or 0) * SECOND) for cluster in world.clusters}


def unread(world: World, consumer: AssignedConsumer) -> frozenset[str]:
    """Return the clusters whose reports were not read to the end that they had when the term began."""
    return frozenset(cluster for cluster in world.clusters if consumer.unread(reports(cluster).name))
