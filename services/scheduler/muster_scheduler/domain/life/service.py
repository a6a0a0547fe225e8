"""Inference services: how many replicas stand, how one is replaced, how a new revision takes over.

Called by reports (a replica failed, became ready, went), by admission (a new generation) and by the cycle (fill up).
Holds: a failing replica is replaced without limit but with a pause that grows with the failures of its own command,
under a new k and only after the old one is gone; a new revision takes a place next to the old one where there is room,
else in its stead, one at a time.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final

from muster_kernel.lifecycle import ACTIVE, LifecycleEvent, Phase
from muster_kernel.reasons import ChangeReason, FailureClass
from muster_scheduler.domain.asked.limits import BACKOFF_FIRST, HEALTHY_AFTER, SETTLED_AFTER, backoff
from muster_scheduler.domain.asked.quotas import Amount
from muster_scheduler.domain.asked.requests import Role
from muster_scheduler.domain.asked.workloads import Ending, Replica, ReplicaState, Request, Workload
from muster_scheduler.domain.books.claims import claim_holder
from muster_scheduler.domain.books.course import advance
from muster_scheduler.domain.books.world import World, owner_of
from muster_scheduler.domain.decisions import Scaled
from muster_scheduler.domain.life.failures import (
    FLEETS,
    pause_is_so,
    ran_for,
    tell_pause,
    tell_ready,
)
from muster_scheduler.domain.life.lost import tell_lost
from muster_scheduler.domain.placement.cluster_choice import ready
from muster_scheduler.domain.placement.place import Budget, place_replica
from muster_scheduler.domain.placement.slicing import charge_there

E = LifecycleEvent
_ONE_BY_ONE: Final = 100
"""Visits that the placing of a replica by itself costs beside those of its nodes: some 200 us, all books included."""
NO_REPLICAS: Final = "it should have no replicas now"
_SOME_LACK: Final = {Phase.DEGRADED: ChangeReason.REPLICAS_LOST, Phase.UPDATING: ChangeReason.NEW_REVISION}


def wanted(workload: Workload) -> tuple[Role, ...]:
    """Its roles with the number of replicas that it should have now."""
    request = workload.request
    if request is None:
        return ()
    if workload.scale is None or not request.roles:
        return request.roles
    first = request.roles[0]
    most = max(request.max_scale, first.size)
    return (first._replace(size=min(max(workload.scale, first.size), most)), *request.roles[1:])


def grow(world: World, workload: Workload, budget: Budget) -> None:
    """Places the replicas that a service lacks, as far as there is room and quota; the rest stays wanted."""
    request = workload.request
    if workload.phase not in ACTIVE or request is None:
        world.journal.drop(world.hungry, workload.id)
        return
    if not ready(world, world.clusters.get(workload.cluster)):
        return
    missing = [
        (role, index)
        for role in wanted(workload)
        for index in range(role.size)
        if (role.name, index) not in workload.replicas
    ]
    placed = _place_missing(world, workload, request, missing, budget)
    if placed:
        world.rewrite(workload)
        world.watch(workload)  # the node that it came to may have an end
    elif not workload.leaving and not budget.spent and _lack_room(world, workload, missing, budget):
        retire_one(world, workload)
    if placed == len(missing) and not workload.rolling:
        world.journal.drop(world.hungry, workload.id)
    elif not workload.remaining and not budget.spent and not any(_rests(world, workload, *each) for each in missing):
        wait_again(world, workload, "none of its replicas runs, and there is no room for one where it was")


def wait_again(world: World, workload: Workload, text: str) -> None:
    """Nothing of it runs and nothing has room where it was: it waits in the queue again, for any cluster."""
    world.set(workload, ending=Ending.MOVED)
    advance(world, workload, E.GANG_RESTART, ChangeReason.RESTART, text)


def _lack_room(world: World, workload: Workload, missing: Iterable[tuple[Role, int]], budget: Budget) -> bool:
    """Whether replicas of a new revision lack nothing but the room of the old ones, those that have some being ready.

    Else a revision that starts slowly, crashes or fits nowhere would have all those leave that serve.
    """
    starting = any(replica.state is not ReplicaState.READY for replica in workload.replicas.values())
    if starting or not workload.rolling or workload.avoid:  # room may not be what the new revision lacks
        return False
    awake = [each for each in missing if not _rests(world, workload, *each)]
    mark = world.journal.mark()
    for replica in workload.rolling.values():
        world.inventory.release(replica.holder, replica.node)
        world.unaccount(workload, replica)
    fits = any(_placed(world, workload, role, index, budget) is not None for role, index in awake)
    world.journal.rollback(mark)
    return fits


def _place_missing(
    world: World, workload: Workload, request: Request, missing: Iterable[tuple[Role, int]], budget: Budget
) -> int:
    """Places what has room, until the budget is spent; how many. Of what is left the next cycle places more.

    Replicas of a role are alike, but for the groups in which they may have to be: where one has no room, no other has,
    and to ask for each of them would spend what others need to have their turn.
    """
    placed, grouped = 0, bool(request.terms.topology.group)
    refused: set[str] = set()
    for role, index in missing:
        if budget.spent:
            break
        if role.name in refused:
            continue
        found = add_replica(world, workload, role, index, budget)
        placed += found
        if not found and not grouped and not _rests(world, workload, role, index):
            refused.add(role.name)
    return placed


def add_replica(world: World, workload: Workload, role: Role, index: int, budget: Budget) -> bool:
    """Places one replica that is missing, unless it rests after a failure. Whether it has its place."""
    found = None if _rests(world, workload, role, index) else _placed(world, workload, role, index, budget)
    if found is not None:
        world.take(workload, [found])
        budget.visits -= _ONE_BY_ONE
    return found is not None


def _rests(world: World, workload: Workload, role: Role, index: int) -> bool:
    return workload.replacements.get((role.name, index), (0, 0))[1] > world.now


def _placed(world: World, workload: Workload, role: Role, index: int, budget: Budget) -> Replica | None:
    """One replica, charged to a node with room for it; None where there is none, or no quota."""
    units = charge_there(world, (role._replace(size=1),), workload.cluster, workload.pool)
    amount = Amount(units, role.shape.cpu, role.shape.memory)
    if world.queues.refusal(owner_of(workload), workload.pool, amount) is not None:
        return None
    k = workload.replacements.get((role.name, index), (0, 0))[0]
    found = place_replica(world, workload, role, index, k, budget)
    return None if found is None else Replica(claim_holder(workload, role.name, index, k), *found)


def _name(role: str, rank: int) -> str:
    return f"{role}-{rank}"


def replica_ended(world: World, workload: Workload, replica: Replica, who: str = "") -> None:
    """A replica of a service is gone: its place is filled again, after a pause where it failed by itself.

    who: what people are told that it is, if not by its role and rank.
    """
    holder = replica.holder
    if holder in workload.leaving or holder in workload.rolling:
        return
    key = (holder.role, holder.rank)
    failures, pause = _failures_and_pause(world, workload, replica)
    not_before = world.now + pause
    replacements = {**workload.replacements, key: (holder.k + 1, not_before)}
    fault = replica.news.failure in FLEETS
    world.set(
        workload,
        replacements=replacements,
        failures={**workload.failures, key: failures},
        exits=workload.exits + (0 if fault else 1),
    )
    world.journal.drop(workload.replicas, key)
    world.journal.put(workload.leaving, holder, replica)
    world.journal.put(world.hungry, workload.id, None)
    world.timers.at(not_before, workload.id)
    tell_pause(world, workload, replica, who or _name(*key), pause)


def _failures_and_pause(world: World, workload: Workload, replica: Replica) -> tuple[int, int]:
    """Return how often its command has failed in a row, and the pause before the next start, in microseconds.

    A replica that was taken down (a lost node, a stack that stops) has not failed: it is replaced at once, but where it
    was taken down right after its start, so that a machine which cannot keep it is not asked without end.
    """
    news, ran = replica.news, ran_for(replica, world.now)
    before = workload.failures.get((replica.holder.role, replica.holder.rank), 0) if ran < HEALTHY_AFTER else 0
    if news.failure in FLEETS and (news.failure is not FailureClass.NONE or news.exit_code is None):
        return before, 0 if ran >= SETTLED_AFTER else BACKOFF_FIRST
    return before + 1, backoff(before + 1)


def retire_one(world: World, workload: Workload) -> None:
    """Sends one replica of the old revision away, the highest index first."""
    if not workload.rolling:
        return
    last = max(workload.rolling, key=lambda holder: (holder.role, holder.rank))
    replica = workload.rolling[last]
    world.journal.drop(workload.rolling, last)
    leave(world, workload, replica)
    if not workload.rolling:
        world.set(workload, old=None)
    world.rewrite(workload)


def move_away(world: World, workload: Workload, node: tuple[str, str]) -> None:
    """Sends the replicas of a service or of trials on that node away, to be replaced at once."""
    here = [r for r in (*workload.replicas.values(), *workload.rolling.values()) if r.node == node and not r.gone]
    replacements = dict(workload.replacements)
    for replica in here:
        holder = replica.holder
        if holder not in workload.rolling:
            world.journal.drop(workload.replicas, (holder.role, holder.rank))
            replacements[holder.role, holder.rank] = (holder.k + 1, world.now)
        else:
            world.journal.drop(workload.rolling, holder)
        leave(world, workload, replica)
    world.set(workload, replacements=replacements)
    if workload.old is not None and not workload.rolling:
        world.set(workload, old=None)
    world.journal.put(world.hungry, workload.id, None)
    world.rewrite(workload)


def leave(world: World, workload: Workload, replica: Replica) -> None:
    """The record no longer names this replica; it stays charged until it is gone."""
    world.set_replica(replica, leaving=True)
    world.journal.put(workload.leaving, replica.holder, replica)
    world.depart(workload)
    world.free("", workload.cluster, workload.pool, replica.node)


def rescale(world: World, workload: Workload, replicas: int) -> None:
    """Takes advice on the number of replicas, within what the spec allows."""
    before = sum(role.size for role in wanted(workload))
    world.set(workload, scale=replicas)
    _take_size(world, workload, before)


def resize(world: World, workload: Workload, request: Request) -> None:
    """A new generation whose replicas are those of the one before: they stay, and only their number may change."""
    before = sum(role.size for role in wanted(workload))
    world.rebook(workload, request._replace(revision=workload.revision))
    _take_size(world, workload, before)
    world.rewrite(workload)


def _take_size(world: World, workload: Workload, before: int) -> None:
    """Send away what is not wanted any more, and have placed what is. before: how many were wanted."""
    after = sum(role.size for role in wanted(workload))
    if workload.phase not in ACTIVE or before == after:
        return
    world.decide(Scaled(workload.id, before, after))
    keep = {(role.name, index) for role in wanted(workload) for index in range(role.size)}
    surplus = sorted(key for key in workload.replicas if key not in keep)
    for key in surplus:
        leave(world, workload, workload.replicas[key])
        world.journal.drop(workload.replicas, key)
    if surplus:
        world.rewrite(workload)
    _tell_apart(world, workload, keep)
    world.journal.put(world.hungry, workload.id, None)
    if after < before:
        evaluate(world, workload)  # no report may follow: what it lacked may have been none but those


def _tell_apart(world: World, workload: Workload, keep: Container[tuple[str, int]]) -> None:
    """What is wanted again before it is gone is another replica: as the same one the accounts would lose it."""
    replacements = dict(workload.replacements)
    for holder in workload.leaving:
        key = holder.role, holder.rank
        k, not_before = replacements.get(key, (0, 0))
        if key in keep and holder.generation == workload.revision and k <= holder.k:
            replacements[key] = (holder.k + 1, not_before)
    if replacements != workload.replacements:
        world.set(workload, replacements=replacements)


def roll_over(world: World, workload: Workload, request: Request) -> None:
    """A new generation of a service that runs: its replicas become the old revision, the new ones are wanted."""
    old = workload.old or workload.request
    world.rebook(workload, request)
    for replica in workload.replicas.values():
        world.journal.put(workload.rolling, replica.holder, replica)
        world.touched.replicas[replica.holder] = None
    world.set(workload, old=old, replicas={}, replacements={}, failures={}, scale=None)
    world.journal.put(world.hungry, workload.id, None)
    advance(world, workload, E.REVISION_STARTED, ChangeReason.NEW_REVISION)
    world.rewrite(workload)


def evaluate(world: World, workload: Workload) -> None:
    """What the replicas of a service say about its phase."""
    serving = sum(1 for r in workload.replicas.values() if r.state is ReplicaState.READY and not r.gone)
    target = sum(role.size for role in wanted(workload))
    if workload.rolling:
        if serving and len(workload.rolling) + serving > target:
            retire_one(world, workload)
        if workload.rolling:
            _end_pause(world, workload)
            return
    if serving >= target:
        tell_ready(world, workload, "" if target else NO_REPLICAS)
    else:
        _lacking(world, workload, serving)


def _lacking(world: World, workload: Workload, serving: int) -> None:
    """Some of its replicas do not serve: name those that pause first, then silent nodes."""
    if not _pause_is_so(workload) and tell_lost(world, workload):
        if serving:
            advance(world, workload, E.SOME_READY, workload.reason, workload.message)
    elif workload.phase is Phase.UNKNOWN and not serving:
        advance(world, workload, E.NONE_READY, ChangeReason.CLUSTER_BACK)
    elif workload.phase is Phase.RUNNING:
        advance(world, workload, E.SOME_LOST, *_said(workload, ChangeReason.REPLICAS_LOST))
    elif workload.phase in _SOME_LACK:
        _end_pause(world, workload)
    elif serving:
        advance(world, workload, E.SOME_READY, *_said(workload, ChangeReason.SOME_READY))


def _pause_is_so(workload: Workload) -> bool:
    sizes = {role.name: role.size for role in wanted(workload)}
    return pause_is_so(workload, [(role, i) for role, i in workload.replacements if i < sizes.get(role, 0)], _name)


def _said(workload: Workload, reason: ChangeReason) -> tuple[ChangeReason, str]:
    """The reason why some replicas do not serve, and a message: a pause that is told and lasts says more."""
    return (workload.reason, workload.message) if _pause_is_so(workload) else (reason, "")


def _end_pause(world: World, workload: Workload) -> None:
    """Tells of a pause no longer once it is over, though others lack: people would look at the wrong replica."""
    reason = _SOME_LACK.get(workload.phase)
    if reason is not None and workload.reason is ChangeReason.RESTART and not _pause_is_so(workload):
        world.set(workload, reason=reason, message="")
