"""Agents that report for a cluster that is bound to another instance: counted and named.

Called by the handlers after each transaction. Holds: the health condition `agents` is degraded exactly while such an
agent has been heard within a minute.
"""

from __future__ import annotations

from typing import Final

from muster_chassis import metrics
from muster_chassis.health import Health
from muster_chassis.text import clean
from muster_scheduler.domain.asked.workloads import SECOND
from muster_scheduler.domain.books.world import World

UNBOUND: Final = metrics.gauge(
    "muster_scheduler_unbound_agents",
    unit="agents",
    meaning="Agents that report for a cluster that is bound to another instance. They get no work.",
    action="/healthz of the scheduler names them: `muster clusters adopt` one that replaces the other, or stop it.",
)
CONDITION: Final = "agents"
_HEARD: Final = 60 * SECOND
_NAMED: Final = 20
_LONGEST: Final = 200  # characters of an instance's name, which is text from outside


def tell(world: World, health: Health) -> None:
    """Count and name the agents of the last minute that speak for no cluster."""
    told = [
        f"cluster {cluster.id} is bound to agent {cluster.instance}, and agent {clean(instance, _LONGEST)} reports for "
        f"it: `muster clusters adopt {cluster.id} --instance {clean(instance, _LONGEST)}` if that one replaces it"
        for cluster in world.clusters.values()
        for instance, heard in cluster.strangers.items()
        if world.now - heard <= _HEARD
    ]
    UNBOUND.set(len(told))
    health.show(CONDITION, "; ".join(sorted(told)[:_NAMED]))


def forget(health: Health) -> None:
    """Clear count and condition: this process leads no more."""
    UNBOUND.set(0)
    health.show(CONDITION, "")
