"""Workloads that agents hold and the scheduler does not know: counted, named in the log and in the health.

They are what a restored PostgreSQL has forgotten, and what a returning agent still holds of work that was removed long
ago. Called by the handlers after each transaction. Holds: the condition `strays` is degraded exactly while an agent
holds a workload without a row. Each is ended an hour after this leader has first heard of it (rule 6).
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
    meaning="Workloads that agents hold and the scheduler does not know. Each is ended after an hour.",
    action="Expected after a restore of PostgreSQL: the log names each; submit again what is still needed.",
)
CONDITION: Final = "strays"
_SHOWN: Final = 5  # workloads that the condition names; the log names all
_AT_ONCE: Final = 100  # log lines after one transaction


class Strays:
    """The strays of one term of leading, and which of them have been named already."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._named: set[tuple[str, str]] = set()
        self._count = 0

    def look(self, world: World) -> None:
        """Name some of the new ones, and count all. It costs nothing while there are none."""
        if not world.orphans and not self._count:
            return
        now = set(world.orphans)
        self._named &= now
        for cluster, workload in sorted(now - self._named)[:_AT_ONCE]:  # the others at the next looks
            orphan = world.orphans[cluster, workload]
            _log.warning(
                "an agent holds a workload that is not known",
                cluster=cluster,
                workload=workload,
                generation=orphan.generation,
                attempt=orphan.attempt,
            )
            self._named.add((cluster, workload))
        if len(now) != self._count:
            self._show(now)

    def forget(self) -> None:
        """Clear count and condition: this process leads no more."""
        self._named.clear()
        if self._count:
            self._show(set())

    def _show(self, now: set[tuple[str, str]]) -> None:
        self._count = len(now)
        UNKNOWN.set(self._count)
        if now:
            some = ", ".join(f"{workload} on {cluster}" for cluster, workload in sorted(now)[:_SHOWN])
            self._health.degraded(
                CONDITION,
                f"agents hold workloads that are not known here, {len(now)} in all: {some}; each ends after an hour",
            )
        else:
            self._health.good(CONDITION)
