"""The records that a new leader owes: those of every workload of which something may still run (rule 5).

Called by the composition root when a term begins, and by the handlers for each stretch of these workloads.
"""

from __future__ import annotations

from collections.abc import Sequence

from muster_kernel.lifecycle import Phase
from muster_scheduler.domain import decisions
from muster_scheduler.domain.books.world import World


def owed(world: World) -> list[str]:
    """The workloads whose records a new leader has to publish: something of them may still run."""
    return sorted(workload.id for workload in world.workloads.values() if workload.remaining)


def republish(world: World, workloads: Sequence[str]) -> None:
    """Decides records anew: an assignment for what should run, a tombstone for what is still leaving.

    A workload that has ended since it was owed has had its last record in this term.
    """
    for workload_id in workloads:
        workload = world.workloads.get(workload_id)
        if workload is None or not workload.remaining:
            continue
        if workload.active or workload.phase is Phase.UNKNOWN:
            world.rewrite(workload)
            continue
        grace, reason = world.limits.grace, workload.reason.value
        run = (workload.revision, workload.attempt)
        world.decide(decisions.Release(workload.cluster, workload.id, *run, grace, reason))
