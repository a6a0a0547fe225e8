"""What people read while a node that has replicas of a workload does not answer.

Called where replicas are judged (reports, services, trials) and where a workload is asked to end. A lost replica counts
as running until its agent knows that nothing of it is left, so the workload would look well: the text says which node
is silent, since when, and what follows. Holds: it stays the same while the same nodes are silent, so that other reports
tell nothing again.
"""

from __future__ import annotations

from typing import Final

from muster_kernel.lifecycle import LifecycleEvent, Phase
from muster_kernel.reasons import ChangeReason
from muster_scheduler.domain.asked.workloads import SECOND, Replica, Workload
from muster_scheduler.domain.books.course import LIMITS, WAITS, advance, lost, told_before
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.decisions import PhaseChange
from muster_scheduler.domain.life.stale import missed

_NAMED: Final = 8  # nodes
_ENDING: Final = frozenset({Phase.STOPPING, Phase.DELETING})
_PLAIN: Final = {Phase.STOPPING: ChangeReason.SUSPENDED, Phase.DELETING: ChangeReason.DELETED}
_DAY: Final = 24 * 3600


def lost_text(world: World, workload: Workload) -> str:
    """Which nodes are silent, since when, and what follows; empty where none is."""
    away = _away(workload)
    if not away:
        return ""
    begin, nodes = _begin(away)
    if workload.message.startswith(begin):
        return workload.message
    those = _those(workload, away)
    gang = not workload.independent and missed(workload)
    patience = f" (the gang gives up the others after {world.limits.below_minimum // SECOND} s)" if gang else ""
    force = f"`muster nodes force-gone {workload.cluster} {nodes[0]}`"
    start = "it starts" if len(away) == 1 else "they start"
    return (
        f"{begin}{_clock(world.now)} UTC with {those}{patience}; {start} elsewhere once the node has rebooted or been "
        f"down for 15 min, or after {force}"
    )


def silent_since(workload: Workload) -> str:
    """Since when its silent nodes do not answer, as its message says; empty where it says nothing of them."""
    away = _away(workload)
    if not away:
        return ""
    _, begin, rest = workload.message.partition(_begin(away)[0])
    return rest[: len("00:00:00")] if begin else ""


def tell_waiting_to_end(world: World, workload: Workload, since: str = "") -> None:
    """Say what a workload waits for that is being deleted or stopped while nodes with its replicas do not answer.

    since: since when they do not, where the message does not say so any more. A limit that ended the workload stays its
    reason, and the text follows it.
    """
    if workload.phase not in _ENDING:
        return
    said = told_before(workload.message)
    text = _waiting_text(world, workload, since or silent_since(workload))
    reason = workload.reason
    if reason not in LIMITS:
        reason = _PLAIN[workload.phase] if reason is ChangeReason.NODE_LOST else reason
        reason, said = (ChangeReason.NODE_LOST, "") if text else (reason, said)
    message = f"{said}; {text}" if said and text else said + text
    if (workload.reason, workload.message) != (reason, message):
        world.set(workload, reason=reason, message=message)
        course, phase = workload.course, workload.phase
        change = workload.id, course.attempt, phase, phase, course.desired, reason, message, world.now
        world.decide(PhaseChange(*change))


def _waiting_text(world: World, workload: Workload, since: str) -> str:
    away = _away(workload)
    if not away:
        return ""
    begin, nodes = _begin(away)
    answers = "it answers" if len(nodes) == 1 else "they answer"
    those, since = _those(workload, away), since or _clock(world.now)
    return (
        f"{WAITS}{those}: {begin}{since} UTC; it ends once {answers}, or once the "
        "node has rebooted or been down for 15 min, or after an administrator's "
        f"`muster nodes force-gone {workload.cluster} {nodes[0]}`"
    )


def _away(workload: Workload) -> list[Replica]:
    """The replicas on silent nodes, those of an earlier revision included where the workload ends."""
    known = workload.everyone() if workload.phase in _ENDING else workload.replicas.values()
    return [replica for replica in known if lost(replica) and not replica.gone]


def _begin(away: list[Replica]) -> tuple[str, list[str]]:
    """How both texts name the silent nodes, up to the time; and the nodes."""
    nodes = sorted({replica.node[1] for replica in away})
    shown = ", ".join(nodes[:_NAMED])
    begin = f"node {shown} has not answered since " if len(nodes) == 1 else f"nodes {shown} have not answered since "
    return begin, nodes


def _those(workload: Workload, away: list[Replica]) -> str:
    count = len(workload.replicas)
    return f"{len(away)} of its {count} replicas" if count > 1 else "its replica"


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
