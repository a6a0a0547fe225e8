"""Stale gangs: one that has lost replicas and does not get them back holds the others' devices for nothing.

Called by reports (a node fell silent, or answers again) and by the cycle, after everybody has looked for room.
A replica that failed or is gone restarts its gang at once (reports.py); what can last is a silent node: its replicas
count as running until the agent knows better, up to a quarter of an hour, and their peers wait for them.
Holds: the clock is part of the truth and begins anew when the cluster itself was silent; a gang that is lost as a
whole is left alone, since nothing would be won; what is lost stays charged until it is GONE.
"""

from __future__ import annotations

from collections.abc import Container

from muster_kernel.lifecycle import ACTIVE, LifecycleEvent
from muster_kernel.reasons import ChangeReason, PreemptionCause
from muster_scheduler.domain.asked.workloads import SECOND, Ending, Replica, ReplicaState, Workload
from muster_scheduler.domain.books.course import advance, lost
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.decisions import Evicted


def watch_strength(world: World, workload: Workload, states: Container[ReplicaState]) -> None:
    """Starts the clock of a gang that has fallen below its minimum, or stops that of one that has recovered.

    states: those of its replicas.
    """
    if not workload.below_since and ReplicaState.LOST not in states:
        return
    below = workload.phase in ACTIVE and bool(missed(workload))
    if below == bool(workload.below_since):
        return
    world.set(workload, below_since=world.now if below else 0)
    if below:
        world.journal.put(world.short, workload.id, None)
        world.timers.at(world.now + world.limits.below_minimum, workload.id)
    else:
        world.journal.drop(world.short, workload.id)


def missed(workload: Workload) -> list[Replica]:
    """The lost replicas without which its gang cannot go on while others still hold something; empty: it can."""
    away = [each for each in workload.replicas.values() if lost(each)]
    if not away or len(away) == len(workload.replicas):
        return []
    return [each for each in away if not workload.beyond(each.holder.role, each.holder.rank)]


def evict_stale(world: World) -> None:
    """Takes down the gangs that were below their minimum for too long; they go back to the queue as a whole."""
    for workload_id in filter(world.attends, sorted(world.short)):
        workload = world.workloads[workload_id]
        since = workload.below_since
        if workload.phase in ACTIVE and since and since + world.limits.below_minimum <= world.now:
            text = _told(workload, (world.now - since) // SECOND)
            world.set(workload, ending=Ending.MOVED)
            world.decide(Evicted(workload.id, workload.attempt, PreemptionCause.NODE_LOST))
            advance(world, workload, LifecycleEvent.GANG_RESTART, ChangeReason.BELOW_MINIMUM, text)
    world.attending = ""


def _told(workload: Workload, seconds: int) -> str:
    away = missed(workload)
    nodes = ", ".join(sorted({replica.node[1] for replica in away})[:8])
    of = len(workload.replicas)
    return f"{len(away)} of its {of} replicas are lost on {nodes} for {seconds} s, and its gang needs all of them"
