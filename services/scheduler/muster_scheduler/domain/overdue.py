"""What follows when a running workload's time is over: it stops for good, or leaves a node and starts elsewhere.

Called by the cycle for workloads whose timer is due.
Holds: a limit of time ends in Stopped and is no failure; leaving a node costs no restart of the workload's own budget.
"""

from __future__ import annotations

from muster_kernel.lifecycle import ACTIVE, LifecycleEvent
from muster_kernel.reasons import ChangeReason
from muster_scheduler.domain.clocks import Due
from muster_scheduler.domain.course import advance
from muster_scheduler.domain.service import move_away
from muster_scheduler.domain.workloads import Ending, Workload
from muster_scheduler.domain.world import World


def look_at_clocks(world: World, workload: Workload) -> None:
    """Ends or moves a running workload of which something is due, and sets its next timer."""
    due = world.due(workload)
    while due is not None and due.at <= world.now and workload.phase in ACTIVE:
        if not _carry_out(world, workload, due):
            break
        due = world.due(workload)
    if due is not None and workload.phase in ACTIVE:
        world.timers.at(max(due.at, world.now + 1), workload.id)


def _carry_out(world: World, workload: Workload, due: Due) -> bool:
    """Whether it had any effect."""
    if due.reason is not ChangeReason.NODE_CLOSING:
        return advance(world, workload, LifecycleEvent.LIMIT_REACHED, due.reason, due.message) is None
    if workload.independent:
        return due.node is not None and move_away(world, workload, due.node)
    world.set(workload, ending=Ending.MOVED)
    return advance(world, workload, LifecycleEvent.GANG_RESTART, due.reason, due.message) is None
