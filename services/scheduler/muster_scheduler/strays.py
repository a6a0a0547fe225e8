"""Workloads that agents hold and the scheduler does not know: counted, named in the log and in the health.

They are what a restored PostgreSQL has forgotten, and what a returning agent still holds of work that was removed long
ago. Called by the handlers after each transaction. Holds: the condition `strays` is degraded exactly while an agent
holds a workload without a row; each of them is ended after an hour (rule 6).
"""

from __future__ import annotations

from typing import Final

from muster_chassis import logs, metrics
from muster_chassis.health import Health
from muster_scheduler.domain.books.world import World

_log = logs.get(__name__)
UNKNOWN = metrics.gauge(
    "muster_scheduler_unknown_workloads",
    unit="workloads",
    meaning="Workloads that agents hold and the scheduler does not know. Each is ended an hour after its first report.",
    action="Expected after a restore of PostgreSQL: the log names each; submit again what is still needed.",
)
CONDITION: Final = "strays"
_NAMED: Final = 5  # workloads that the condition names; the log names all


class Strays:
    """Which of them have been named already."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._known: set[tuple[str, str]] = set()

    def look(self, world: World) -> None:
        """Name the new ones, and count all. Costs nothing while there are none."""
        if not world.orphans and not self._known:
            return
        now = set(world.orphans)
        if now == self._known:
            return
        for cluster, workload in sorted(now - self._known):
            orphan = world.orphans[cluster, workload]
            _log.warning(
                "an agent holds a workload that is not known",
                cluster=cluster,
                workload=workload,
                generation=orphan.generation,
                attempt=orphan.attempt,
            )
        self._known = now
        UNKNOWN.set(len(now))
        if now:
            some = ", ".join(f"{workload} on {cluster}" for cluster, workload in sorted(now)[:_NAMED])
            self._health.degraded(
                CONDITION, f"agents hold {len(now)} workloads that are not known here ({some}); each ends after an hour"
            )
        else:
            self._health.good(CONDITION)
