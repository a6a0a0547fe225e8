"""What the handlers need from outside the domain: a place that keeps the state, and a way out for decisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from muster_chassis.unit import Unit
from muster_scheduler.domain.asked.workloads import Workload
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.state import Plan


class Unpublishable(Exception):
    """A decision about a workload cannot be turned into a record, or the workload into its row."""

    def __init__(self, workload: str, why: str) -> None:
        super().__init__(why)
        self.workload = workload


class Store(Protocol):
    """Keeps the state."""

    async def write(self, unit: Unit, plan: Plan, world: World) -> None:
        """Writes what an open transaction has touched. Raises Unpublishable for a row that cannot be encoded."""
        ...

    async def revive(self, unit: Unit, workload_ids: Sequence[str]) -> list[Workload]:
        """Those of these workloads that had left the memory; the transaction has them from now on."""
        ...


class Outgoing(Protocol):
    """Publishes decisions."""

    def publish(self, unit: Unit, plan: Plan, world: World) -> None:
        """Stages the events and records of an open transaction. Raises Unpublishable."""
        ...
