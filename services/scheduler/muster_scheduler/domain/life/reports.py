"""What agents say of replicas, and what follows for the workload.

Called by `State.apply` for each report, and for each replica in a full list of held assignments.
Holds: a report older than what is known of that replica changes nothing; the first end of an attempt counts, later ones
do not; devices come back by GONE alone, and GONE is always a replica's last word.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from muster_kernel.lifecycle import ACTIVE, LifecycleEvent, Phase
from muster_kernel.reasons import ChangeReason, FailureClass
from muster_scheduler.domain.asked.limits import FAULT_LIMIT, RESIZED_WITHIN, START_WINDOW, backoff
from muster_scheduler.domain.asked.requests import Holder, Share
from muster_scheduler.domain.asked.workloads import Ending, News, Replica, ReplicaState, Workload
from muster_scheduler.domain.books.course import advance, gone
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.events import Order, ReplicaReported, Status
from muster_scheduler.domain.life import data_location, elastic, service, stale, trials
from muster_scheduler.domain.life.failures import faults_in_a_row, how_it_ended, restarting
from muster_scheduler.domain.life.lost import tell_lost, tell_waiting_to_end
from muster_scheduler.domain.tuples import new

E = LifecycleEvent
_THERE: Final = ACTIVE | {Phase.UNKNOWN}
_JUDGED: Final = _THERE | {Phase.STOPPING}
_LAUNCHER: Final = "launcher"
_state: Final = attrgetter("state")
_SUCCEEDED: Final = {ReplicaState.SUCCEEDED}
_ENDED: Final = frozenset({ReplicaState.SUCCEEDED, ReplicaState.FAILED})
_UP: Final = frozenset({ReplicaState.READY, ReplicaState.SUCCEEDED})
_WORTH_TELLING: Final = frozenset({ReplicaState.READY, ReplicaState.SUCCEEDED, ReplicaState.FAILED, ReplicaState.LOST})


def on_report(world: World, event: ReplicaReported) -> None:
    """One replica changed."""
    workload = world.workloads.get(event.workload)
    if workload is None or workload.cluster != event.cluster:
        return
    if event.endpoints and event.endpoints != workload.endpoints and event.attempt == workload.attempt:
        world.set(workload, endpoints=event.endpoints)
        world.stirred[workload.id] = None
    if event.conditions and event.conditions != workload.conditions:
        world.set(workload, conditions=event.conditions)
    take_status(world, workload, event.generation, event.attempt, event.status, event.order)


def take_status(world: World, workload: Workload, generation: int, attempt: int, status: Status, order: Order) -> None:
    """Takes what is said of one replica, or of a whole attempt, into the books and draws the consequences."""
    if not status.role:
        if status.gone:
            _nothing_there(world, workload, generation, attempt)
        return
    replica = workload.find(Holder(workload.id, generation, attempt, status.role, status.rank, status.k))
    seen = order.start, order.sequence
    if replica is None or replica.gone or seen <= replica.seen:
        return
    _write_down(world, workload, replica, status, seen)
    if status.gone:
        end_of(world, workload, replica)
    elif not workload.leaving or replica.holder not in workload.leaving:
        judge(world, workload)
    tell_waiting_to_end(world, workload)


def _write_down(world: World, workload: Workload, replica: Replica, status: Status, seen: tuple[int, int]) -> None:
    before, after, news = replica.state, _state_after(replica, status), replica.news
    if (after is not before and (after in _WORTH_TELLING or status.gone)) or (
        status.substate and status.substate != news.substate
    ):
        world.stirred[workload.id] = None
    world.journal.keep(replica, state=before, seen=replica.seen, news=news)
    replica.state, replica.seen, replica.news = after, seen, _news_after(news, status)
    if after is not before:
        data_location.bind_to_data(world, workload, after)
    world.touched.replicas[replica.holder] = None
    if status.devices:
        _move_charge(world, replica, status.devices)


def _news_after(news: News, status: Status) -> News:
    """What is known once this was said too: what is empty says nothing new."""
    *_, exit_code, failure, name, message, endpoints, _, started, finished, substate, since = status
    said = (
        news.failure if failure is FailureClass.NONE else failure,
        news.exit_code if exit_code is None else exit_code,
        name or news.name,
        # A later report of the same end comes without the last lines of its log.
        news.message if news.message.startswith(message) else message,
        endpoints or news.endpoints,
        started or news.started,
        finished or news.finished,
        substate,  # empty once the replica is ready
        since,
    )
    return news if said == news else new(News, said)


def _state_after(replica: Replica, status: Status) -> ReplicaState:
    if replica.state in _ENDED:
        return replica.state  # how the command ended does not change any more
    if status.state is not None:
        return status.state
    if status.exit_code is not None:
        return ReplicaState.SUCCEEDED if status.exit_code == 0 else ReplicaState.FAILED
    return ReplicaState.FAILED if status.failure is not FailureClass.NONE else replica.state


def _move_charge(world: World, replica: Replica, devices: tuple[Share, ...]) -> None:
    """The agent gave other devices than those assigned: the charge follows them, since there the process runs."""
    before = {share.device for share in replica.grant.shares}
    now = {share.device for share in devices}
    node = world.inventory.nodes.get(replica.node)
    if node is None or before == now or len(before) != len(now) or not replica.charged:
        return
    spare = iter(sorted(now - before))
    moved = tuple(
        share if share.device in now else share._replace(device=next(spare)) for share in replica.grant.shares
    )
    grant = replica.grant._replace(shares=moved)
    world.inventory.release(replica.holder, replica.node)
    world.inventory.charge(replica.holder, replica.node, grant)
    world.set_replica(replica, grant=grant)


def _nothing_there(world: World, workload: Workload, generation: int, attempt: int) -> None:
    """The agent read a tombstone and holds nothing of that attempt. Means nothing for what should be running."""
    if workload.phase in ACTIVE or workload.phase is Phase.UNKNOWN:
        return
    for replica in workload.everyone():
        if (replica.holder.generation, replica.holder.attempt) <= (generation, attempt) and not replica.gone:
            gone(world, workload, replica)


def end_of(world: World, workload: Workload, replica: Replica) -> None:
    """Nothing of the replica is left: how it ended, what follows for the workload, and its devices back."""
    alone = workload.independent
    if replica.state is ReplicaState.SUCCEEDED and not alone and workload.phase in _THERE:
        _ended_well(world, workload, replica)
        return
    if not replica.ended and workload.phase in _THERE:
        news = replica.news
        if news.failure is FailureClass.NONE:
            news = news._replace(failure=FailureClass.INFRASTRUCTURE)
        world.set_replica(replica, state=ReplicaState.FAILED, news=news)
    if alone and workload.phase in _THERE:
        _ended_alone(world, workload, replica)
    elif replica.holder not in workload.leaving:
        judge(world, workload)
    gone(world, workload, replica)
    if alone:
        judge(world, workload)
    world.stirred[workload.id] = None


def _ended_well(world: World, workload: Workload, replica: Replica) -> None:
    """The plain end of a member of a gang: whatever follows, its devices come back, so that is written first.

    Of a workload that this completes nothing is left by then, and nobody has to be told that it is on its way out.
    """
    judged = replica.holder not in workload.leaving
    gone(world, workload, replica)
    if judged:
        judge(world, workload)
    world.stirred[workload.id] = None


def _ended_alone(world: World, workload: Workload, replica: Replica) -> None:
    if workload.inference:
        service.replica_ended(world, workload, replica)
    else:
        trials.trial_ended(world, workload, replica)


def _evaluate_alone(world: World, workload: Workload) -> None:
    if workload.request is not None and workload.request.trials is not None:
        trials.evaluate(world, workload, workload.request.trials)
    else:
        service.evaluate(world, workload)


def judge(world: World, workload: Workload) -> None:
    """What the replicas say about the workload's phase."""
    phase = workload.phase
    if phase not in _JUDGED or workload.course.snapshot_due:
        return
    if workload.independent:
        if phase is not Phase.STOPPING:
            _evaluate_alone(world, workload)
        return
    request = workload.request
    if request is not None and request.stretch is not None:
        elastic.lose(world, workload)
    states = set(map(_state, workload.replicas.values()))
    launched = request is not None and request.launcher_decides
    deciding = {replica.state for replica in _deciding(workload)} if launched else states
    if deciding == _SUCCEEDED:
        advance(world, workload, E.ALL_SUCCEEDED, ChangeReason.SUCCEEDED)
        return
    if phase is Phase.STOPPING or not states:
        return
    if ReplicaState.FAILED in states:
        _failed(world, workload, _first_failed(workload))
    elif states <= _UP:
        advance(world, workload, E.ALL_READY, ChangeReason.ALL_READY)
    elif not tell_lost(world, workload) and phase is Phase.UNKNOWN:
        advance(world, workload, E.NONE_READY, ChangeReason.CLUSTER_BACK)
    stale.watch_strength(world, workload, states)


def _deciding(workload: Workload) -> list[Replica]:
    """Whose end is the workload's end: the launcher's where there is one that decides, else everybody's."""
    replicas = list(workload.replicas.values())
    if workload.request is not None and workload.request.launcher_decides:
        launchers = [replica for replica in replicas if replica.holder.role == _LAUNCHER]
        return launchers or replicas
    return replicas


def _first_failed(workload: Workload) -> Replica:
    """Of those that failed the one that decides: whose end is the workload's end, then the first."""
    deciding = _deciding(workload)
    failed = (replica for replica in workload.replicas.values() if replica.state is ReplicaState.FAILED)
    return min(failed, key=lambda replica: (replica not in deciding, replica.news.finished, replica.holder))


def _failed(world: World, workload: Workload, replica: Replica) -> None:
    """A replica of a gang failed: the gang starts again, if the budget of that class of failure allows."""
    text = how_it_ended(replica)
    match replica.news.failure:
        case FailureClass.OUT_OF_MEMORY:
            advance(world, workload, E.BUDGET_SPENT, ChangeReason.OUT_OF_MEMORY, text)
        case FailureClass.INFRASTRUCTURE | FailureClass.OURS:
            _restart_after_fault(world, workload, text)
        case FailureClass.START:
            if not workload.has_run and world.now - workload.first_placed > START_WINDOW:
                advance(world, workload, E.BUDGET_SPENT, ChangeReason.START_FAILED, text)
            else:
                _restart_after_fault(world, workload, text)
        case _:
            _restart_after_exit(world, workload, text)


def _restart_after_fault(world: World, workload: Workload, text: str) -> None:
    faults = faults_in_a_row(workload.faults, world.now - workload.placed)
    if faults > FAULT_LIMIT:
        advance(world, workload, E.BUDGET_SPENT, ChangeReason.INFRASTRUCTURE_LIMIT, text)
        return
    world.set(workload, faults=faults)
    _restart(world, workload, f"fault {faults} of {FAULT_LIMIT} of the fleet", text)


def _restart_after_exit(world: World, workload: Workload, text: str) -> None:
    if workload.resized and world.now - workload.resized <= RESIZED_WITHIN:
        world.set(workload, ours=workload.ours + 1)
        _restart(world, workload, "its size had just changed", text)
        return
    limit = workload.request.backoff_limit if workload.request else 0
    if workload.exits >= limit:
        advance(world, workload, E.BUDGET_SPENT, ChangeReason.EXIT_LIMIT, text)
        return
    world.set(workload, exits=workload.exits + 1)
    _restart(world, workload, f"failure {workload.exits} of {limit}", text)


def _restart(world: World, workload: Workload, which: str, text: str) -> None:
    """Takes the gang down for its next start. which: how many such failures there were, and how many are allowed."""
    pause = backoff(workload.exits + workload.faults)
    world.set(workload, ending=Ending.RESTART, not_before=world.now + pause)
    world.timers.at(workload.not_before, workload.id)
    advance(world, workload, E.GANG_RESTART, ChangeReason.RESTART, restarting(which, pause, text))
