"""Reports in parts of which some do not come: counted, logged and named, since the scheduler decides without them.

Called by the handlers after each transaction. Holds: the health condition `inventories` is degraded exactly while a
cluster that is heard lacks parts for longer than an agent needs to send them.
"""

from __future__ import annotations

from typing import Final

from muster_chassis import logs, metrics
from muster_chassis.health import Health
from muster_scheduler.domain.asked.limits import INCOMPLETE_AFTER
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.state import Plan

_log = logs.get(__name__)
DROPPED = metrics.counter(
    "muster_scheduler_dropped_inventories_total",
    unit="inventories",
    meaning="Full inventories in parts of which a part never came or did not match, so that none of it was applied.",
    action="The next one mends it. It grows all the time: the log names cluster and parts; look at that agent's log.",
)
BEHIND = metrics.gauge(
    "muster_scheduler_incomplete_clusters",
    unit="clusters",
    meaning="Clusters whose inventory or list of held assignments has lacked a part for over a minute.",
    action="/healthz of the scheduler names cluster and parts. Beyond ten minutes: restart that agent, which tells "
    "everything again, and look at muster_agent_reports_left_out_total.",
)
CONDITION: Final = "inventories"
VERSIONS: Final = "agent_versions"
_NAMED: Final = 20  # clusters and inventories that one text or one transaction names; all are counted


def tell(plan: Plan, world: World, health: Health) -> None:
    """Say what a committed transaction gave up, and name the clusters that lack parts of their reports."""
    DROPPED.inc(len(plan.dropped_inventories))
    for said in plan.dropped_inventories[:_NAMED]:
        _log.warning("an inventory in parts is dropped", what=said)
    lacks = [
        f"cluster {cluster.id}: {lack}"
        for cluster in world.clusters.values()
        if not cluster.silent and (lack := cluster.lacks(world.now, INCOMPLETE_AFTER))
    ]
    BEHIND.set(len(lacks))
    health.show(CONDITION, "; ".join(sorted(lacks)[:_NAMED]))
    unfit = [f"cluster {each.id}: {each.unfit}" for each in world.clusters.values() if each.unfit and not each.silent]
    health.show(VERSIONS, "; ".join(sorted(unfit)[:_NAMED]))


def forget(health: Health) -> None:
    """Clear count and condition: this process leads no more."""
    BEHIND.set(0)
    health.show(CONDITION, "")
    health.show(VERSIONS, "")
