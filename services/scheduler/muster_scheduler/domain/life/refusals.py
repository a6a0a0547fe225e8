"""Refusals by agents: which place is excluded, for how long, and what follows for the workload (kubernetes.md 9.2).

Called by `State.apply`. Holds: a refusal spends no budget; the pause at a place doubles with each refusal in a row, so
that a workload that cannot run starves none of the others; no replica that serves is given up for one that is refused.
"""

from __future__ import annotations

from typing import Final

from muster_kernel.lifecycle import ACTIVE, LifecycleEvent, Phase
from muster_kernel.reasons import ChangeReason, RefusalCode
from muster_scheduler.domain.asked.refusals import NEVER, Refusal
from muster_scheduler.domain.asked.requests import Holder
from muster_scheduler.domain.asked.workloads import SECOND, Ending, Replica, ReplicaState, Workload
from muster_scheduler.domain.books.course import advance
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.events import AssignmentRefused
from muster_scheduler.domain.life import elastic, service
from muster_scheduler.domain.life.reports import judge

E = LifecycleEvent
LONGEST_PAUSE: Final = 1800 * SECOND
_FINAL_DENIALS: Final = 5  # denials in a row with the same message
_ROW_ENDS_AFTER: Final = 3600 * SECOND  # without a refusal at a place after its pause
_MOST_PLACES: Final = 64  # of one workload; beyond it the whole cluster is excluded
_MESSAGE_LIMIT: Final = 1024
_UP: Final = frozenset({ReplicaState.STARTING, ReplicaState.READY, ReplicaState.SUCCEEDED})


def on_assignment_refused(world: World, event: AssignmentRefused) -> None:
    """Exclude the place for a while, and place elsewhere what was refused there."""
    workload = world.workloads.get(event.workload)
    if workload is None or workload.cluster != event.cluster or workload.phase not in ACTIVE:
        return
    if (event.generation, event.attempt) != (workload.revision, workload.attempt):
        return
    replica = _meant(workload, event)
    if event.role and replica is None:
        return  # it was replaced since, or has ended
    if replica is not None and _goes_alone(workload, replica):
        refusal = _record(world, workload, event, replica)
        _exclude(world, workload, refusal)
        _replace(world, workload, replica, refusal)
        return
    starting = workload.phase is Phase.INITIALIZING and not any(map(_serves, workload.rolling.values()))
    if event.role and not starting:
        return  # a gang that runs lacks no member
    refusal = _record(world, workload, event, replica)
    if starting:
        if not event.final:
            _exclude(world, workload, refusal)
        for_good = event.final and event.retry_after == 0
        world.set(workload, ending=Ending.FOR_GOOD if for_good else Ending.REFUSED)
        advance(world, workload, E.ASSIGNMENT_REFUSED, ChangeReason.AGENT_REFUSED, _text(refusal))


def forget_refusals(world: World, workload: Workload) -> None:
    """Forget what was refused of an earlier spec."""
    if workload.avoid or workload.refusals:
        world.set(workload, avoid={}, refusals=())


def lift_permanent_refusals(world: World, cluster: str) -> None:
    """Allow a cluster again that refused permanently: its profile or its agent has changed."""
    for workload in world.workloads.values():
        places = [place for place, until in workload.avoid.items() if until == NEVER and place[0] == cluster]
        if places:  # over from now on: the next cycle takes them out
            left = tuple(each for each in workload.refusals if each.place not in places)
            world.set(workload, avoid={**workload.avoid, **dict.fromkeys(places, world.now)}, refusals=left)
            world.timers.at(world.now, workload.id)


def _meant(workload: Workload, event: AssignmentRefused) -> Replica | None:
    """The replica that the refusal names, where it is still wanted."""
    if not event.role:
        return None
    holder = Holder(workload.id, event.generation, event.attempt, event.role, event.rank, event.k)
    found = workload.replicas.get((event.role, event.rank))
    return found if found is not None and found.holder == holder and not found.ended else None


def _goes_alone(workload: Workload, replica: Replica) -> bool:
    """Whether the others go on without it. What only begins, with nothing beside it, may go to another cluster."""
    if not workload.independent:
        return workload.beyond(replica.holder.role, replica.holder.rank)
    return workload.phase is not Phase.INITIALIZING or len(workload.replicas) + len(workload.rolling) > 1


def _serves(replica: Replica) -> bool:
    return replica.state is ReplicaState.READY and not replica.gone


def _place(workload: Workload, event: AssignmentRefused, replica: Replica | None) -> tuple[str, str]:
    """What is excluded: a node where one of its replicas is, else the cluster. What an agent makes up is no place."""
    if not event.node:
        return event.cluster, ""
    if replica is not None:
        return replica.node
    named = event.cluster, event.node
    return named if any(each.node == named for each in workload.replicas.values()) else (event.cluster, "")


def _record(world: World, workload: Workload, event: AssignmentRefused, replica: Replica | None) -> Refusal:
    """Record the refusal, with how long its place is excluded: the pause doubles with each refusal in a row."""
    place = _place(workload, event, replica)
    before = next((each for each in workload.refusals if each.place == place), None)
    if before is not None and _is_over(world, workload, before):
        before = None
    same = before is not None and (before.code, before.message) == (event.code, event.message[:_MESSAGE_LIMIT])
    times, alike, until = 1, 1, 0
    if before is not None and before.until > world.now:  # others of the same round: it is one refusal
        times, alike, until = before.times, before.same_message, before.until
    elif before is not None:
        times, alike = before.times + 1, before.same_message + 1 if same else 1
    denied = event.code == RefusalCode.ADMISSION_DENIED and alike >= _FINAL_DENIALS
    pause = min(LONGEST_PAUSE, event.retry_after * SECOND << min(times - 1, 16))
    until = max(until, NEVER if event.retry_after == 0 or denied else world.now + pause)
    refusal = Refusal(*place, event.code, event.message[:_MESSAGE_LIMIT], world.now, until, times, alike)
    others = [each for each in workload.refusals if each.place != place and not _is_over(world, workload, each)]
    world.set(workload, refusals=(*others, refusal)[-_MOST_PLACES:])
    return refusal


def _exclude(world: World, workload: Workload, refusal: Refusal) -> None:
    place, until = refusal.place, refusal.until
    avoid = {**workload.avoid, place: max(until, workload.avoid.get(place, 0))}
    if len(avoid) > _MOST_PLACES:
        others = {key: value for key, value in avoid.items() if key[0] != place[0]}
        avoid = {**others, (place[0], ""): max(value for key, value in avoid.items() if key[0] == place[0])}
    world.set(workload, avoid=avoid)
    if until < NEVER:
        world.timers.at(until, workload.id)


def _is_over(world: World, workload: Workload, refusal: Refusal) -> bool:
    """Whether the next refusal there begins a new row: the last was long ago, or something has started there since."""
    if refusal.until != NEVER and world.now > refusal.until + _ROW_ENDS_AFTER:
        return True
    there = (each for each in workload.replicas.values() if each.node[0] == refusal.cluster)
    return any(each.state in _UP and refusal.node in {"", each.node[1]} for each in there)


def _replace(world: World, workload: Workload, replica: Replica, refusal: Refusal) -> None:
    """Give up one replica, which gets another place under the next k; the others go on."""
    if not workload.independent:
        elastic.drop_surplus(world, workload, replica)
        judge(world, workload)
        return
    holder = replica.holder
    key = (holder.role, holder.rank)
    # No other place of the cluster takes it either: without a rest it would be refused again in every cycle.
    not_before = world.now if refusal.node else min(refusal.until, world.now + LONGEST_PAUSE)
    world.set(workload, replacements={**workload.replacements, key: (holder.k + 1, not_before)})
    world.journal.drop(workload.replicas, key)
    service.leave(world, workload, replica)
    world.journal.put(world.hungry, workload.id, None)
    world.timers.at(not_before, workload.id)
    if not refusal.node and not workload.replicas and not workload.rolling:  # another cluster may take all of it
        world.set(workload, ending=Ending.REFUSED)
        advance(world, workload, E.GANG_RESTART, ChangeReason.AGENT_REFUSED, _text(refusal))
        return
    world.rewrite(workload)
    judge(world, workload)


def _text(refusal: Refusal) -> str:
    return f"{refusal.code}: {refusal.message}"[:_MESSAGE_LIMIT]
