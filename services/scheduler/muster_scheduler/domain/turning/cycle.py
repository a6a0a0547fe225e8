"""One scheduling cycle, readable aloud: look at what is due, start what has its room, take heads, place, make room.

Called by `State.propose` inside an open transaction; bounded by a budget of work, never by time. Where the budget ends,
the next cycle goes on, because what was not tried is still in the queue.
"""

from __future__ import annotations

from typing import Final

from muster_kernel.lifecycle import ACTIVE, OVER, WAITING, LifecycleEvent, Phase
from muster_kernel.reasons import ChangeReason, WaitingReason
from muster_kernel.sentences import Reason
from muster_scheduler.domain.asked.courses import Claim, Planned, begun
from muster_scheduler.domain.asked.quotas import LIMITED
from muster_scheduler.domain.asked.workloads import SECOND, Replica, Request, Workload
from muster_scheduler.domain.books.claims import claim_holder, drop_claim, promised_holder, waits_for_nobody
from muster_scheduler.domain.books.classes import ClassKey
from muster_scheduler.domain.books.course import advance, healthy, restart_due
from muster_scheduler.domain.books.models import bar
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.decisions import Placed
from muster_scheduler.domain.life.elastic import begin, shed_all, stretch, yield_quota
from muster_scheduler.domain.life.overdue import look_at_clocks
from muster_scheduler.domain.life.service import NO_REPLICAS, grow
from muster_scheduler.domain.life.stale import evict_stale
from muster_scheduler.domain.life.trials import begin_first, grow_trials
from muster_scheduler.domain.placement.ahead import look_at_arrivals
from muster_scheduler.domain.placement.cluster_choice import clusters_for
from muster_scheduler.domain.placement.place import Budget, amount_before, place_gang
from muster_scheduler.domain.placement.reasoning import why_not
from muster_scheduler.domain.room.booking import carry_out
from muster_scheduler.domain.room.evictions import OthersLeave, SurplusFirst, make_room
from muster_scheduler.domain.room.sites import Room
from muster_scheduler.domain.steps import Step
from muster_scheduler.domain.turning.batching import Pace, place_many, pool_of
from muster_scheduler.domain.turning.blocking import block
from muster_scheduler.domain.turning.reservation import behind, note_changes, reserve
from muster_scheduler.domain.turning.turns import Turns
from muster_scheduler.domain.turning.waking import Waker

_A_REFUSAL: Final = 800  # a head that finds no place in any pool of its costs about as much as so many visits


def run(world: World, budget: Budget) -> None:
    """One cycle. Workloads that are set aside are passed over."""
    world.attending = ""
    for pool in world.reopenings.due(world.now):
        world.waiting.wake_pool(pool)
    look_at_due(world)
    look_at_arrivals(world)
    budget.steps.done(Step.DUE)
    start_claims(world)
    budget.steps.done(Step.CLAIMS)
    for workload_id in filter(world.attends, sorted(world.hungry)):
        fill(world, world.workloads[workload_id], budget)
    world.attending = ""
    budget.steps.done(Step.FILL)
    noted = take_heads(world, budget)
    evict_stale(world)
    stretch(world, budget)
    if world.journal.mark() != noted:  # else the next cycle would look once more at what was looked at
        note_changes(world)
    budget.steps.done(Step.GROW)


def take_heads(world: World, budget: Budget) -> int | None:
    """Decides who waits, one head after the other, until nobody is worth a try or the budget is spent.

    Where the journal stood when all that had changed was noted for those who keep nodes; None: it was not.
    """
    turns, pace = Turns(world), Pace()
    waker = Waker(world, turns)
    while not budget.spent:
        waker.wake()
        if world.batches and place_many(world, turns, turns.unordered(), budget, pace):
            budget.steps.done(Step.PLACE)
            continue
        head = turns.next() or (turns.next() if waker.wake_takers() else None) or _reserved(world, turns, waker, budget)
        budget.steps.done(Step.ORDER)
        if head is None:
            waker.rest()
            break
        if not (world.batches and place_many(world, turns, pool_of(head[0]), budget, pace)):
            world.attending = head[0].id
            decide(world, *head, budget, waker)
            world.attending = ""
            pace.saw(placed=head[0].id not in world.waiting)
        budget.steps.done(Step.PLACE)
    return turns.noted


def _reserved(world: World, turns: Turns, waker: Waker, budget: Budget) -> tuple[Workload, ClassKey] | None:
    """Chooses for whom nodes are kept; the next head of those whom that helps, if any."""
    if turns.noted is None:
        note_changes(world)
        turns.noted = world.journal.mark()
    reserve(world, budget)
    waker.wake()
    return turns.next()


def fill(world: World, workload: Workload, budget: Budget) -> None:
    """Places what a service or a series of trials still lacks, as far as there is room."""
    trials = workload.request.trials if workload.request else None
    if trials is not None:
        grow_trials(world, workload, trials, budget)
    else:
        grow(world, workload, budget)


def look_at_due(world: World) -> None:
    """Backoffs that have ended, nodes that are no longer left out, automatic deletions."""
    for workload_id in world.timers.due(world.now):
        workload = world.workloads.get(workload_id)
        if workload is None or not world.attends(workload_id):
            continue
        over = [node for node, until in workload.avoid.items() if until <= world.now]
        if over:
            world.set(workload, avoid={n: until for n, until in workload.avoid.items() if n not in over})
            world.waiting.stuck.pop(workload_id, None)
        if workload.phase in WAITING and workload.claim is None and workload.not_before <= world.now:
            if over or workload.id not in world.waiting:
                world.waiting.add(workload)
        elif workload.phase is Phase.TERMINATING:
            restart_due(world, workload)
            if workload.phase in ACTIVE:
                look_at_clocks(world, workload)  # its time may be up already: what it ran before the pause counts
        elif workload.phase in OVER:
            _auto_delete(world, workload)
        elif workload.phase in ACTIVE:
            _look_at_running(world, workload)
    world.attending = ""


def _look_at_running(world: World, workload: Workload) -> None:
    """One whose time is up goes; one that has run long enough may be asked to leave by those who wait."""
    look_at_clocks(world, workload)
    if world.limits.minimum_run:
        world.waiting.wake_pool(workload.pool)


def _auto_delete(world: World, workload: Workload) -> None:
    after = workload.request.auto_deletion if workload.request else None
    if after is not None and workload.finished + after * SECOND <= world.now:
        advance(world, workload, LifecycleEvent.AUTO_DELETE, ChangeReason.AUTO_DELETED)


def start_claims(world: World) -> None:
    """Claims whose room is free become placements; those whose room broke meanwhile are planned anew.

    A claim that still waits is looked at when something was said of nodes or clusters; at its start it always is.
    """
    news = bool(world.touched.nodes or world.touched.clusters)
    for workload_id in filter(world.attends, sorted(world.claims if news else world.ready)):
        workload = world.workloads[workload_id]
        claim = workload.claim
        if claim is None or (claim.waits_for and not news):
            continue
        if not _sound(world, workload, claim):
            drop_claim(world, workload)
            if workload.phase in WAITING:
                world.waiting.add(workload)
        elif waits_for_nobody(claim) and workload.phase in WAITING:
            _start_claim(world, workload, claim)
    world.attending = ""


def _sound(world: World, workload: Workload, claim: Claim) -> bool:
    cluster = world.clusters.get(claim.cluster)
    if cluster is None or cluster.silent:
        return False
    promised = (Replica(promised_holder(workload, claim, p), p.node, p.grant) for p in claim.planned)
    return all(healthy(world, replica) for replica in promised)


def _start_claim(world: World, workload: Workload, claim: Claim) -> None:
    world.account(workload, claim.pool, (planned.grant for planned in claim.planned), -1)
    world.set(workload, claim=None)
    world.journal.drop(world.claims, workload.id)
    world.journal.drop(world.ready, workload.id)
    settle(world, workload, claim.cluster, claim.pool, claim.planned)


def decide(world: World, workload: Workload, key: ClassKey, budget: Budget, waker: Waker) -> None:
    """Places one head, makes room for it, or blocks its class with the reason."""
    request = workload.request
    if request is None:
        world.waiting.remove(workload.id)
        return
    refusal = _place(world, workload, request, budget)
    if refusal is None:
        waker.entered(workload, workload.pool)
        if workload.id in world.hungry:
            fill(world, workload, budget)
        return
    budget.visits -= _A_REFUSAL
    before = world.waiting.before(key)
    if refusal.code is WaitingReason.NOT_EVALUATED and before is not None and not waker.worth_room(key):
        # Another one took the place for which it was woken: there is no more room to be made than there was before,
        # and its members have been told so.
        block(world, key, before, tell=False)
        return
    limited = refusal.code in LIMITED
    if refusal.code is not WaitingReason.NOT_EVALUATED and not limited:
        block(world, key, refusal)
        return
    if budget.evictions <= 0:
        budget.visits = 0  # the head keeps its turn: the next cycle goes on with it
        return
    budget.steps.done(Step.PLACE)
    made = _room(world, key, budget, waker)
    if isinstance(made, OthersLeave):
        block(world, key, Reason(WaitingReason.CLAIM, (made.workloads,)))
    elif made:
        for room in made:
            carry_out(world, room)
            waker.entered(room.taker, room.claim.pool)
            shed_all(world, room.shrinks)
    else:
        block(world, key, refusal if limited else behind(world, workload) or why_not(world, workload))
    budget.steps.done(Step.ROOM)


def _room(world: World, key: ClassKey, budget: Budget, waker: Waker) -> tuple[Room, ...] | OthersLeave:
    """The room that can be made for a class; where it takes evictions, after gangs gave up what they can do without."""
    made = make_room(world, key, waker.standing, budget)
    if isinstance(made, SurplusFirst):
        shed_all(world, made.shrinks)
        made = make_room(world, key, waker.standing, budget, shrinking=False)
    return () if isinstance(made, SurplusFirst) else made


def _place(world: World, workload: Workload, request: Request, budget: Budget) -> Reason | None:
    """As `place`; where quota is refused that only the surplus of elastic gangs holds, after they gave it back."""
    refusal = place(world, workload, request, budget)
    if refusal is None or refusal.code is WaitingReason.NOT_EVALUATED or not world.elastic:
        return refusal
    if any(yield_quota(world, workload, pool, amount_before(world, request, pool)) for pool in request.pools):
        return place(world, workload, request, budget)
    return refusal


def place(world: World, workload: Workload, request: Request, budget: Budget) -> Reason | None:
    """Tries the workload's pools in its order. None where it was placed; NOT_EVALUATED where room is what lacks."""
    refusal: Reason | None = None
    room_lacks = False
    for pool in request.pools:
        barred = bar(world, workload, amount_before(world, request, pool), pool)
        if barred is not None:
            refusal = refusal or barred.reason
            continue
        room_lacks = True
        for cluster in clusters_for(world, workload, request, pool):
            planned = place_gang(world, workload, request.roles, cluster, pool, budget)
            if planned is not None:
                settle(world, workload, cluster, pool, planned)
                return None
    if room_lacks or refusal is None:
        return Reason(WaitingReason.NOT_EVALUATED)
    return refusal


def settle(world: World, workload: Workload, cluster: str, pool: str, planned: tuple[Planned, ...]) -> None:
    """The workload has its place: its replicas enter the books, its record is written."""
    world.set(workload, cluster=cluster, pool=pool, course=begun(workload.course, world.now))
    world.entered(workload, pool)
    taken = begin_first(world, workload, planned)
    if workload.scale is not None:
        world.journal.put(world.hungry, workload.id, None)  # it was scaled while it waited
    world.take(workload, [Replica(claim_holder(workload, p.role, p.rank), p.node, p.grant) for p in taken])
    begin(world, workload)
    world.decide(Placed(workload.id, world.now))
    advance(world, workload, LifecycleEvent.PLACED, ChangeReason.PLACED)
    world.rewrite(workload)
    world.watch(workload)
    request = workload.request
    if request is not None and request.preemptible:
        world.waiting.wake_higher(workload.project, pool, request.priority)
    if not workload.replicas:
        advance(world, workload, LifecycleEvent.ALL_READY, ChangeReason.ALL_READY, NO_REPLICAS)
