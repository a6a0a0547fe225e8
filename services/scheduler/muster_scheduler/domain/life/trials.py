"""Independent trials of one training (completions, parallelism): each has its own place, end and number.

Called by the cycle (fill up), by reports (a trial ended) and when the first one is placed. No gang: one trial is what
waits in the queue; once it has a place, others follow wherever there is room, at most so many at once.
Holds: a number runs in one replica at a time and is done once it succeeded; what failed runs again under its number,
after a pause, until the workload's budget is spent; what is done is not run again after a preemption or a resume.
"""

from __future__ import annotations

from typing import Final

from muster_kernel.lifecycle import ACTIVE, LifecycleEvent, Phase
from muster_kernel.reasons import ChangeReason, FailureClass
from muster_scheduler.domain.asked.courses import Planned
from muster_scheduler.domain.asked.limits import FAULT_LIMIT
from muster_scheduler.domain.asked.workloads import Replica, ReplicaState, Trials, Workload
from muster_scheduler.domain.books.claims import claim_holder
from muster_scheduler.domain.books.course import advance
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.life.failures import (
    FLEETS,
    LONGEST,
    faults_in_a_row,
    how_it_ended,
    pause_is_so,
    ran_for,
    tell_ready,
)
from muster_scheduler.domain.life.lost import lost_text, tell_lost
from muster_scheduler.domain.life.service import add_replica, replica_ended, wait_again
from muster_scheduler.domain.placement.cluster_choice import ready
from muster_scheduler.domain.placement.place import Budget

E = LifecycleEvent
_UP: Final = frozenset({ReplicaState.READY, ReplicaState.SUCCEEDED})


def wanted(workload: Workload, trials: Trials) -> list[int]:
    """The numbers that should run now, lowest first: those begun and not done, then new ones."""
    begun = list(workload.open_trials[: trials.at_once])
    new = min(trials.at_once - len(begun), trials.completions - workload.next_trial)
    return [*begun, *range(workload.next_trial, workload.next_trial + max(0, new))]


def done_count(workload: Workload) -> int:
    """How many trials have succeeded."""
    return workload.next_trial - len(workload.open_trials)


def progress_text(workload: Workload, trials: Trials) -> str:
    """How far the series is, for a person."""
    return f"{done_count(workload)} of {trials.completions} trials are done, at most {trials.at_once} run at once"


def done(workload: Workload, trials: Trials) -> bool:
    """Whether every trial has succeeded."""
    return not workload.open_trials and workload.next_trial >= trials.completions


def begin(world: World, workload: Workload, index: int) -> None:
    """Notes that a trial has its place."""
    if index == workload.next_trial:
        world.set(workload, next_trial=index + 1, open_trials=(*workload.open_trials, index))


def begin_first(world: World, workload: Workload, planned: tuple[Planned, ...]) -> tuple[Planned, ...]:
    """Gives the place that was found for one replica to the first trial that is wanted; `grow_trials` adds others."""
    trials = workload.request.trials if workload.request else None
    if trials is None or len(planned) != 1:
        return planned
    (place,) = planned
    index = wanted(workload, trials)[0]
    begin(world, workload, index)
    world.journal.put(world.hungry, workload.id, None)
    if index == place.rank:
        return planned
    world.inventory.release(claim_holder(workload, place.role, place.rank), place.node)
    world.inventory.charge(claim_holder(workload, place.role, index), place.node, place.grant)
    return (place._replace(rank=index),)


def grow_trials(world: World, workload: Workload, trials: Trials, budget: Budget) -> None:
    """Places the trials that should run and do not, as far as there is room and quota."""
    if workload.phase not in ACTIVE or workload.request is None:
        world.journal.drop(world.hungry, workload.id)
        return
    if not ready(world, world.clusters.get(workload.cluster)):
        return
    role = workload.request.roles[0]
    missing = [index for index in wanted(workload, trials) if (role.name, index) not in workload.replicas]
    resting = {index for index in missing if workload.replacements.get((role.name, index), (0, 0))[1] > world.now}
    placed = 0
    for index in missing:
        if index in resting:
            continue
        if budget.spent:
            break  # it stays hungry: the next cycle goes on
        if not add_replica(world, workload, role, index, budget):
            break  # they are all alike: what has no room for one has none for the next
        begin(world, workload, index)
        placed += 1
    if placed:
        world.rewrite(workload)
        world.watch(workload)  # the nodes that they came to may have an end
    if placed == len(missing):
        world.journal.drop(world.hungry, workload.id)
    elif not resting and not workload.remaining and not budget.spent:
        wait_again(world, workload, "its next trial waits for room")


def trial_ended(world: World, workload: Workload, replica: Replica) -> None:
    """A trial's replica is gone: its number is done, or runs again after a pause, or the budget is spent."""
    holder = replica.holder
    if holder in workload.leaving:
        return
    if replica.state is not ReplicaState.SUCCEEDED:
        _trial_failed(world, workload, replica)
        return
    key = (holder.role, holder.rank)
    world.journal.drop(workload.replicas, key)
    world.journal.put(workload.leaving, holder, replica)
    left = {at: value for at, value in workload.replacements.items() if at != key}
    still = tuple(index for index in workload.open_trials if index != holder.rank)
    faults = tuple(each for each in workload.trial_faults if each[0] != holder.rank)
    world.set(workload, open_trials=still, replacements=left, trial_faults=faults)
    world.journal.put(world.hungry, workload.id, None)
    if workload.phase in ACTIVE:
        world.rewrite(workload)


def _name(_role: str, rank: int) -> str:
    return f"trial {rank}"


def _trial_failed(world: World, workload: Workload, replica: Replica) -> None:
    holder = replica.holder
    before = dict(workload.trial_faults)
    faults = faults_in_a_row(before.get(holder.rank, 0), ran_for(replica, world.now))
    if replica.news.failure in FLEETS:
        world.set(workload, trial_faults=tuple(sorted({**before, holder.rank: faults}.items())))
    reason = _spent(workload, replica, faults)
    who = f"{_name(holder.role, holder.rank)}{_count(workload, replica, faults)}"
    if reason is None:
        replica_ended(world, workload, replica, who)
    else:
        advance(world, workload, E.BUDGET_SPENT, reason, f"{who}: {how_it_ended(replica)}"[:LONGEST])


def _count(workload: Workload, replica: Replica, faults: int) -> str:
    """Which failure of all trials together, or which fault of this one, this is, and how many are allowed."""
    failure, request = replica.news.failure, workload.request
    if failure is FailureClass.OUT_OF_MEMORY or request is None:
        return ""
    if failure in FLEETS:
        return f" (fault {faults} of the fleet in a row, {FAULT_LIMIT} are allowed)"
    return f" (failure {workload.exits + 1}, backoffLimit {request.backoff_limit})"


def _spent(workload: Workload, replica: Replica, faults: int) -> ChangeReason | None:
    """Why a failed trial is the end of the whole workload; None: it may run again."""
    request = workload.request
    match replica.news.failure:
        case FailureClass.OUT_OF_MEMORY:
            return ChangeReason.OUT_OF_MEMORY
        case failure if failure in FLEETS:
            return ChangeReason.INFRASTRUCTURE_LIMIT if faults > FAULT_LIMIT else None
        case _:
            limit = request.backoff_limit if request else 0
            return ChangeReason.EXIT_LIMIT if workload.exits >= limit else None


def evaluate(world: World, workload: Workload, trials: Trials) -> None:
    """What the trials say of the workload's phase: it runs as soon as one does, and ends with the last."""
    if done(workload, trials):
        advance(world, workload, E.ALL_SUCCEEDED, ChangeReason.SUCCEEDED, f"all {trials.completions} trials are done")
    elif any(replica.state in _UP for replica in workload.replicas.values()):
        if pause_is_so(workload, workload.replacements, _name):
            advance(world, workload, E.ALL_READY, workload.reason, workload.message)
        else:
            tell_ready(world, workload, lost_text(world, workload) or progress_text(workload, trials))
    elif tell_lost(world, workload):
        pass
    elif workload.phase is Phase.UNKNOWN:
        advance(world, workload, E.NONE_READY, ChangeReason.CLUSTER_BACK)
