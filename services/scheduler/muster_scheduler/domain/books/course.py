"""The course of a workload: what follows when its phase moves.

Every change of a phase goes through `advance`, which asks the kernel's table and then does what entering the new phase
means: queue it, write or withdraw its record, give back what nothing runs on any more.
Holds: a tombstone is decided in the same step in which the phase stops wanting replicas; a workload that waits for the
last replica to go moves on in the very step in which nothing of it is left.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from muster_kernel.lifecycle import ACTIVE, FINAL, OVER, RELEASING, WAITING, LifecycleEvent, Moved, Phase, Verdict, step
from muster_kernel.reasons import ChangeReason
from muster_scheduler.domain.asked.courses import stepped, taken_down
from muster_scheduler.domain.asked.limits import KEEP_DEVICES, STEADY_AFTER
from muster_scheduler.domain.asked.workloads import Ending, Replica, ReplicaState, Request, Workload
from muster_scheduler.domain.books.claims import drop_claim, tell_claims
from muster_scheduler.domain.books.eligible import eligibility_of
from muster_scheduler.domain.books.reserving import let_go
from muster_scheduler.domain.books.usual import learn
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.decisions import PhaseChange, Release
from muster_scheduler.domain.fleet.eligibility import excluded
from muster_scheduler.domain.fleet.nodes import Mode
from muster_scheduler.domain.tuples import new

E = LifecycleEvent
_THERE: Final = ACTIVE | {Phase.UNKNOWN}
_CLAIMING: Final = WAITING | {Phase.TERMINATING}
_TAKEN_DOWN: Final = RELEASING | OVER
LIMITS: Final = frozenset({ChangeReason.RUN_TIME_LIMIT, ChangeReason.IDLE_LIMIT})
"""Why the system itself stops a workload; people read it for as long as it is stopped."""
WAITS: Final = "waits for "
"""How the text begins of what a workload that ends waits for; it follows what was said before."""


def advance(
    world: World, workload: Workload, event: LifecycleEvent, reason: ChangeReason, message: str = ""
) -> Verdict | None:
    """Moves a workload by one event. None where it was taken, else the table's verdict."""
    moved = step(workload.phase, event, workload.course.desired)
    if not isinstance(moved, Moved):
        return moved
    if workload.course.desired is not moved.desired:
        world.set(workload, desired=moved.desired)
        if not moved.path:
            _tell(world, workload, workload.phase, reason, message)
    for phase in moved.path:
        before = workload.phase
        if phase is not moved.path[0]:
            reason, message = _remembered(phase), ""
        _move(world, workload, phase, reason, message)
        _tell(world, workload, before, reason, message)
        _enter(world, workload, before)
        if workload.phase is not phase:
            break  # entering it moved on already (nothing was running); the remembered wish was part of that step
    return None


def _move(world: World, workload: Workload, phase: Phase, why: ChangeReason, said: str) -> None:
    """Writes what is something else in a workload that enters a phase; as one change, remembered at once."""
    before, course = workload.phase, workload.course
    world.journal.keep(
        workload,
        phase=before,
        course=course,
        queued=workload.queued,
        finished=workload.finished,
        told=workload.told,
    )
    if phase in WAITING:
        workload.queued = world.now
    elif phase in FINAL:
        workload.finished = world.now
    if before in WAITING:
        workload.told = None
    workload.phase = phase
    if before in _THERE and phase in _TAKEN_DOWN:
        workload.course = taken_down(course, why, said, world.now)
    else:
        workload.course = stepped(course, why, said, course.record)
    world.touched.workloads[workload.id] = None


def _remembered(phase: Phase) -> ChangeReason:
    if phase is Phase.RESUMING:
        return ChangeReason.RESUMED
    return ChangeReason.DELETED if phase is Phase.DELETING else ChangeReason.SUSPENDED


def _tell(world: World, workload: Workload, before: Phase, reason: ChangeReason, message: str) -> None:
    course = workload.course
    now = workload.id, course.attempt, before, workload.phase, course.desired, reason, message, world.now
    world.decide(new(PhaseChange, now))


def _enter(world: World, workload: Workload, before: Phase) -> None:
    phase = workload.phase
    if workload.course.claim is not None and phase not in _CLAIMING:
        drop_claim(world, workload)  # of one that moved, and whose next run is not wanted any more
    if before in WAITING:
        world.waiting.remove(workload.id)
        if phase not in ACTIVE:
            world.relent(workload)
        let_go(world, workload)
    if phase in WAITING:
        if phase is Phase.RESUMING:
            world.set(workload, attempt=workload.attempt + 1, ours=workload.ours + 1, not_before=0, ran=0)
        _line_up(world, workload)
    elif phase in ACTIVE and before not in ACTIVE:
        _run(world, workload, before)
    elif phase in _TAKEN_DOWN:
        _take_down(world, workload, before)
    if phase in FINAL:
        world.over.at(world.now, workload.id)


def _run(world: World, workload: Workload, before: Phase) -> None:
    world.look_again(workload)
    if before in {Phase.UNKNOWN, Phase.TERMINATING}:
        world.watch(workload)  # its timer may have gone by, or a rebuild left it out, while it did not run
        if workload.independent:
            world.journal.put(world.hungry, workload.id, None)  # likewise


def enqueue(world: World, workload: Workload) -> None:
    """Puts a workload that waits into the queue anew, or to sleep until its backoff is over."""
    world.set(workload, queued=world.now)
    _line_up(world, workload)


def _line_up(world: World, workload: Workload) -> None:
    if workload.claim is not None or workload.id in world.quarantined:
        return
    if workload.not_before > world.now:
        world.timers.at(workload.not_before, workload.id)
        return
    blocked = world.waiting.add(workload)
    if blocked is not None:
        world.tell(workload, blocked)


def _take_down(world: World, workload: Workload, before: Phase) -> None:
    """Terminating, Stopping, Deleting, Completed, Failed: nothing of it is wanted any more."""
    drop_claim(world, workload)
    if workload.phase in OVER:
        world.note_times(workload)
        if workload.phase is Phase.COMPLETED:
            learn(world.usual, world.journal, workload)
    _give_back_kept(world, workload)
    if before in _THERE:
        _judge_run(world, workload)
        course = workload.course
        run = workload.cluster, workload.id, workload.revision, course.attempt
        world.decide(new(Release, (*run, world.limits.grace, course.reason.value)))
        for replica in workload.everyone():
            if not replica.gone:  # who waits may count on it from now on
                world.free("", workload.cluster, workload.pool, replica.node)
    if workload.remaining:
        world.depart(workload)
    else:
        nothing_left(world, workload)


def _judge_run(world: World, workload: Workload) -> None:
    """What the run that ends says of later ones: whether they can start, and whether earlier faults still count."""
    again = workload.phase not in OVER and not workload.has_run
    if again and all(replica.news.started for replica in workload.replicas.values()):
        world.set(workload, has_run=True)
    lasted = world.now - workload.placed
    if workload.faults and workload.ending is not Ending.RESTART and lasted >= STEADY_AFTER:
        world.set(workload, faults=0)


def _give_back_kept(world: World, workload: Workload) -> None:
    """Returns the devices of replicas that waited for their restart."""
    for replica in [each for each in workload.replicas.values() if each.kept]:
        world.give_back(workload, replica)


def gone(world: World, workload: Workload, replica: Replica) -> None:
    """No process of this replica is left."""
    holder = replica.holder
    if holder in workload.leaving or holder in workload.rolling:
        world.give_back(workload, replica)
        world.journal.drop(workload.leaving, holder)
        world.journal.drop(workload.rolling, holder)
    elif _keeps(world, workload, replica):
        world.set_replica(replica, gone=True, kept=True)
    else:
        world.give_back(workload, replica)
    remaining = workload.remaining
    tell_claims(world, workload, remaining=remaining)
    if not remaining:
        nothing_left(world, workload)


def _keeps(world: World, workload: Workload, replica: Replica) -> bool:
    """Whether the devices of a gone replica wait for its restart."""
    if workload.phase is not Phase.TERMINATING or workload.ending is not Ending.RESTART:
        return False
    return workload.not_before - world.now <= KEEP_DEVICES and healthy(world, replica)


def healthy(world: World, replica: Replica) -> bool:
    """Whether what the replica holds could be used again."""
    node = world.inventory.nodes.get(replica.node)
    if node is None:
        return False
    asked = eligibility_of(world.queues, world.workloads[replica.holder.workload], world.limits.grace)
    if excluded(asked._replace(avoided=frozenset()), node, world.now) is not None:
        return False
    held = (node.device(share.device) for share in replica.grant.shares)
    return all(device is not None and device.mode not in {Mode.UNHEALTHY, Mode.FOREIGN} for device in held)


def nothing_left(world: World, workload: Workload) -> None:
    """All replicas are gone (or there never were any): what waited for that follows now."""
    match workload.phase:
        case Phase.TERMINATING:
            _terminated(world, workload)
        case Phase.STOPPING:
            world.clear_run(workload)
            limit = workload.reason in LIMITS  # else nothing would show that a limit ended it
            reason, message = (
                (workload.reason, told_before(workload.message)) if limit else (ChangeReason.REPLICAS_GONE, "")
            )
            advance(world, workload, E.ALL_GONE, reason, message)
        case Phase.DELETING:
            world.clear_run(workload)
            advance(world, workload, E.ALL_GONE, ChangeReason.REPLICAS_GONE)
        case Phase.COMPLETED | Phase.FAILED:
            world.clear_run(workload)
        case _:
            pass


def _terminated(world: World, workload: Workload) -> None:
    if workload.ending is Ending.RESTART and _all_kept(workload):
        if workload.not_before > world.now:
            world.timers.at(workload.not_before, workload.id)
        else:
            _again(world, workload)
        return
    _give_back_kept(world, workload)
    ending, request = workload.ending, workload.request
    world.clear_run(workload)
    final = ending is Ending.FOR_GOOD
    reason, message = workload.reason, workload.message  # why it was taken down is why it waits
    if ending is Ending.FOR_GOOD:
        reason = ChangeReason.AGENT_REFUSED
    elif ending is Ending.NONE:
        reason, message = ChangeReason.REPLICAS_GONE, ""
    lost = 1 if ending is Ending.PREEMPTED else 0
    ours = workload.ours + (1 if ending is Ending.MOVED else lost)
    preemptions = workload.preemptions + lost
    ran = 0 if lost else workload.ran + world.now - workload.placed
    if lost and request is not None and _had_enough(request, preemptions):
        final, reason, message = True, ChangeReason.TERMINATED_AFTER_PREEMPTION, ""
    world.set(workload, ending=Ending.NONE, attempt=workload.attempt + 1, ours=ours, preemptions=preemptions, ran=ran)
    advance(world, workload, E.ALL_GONE_FOR_GOOD if final else E.ALL_GONE, reason, message)


def _had_enough(request: Request, preemptions: int) -> bool:
    """Whether a workload ends with this preemption instead of waiting for its next turn."""
    limit = request.preemption_limit
    return request.terminate_after_preemption or (limit is not None and preemptions > limit)


def _all_kept(workload: Workload) -> bool:
    return bool(workload.replicas) and all(replica.kept for replica in workload.replicas.values())


def restart_due(world: World, workload: Workload) -> None:
    """The backoff of a Terminating workload is over: starts it again where it was, if all of it is gone."""
    if workload.ending is Ending.RESTART and not workload.remaining:
        _terminated(world, workload)


def _again(world: World, workload: Workload) -> None:
    """The next attempt on the same devices; on any other place where one of them has become unhealthy meanwhile."""
    if not all(healthy(world, replica) for replica in workload.replicas.values()):
        for replica in list(workload.replicas.values()):
            world.give_back(workload, replica)
        _terminated(world, workload)
        return
    held = sorted(workload.replicas.values(), key=lambda replica: replica.holder)
    for replica in held:
        world.inventory.release(replica.holder, replica.node)
        world.touched.replicas[replica.holder] = None
    ran = workload.ran + world.now - workload.placed
    world.set(workload, replicas={}, ending=Ending.NONE, attempt=workload.attempt + 1, not_before=0)
    world.set(workload, placed=world.now, ran=ran, idle_since=0, below_since=0, calm_since=0, resized=0)
    for old in held:
        holder = replace(old.holder, attempt=workload.attempt, k=0)
        world.inventory.charge(holder, old.node, old.grant)
        again = Replica(holder, old.node, old.grant)
        world.journal.put(workload.replicas, (holder.role, holder.rank), again)
        world.touched.replicas[holder] = None
    advance(world, workload, E.ALL_GONE_SAME_DEVICES, ChangeReason.RESTART)
    world.rewrite(workload)
    world.may_yield_again(workload)


def told_before(message: str) -> str:
    """A message without what the workload waited for while it ended."""
    return message.partition(WAITS)[0].removesuffix("; ")


def lost(replica: Replica) -> bool:
    """Whether its node is silent."""
    return replica.state is ReplicaState.LOST
