"""What people read while a node that has replicas of a workload does not answer.

Called where replicas are judged (reports, services, trials). A lost replica counts as running until its agent knows
that nothing of it is left, so the workload would look well: the text says which node is silent, since when, and what
follows. Holds: it stays the same while the same nodes are silent, so that other reports tell nothing again.
"""

from __future__ import annotations

from typing import Final

from muster_kernel.lifecycle import LifecycleEvent, Phase
from muster_kernel.reasons import ChangeReason
from muster_scheduler.domain.asked.workloads import SECOND, Workload
from muster_scheduler.domain.books.course import advance, lost
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.life.stale import missed

_NAMED: Final = 8  # nodes
_DAY: Final = 24 * 3600


def lost_text(world: World, workload: Workload) -> str:
    """Which nodes are silent, since when, and what follows; empty where none is."""
    away = [replica for replica in workload.replicas.values() if lost(replica) and not replica.gone]
    if not away:
        return ""
    nodes = sorted({replica.node[1] for replica in away})
    shown = ", ".join(nodes[:_NAMED])
    begin = f"node {shown} does not answer since " if len(nodes) == 1 else f"nodes {shown} do not answer since "
    if workload.message.startswith(begin):
        return workload.message
    those = f"{len(away)} of its {len(workload.replicas)} replicas" if len(workload.replicas) > 1 else "its replica"
    gang = not workload.independent and missed(workload)
    patience = f" (the gang gives up the others after {world.limits.below_minimum // SECOND} s)" if gang else ""
    force = f"`muster nodes force-gone {workload.cluster} {nodes[0]}`"
    return (
        f"{begin}{_clock(world.now)} UTC with {those}{patience}; they start elsewhere once the node is known to be "
        f"gone for good (it reboots, or 15 min without its system), or after {force}"
    )


def _clock(now: int) -> str:
    seconds = now // SECOND % _DAY
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def tell_lost(world: World, workload: Workload) -> bool:
    """Says that nodes are silent, or no longer; whether some are. What ran is Degraded from then on."""
    text = lost_text(world, workload)
    if not text:
        if workload.reason is ChangeReason.NODE_LOST:
            some = ChangeReason.REPLICAS_LOST if workload.phase is Phase.DEGRADED else ChangeReason.PLACED
            world.set(workload, reason=some, message="")
        return False
    if workload.phase in {Phase.RUNNING, Phase.UNKNOWN}:
        advance(world, workload, LifecycleEvent.SOME_LOST, ChangeReason.NODE_LOST, text)
    elif (workload.reason, workload.message) != (ChangeReason.NODE_LOST, text):
        world.set(workload, reason=ChangeReason.NODE_LOST, message=text)
    return True
