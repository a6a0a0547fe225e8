"""What agents do not take: what is left out then, for how long, and what follows for the workload (kubernetes.md 9.2).

Called by `State.apply`. Holds: a refusal spends no budget; what is refused again and again is asked for ever more
seldom, so that a workload that cannot run starves none of the others; a service that is up never fails by a refusal.
"""

from __future__ import annotations

from typing import Final

from muster_kernel.lifecycle import ACTIVE, LifecycleEvent, Phase
from muster_kernel.reasons import ChangeReason, RefusalCode
from muster_scheduler.domain.asked.refusals import NEVER, Refusal
from muster_scheduler.domain.asked.requests import Holder
from muster_scheduler.domain.asked.workloads import SECOND, Ending, Replica, Workload
from muster_scheduler.domain.books.course import advance
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.events import AssignmentRefused
from muster_scheduler.domain.life import elastic, service
from muster_scheduler.domain.life.reports import judge

E = LifecycleEvent
LONGEST_PAUSE: Final = 1800 * SECOND
_DENIED_FOR_GOOD: Final = 5  # denials with the same message: another one would say the same
_IN_A_ROW: Final = 3600 * SECOND  # what is refused later than this after its pause was taken there meanwhile
_KEPT: Final = 8
_TEXT: Final = 1024


def on_assignment_refused(world: World, event: AssignmentRefused) -> None:
    """The agent will not do it: the place is left out for a while, and what is meant gets another one."""
    workload = world.workloads.get(event.workload)
    if workload is None or workload.cluster != event.cluster:
        return
    if (event.generation, event.attempt) != (workload.revision, workload.attempt):
        return
    replica = _replica_that_goes_alone(workload, event)
    if replica is None and workload.phase is not Phase.INITIALIZING:
        return
    refusal = _noted(world, workload, event)
    if replica is not None and (workload.phase is not Phase.INITIALIZING or len(workload.replicas) > 1):
        _replace(world, workload, replica, refusal)
        return
    for_good = event.final and event.retry_after == 0
    world.set(workload, ending=Ending.FOR_GOOD if for_good else Ending.REFUSED)
    text = f"{event.code}: {event.message}"[:_TEXT]
    advance(world, workload, E.ASSIGNMENT_REFUSED, ChangeReason.AGENT_REFUSED, text)


def forget_refusals(world: World, workload: Workload) -> None:
    """Another spec: what was refused of the one before says nothing of it."""
    if workload.avoid or workload.refusals:
        world.set(workload, avoid={}, refusals=())


def ask_again(world: World, cluster: str) -> None:
    """A cluster takes other things than before: what it refused for good may be tried there again."""
    for workload in world.workloads.values():
        places = [place for place, until in workload.avoid.items() if until == NEVER and place[0] == cluster]
        if places:  # over from now on: the next cycle takes them out
            world.set(workload, avoid={**workload.avoid, **dict.fromkeys(places, world.now)})
            world.timers.at(world.now, workload.id)


def _replica_that_goes_alone(workload: Workload, event: AssignmentRefused) -> Replica | None:
    """The replica that is meant, where the workload can go on without it; None: all of it is meant."""
    if not event.role or workload.phase not in ACTIVE:
        return None
    if not workload.independent and not workload.beyond(event.role, event.rank):
        return None
    holder = Holder(workload.id, event.generation, event.attempt, event.role, event.rank, event.k)
    found = workload.replicas.get((event.role, event.rank))
    return found if found is not None and found.holder == holder and not found.gone else None


def _noted(world: World, workload: Workload, event: AssignmentRefused) -> Refusal:
    """Leaves the place out: at each refusal in a row for twice as long, at the last one for good."""
    place = (event.cluster, event.node)
    before = next((each for each in workload.refusals if each.place == place), None)
    if before is not None and world.now > before.until + _IN_A_ROW:
        before = None
    times = before.times + 1 if before else 1
    same = before is not None and (before.code, before.message) == (event.code, event.message)
    alike = before.alike + 1 if before is not None and same else 1
    denied = event.code == RefusalCode.ADMISSION_DENIED and alike >= _DENIED_FOR_GOOD
    if event.retry_after == 0 or denied:
        until = NEVER
    else:
        until = world.now + min(LONGEST_PAUSE, event.retry_after * SECOND << min(times - 1, 16))
        world.timers.at(until, workload.id)
    refusal = Refusal(*place, event.code, event.message[:_TEXT], world.now, until, times, alike)
    others = [each for each in workload.refusals if each.place != place]
    world.set(workload, refusals=(*others, refusal)[-_KEPT:], avoid={**workload.avoid, place: until})
    return refusal


def _replace(world: World, workload: Workload, replica: Replica, refusal: Refusal) -> None:
    """Gives up one replica, which gets another place under the next k; the others go on."""
    if not workload.independent:
        elastic.give_up(world, workload, replica)
        return
    holder = replica.holder
    key = (holder.role, holder.rank)
    # A refusal that holds wherever it may be placed is waited out, or it would be asked for in every cycle.
    not_before = world.now if refusal.node else min(refusal.until, world.now + LONGEST_PAUSE)
    world.set(workload, replacements={**workload.replacements, key: (holder.k + 1, not_before)})
    world.journal.drop(workload.replicas, key)
    service.leave(world, workload, replica)
    world.journal.put(world.hungry, workload.id, None)
    world.timers.at(not_before, workload.id)
    world.rewrite(workload)
    judge(world, workload)
