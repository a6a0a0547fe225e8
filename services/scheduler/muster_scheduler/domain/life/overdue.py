"""What follows when a running workload's time is over: it stops for good, or leaves a node and starts elsewhere.

Called by the cycle for workloads whose timer is due.
Holds: a limit of time ends in Stopped and is no failure; leaving a node costs no restart of the workload's own budget.
"""

from __future__ import annotations

from muster_kernel.lifecycle import ACTIVE, LifecycleEvent
from muster_kernel.reasons import PreemptionCause
from muster_scheduler.domain.asked.workloads import Ending, Workload
from muster_scheduler.domain.books.course import advance
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.decisions import Evicted
from muster_scheduler.domain.fleet.clocks import Due
from muster_scheduler.domain.life.elastic import leave_node
from muster_scheduler.domain.life.lost import silent_since, tell_waiting_to_end
from muster_scheduler.domain.life.service import move_away


def look_at_clocks(world: World, workload: Workload) -> None:
    """Ends or moves a running workload of which something is due, and sets its next timer."""
    due = world.due(workload)
    while due is not None and due.at <= world.now and workload.phase in ACTIVE:
        _carry_out(world, workload, due)
        due = world.due(workload)
    if due is not None and workload.phase in ACTIVE:
        world.timers.at(due.at, workload.id)


def _carry_out(world: World, workload: Workload, due: Due) -> None:
    """Takes away what was due: afterwards the workload no longer runs, or nothing of it stays on that node."""
    if due.node is None:
        since = silent_since(workload)
        advance(world, workload, LifecycleEvent.LIMIT_REACHED, due.reason, due.message)
        tell_waiting_to_end(world, workload, since)
    elif workload.independent:
        move_away(world, workload, due.node)
    elif not leave_node(world, workload, due.node):
        world.set(workload, ending=Ending.MOVED)
        world.decide(Evicted(workload.id, workload.attempt, PreemptionCause.DRAIN))
        advance(world, workload, LifecycleEvent.GANG_RESTART, due.reason, due.message)
