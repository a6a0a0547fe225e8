"""What to do so that what runs becomes what should run: (desired, observed, now) -> actions, for one workload.

Called by `handlers.py` after every change of either side, any number of times. Pure.
Holds (each is a property test):
- absence never releases: without an assignment and without a tombstone nothing is stopped;
- nothing is created while a replica of another run of the workload, or an earlier k of it, still has processes;
- a name that was removed is never created again;
- a replica is removed only when it is gone, reported so, and a tombstone or newer assignment has released it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from muster_cluster_agent.domain import status
from muster_cluster_agent.domain.actions import (
    Abandon,
    Absent,
    Action,
    Bury,
    Create,
    NothingHere,
    Refuse,
    Remove,
    Route,
    Stop,
    refusal_of,
)
from muster_cluster_agent.domain.model import (
    Assignment,
    Failure,
    NodeHealth,
    NodeView,
    Observed,
    Pattern,
    Release,
    Revision,
    RunKey,
    State,
)
from muster_cluster_agent.domain.plan import Plans, ReplicaPlan, plans_of
from muster_kernel.ids import replica_name
from muster_kernel.reasons import ChangeReason, RefusalCode

STRAGGLER_SECONDS: Final = 120.0  # how long the others may go on after the deciding replica has succeeded
_READY_SECONDS: Final = 600.0  # how long a worker may take from its start until it is ready
_GIVEN_UP: Final = "it was given up before it was started"
_DELETIONS: Final = frozenset({ChangeReason.DELETED.value, ChangeReason.AUTO_DELETED.value})


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that reconciling one workload may look at.

    told: names whose GONE the bus has acknowledged. removed: names that were here once and are forgotten.
    denied: names of which it was said already that they are not here.
    planned: the names of the last assignment that was seen; they tell whether a release has to say more than the
    replicas do. plans: those of the desired assignment; None: they are made here.
    """

    desired: Assignment | Release | None
    observed: tuple[Observed, ...]
    nodes: Mapping[str, NodeView]
    told: AbstractSet[str] = frozenset()
    removed: AbstractSet[str] = frozenset()
    planned: frozenset[str] = frozenset()
    plans: Plans | None = None
    answered: bool = False
    denied: AbstractSet[str] = frozenset()
    held_back: bool = False


@dataclass(slots=True)
class _Verdict:
    """What is being gathered for one workload."""

    actions: list[Action] = field(default_factory=list)
    stopping: set[str] = field(default_factory=set)

    def stop(self, replica: Observed, grace: float, reason: str, *, released: bool = False) -> None:
        """Asks once; a shorter grace is worth asking again."""
        if replica.gone or replica.name in self.stopping:
            return
        self.stopping.add(replica.name)
        if not replica.stop_reason or grace < replica.stop_grace:
            released = released and not replica.stop_reason  # an earlier reason is not the release's
            self.actions.append(Stop(replica.name, grace, replica.stop_reason or reason, released))


def reconcile(scene: Scene, now: float) -> tuple[Action, ...]:
    """The actions that are due. `now` in seconds since 1970. The same scene gives the same actions."""
    verdict = _Verdict()
    for replica in scene.observed:
        _look_after(replica, scene.nodes.get(replica.node), verdict)
    match scene.desired:
        case Release() as release:
            _release(release, scene, verdict)
        case Assignment() as assignment:
            _assign(assignment, scene, now, verdict)
        case None:
            pass
    # Addresses first: a replica that is stopped gets no request any more by then.
    return (*_routes(scene, verdict.stopping), *verdict.actions)


def _look_after(replica: Observed, node: NodeView | None, verdict: _Verdict) -> None:
    """What is due whatever is desired: bury the dead, and stop what runs on a device that is no longer there."""
    if replica.gone:
        return
    evidence = _lost_for_good(replica, node)
    if evidence:
        verdict.actions.append(Bury(replica.name, evidence, _FAULTS[evidence]))
    elif not replica.supervised and node is not None and node.health is NodeHealth.UP:
        verdict.actions.append(
            Bury(replica.name, "no-process", "" if replica.ended else "its supervisor was found dead")
        )
    elif node is not None and node.health is NodeHealth.UP and not set(replica.devices) <= node.devices:
        verdict.stop(replica, 0.0, status.DEVICE_LOST)


_FAULTS: Final = {
    "out-of-service": "its node was taken out of service",
    "node-gone": "its node has been silent for too long",
    "boot-id-changed": "its node was started anew",
}


def _lost_for_good(replica: Observed, node: NodeView | None) -> str:
    """The evidence that a replica's node is gone for good (architecture rule 7); empty: there is none."""
    if node is None:
        return "" if replica.supervised else "node-gone"
    if node.health is NodeHealth.OUT_OF_SERVICE:
        return "out-of-service"
    if node.health is NodeHealth.LOST:
        return "node-gone"
    return "boot-id-changed" if replica.boot != node.boot and node.health is NodeHealth.UP else ""


def _release(release: Release, scene: Scene, verdict: _Verdict) -> None:
    """The tombstone: ends what it names and anything older, then forgets it; newer runs are not its business."""
    covered = [replica for replica in scene.observed if replica.key <= release.key]
    for replica in covered:
        verdict.stop(replica, release.grace, release.reason or status.RELEASED, released=True)
        if replica.gone and replica.name in scene.told:
            verdict.actions.append(Remove(replica.name, released=True))
    unseen = not scene.planned or scene.planned - {replica.name for replica in covered} - scene.removed
    if unseen and not scene.answered and all(replica.gone for replica in covered):
        verdict.actions.append(NothingHere(release.workload_id, release.generation, release.attempt))


def _assign(assignment: Assignment, scene: Scene, now: float, verdict: _Verdict) -> None:
    wanted: dict[str, ReplicaPlan] = {}
    for run, plans in (plans_of(assignment) if scene.plans is None else scene.plans).items():
        if isinstance(plans, str):
            generation, attempt = run
            refused = (assignment.workload_id, generation, attempt)
            verdict.actions.append(Refuse(*refused, RefusalCode.INVALID_COMMAND, plans))
            continue
        wanted.update((plan.name, plan) for plan in plans)
    _drop_unwanted(assignment, scene, wanted, verdict)
    _deny(assignment, scene, verdict)
    for revision in assignment.revisions:
        mine = [plan for plan in wanted.values() if (plan.generation, plan.attempt) == revision.key]
        _run(assignment, revision, mine, scene, now, verdict)


def _drop_unwanted(assignment: Assignment, scene: Scene, wanted: Mapping[str, ReplicaPlan], verdict: _Verdict) -> None:
    """A newer assignment releases what it does not name. What is newer than the assignment itself stays untouched."""
    for replica in scene.observed:
        if replica.name in wanted or replica.key > assignment.newest.key:
            continue
        verdict.stop(replica, assignment.grace, status.REPLACED)
        if replica.gone and replica.name in scene.told:
            verdict.actions.append(Remove(replica.name))


def _deny(assignment: Assignment, scene: Scene, verdict: _Verdict) -> None:
    """Of a replica whose GONE is waited for, and which was never here, it is said once that it is not."""
    here = {replica.name for replica in scene.observed}
    generation, attempt = assignment.newest.key
    for run in assignment.leaving:
        for index in range(run.first_index, run.first_index + run.count):
            name = replica_name(assignment.workload_id, generation, attempt, run.role, index, run.k)
            if name not in here | scene.denied:
                place = (generation, attempt, run.role, index, run.k, run.node)
                verdict.actions.append(Absent(name, assignment.workload_id, *place, _GIVEN_UP))


def _run(
    assignment: Assignment, revision: Revision, plans: list[ReplicaPlan], scene: Scene, now: float, verdict: _Verdict
) -> None:
    """One revision: starts what is missing, or takes the gang down where one of it has failed."""
    here = {replica.name: replica for replica in scene.observed if replica.key == revision.key}
    mine = [here[plan.name] for plan in plans if plan.name in here]
    missing = [plan for plan in plans if plan.name not in here and plan.name not in scene.removed | scene.denied]
    gang = revision.pattern not in {Pattern.SERVICE, Pattern.TRIALS}
    if gang and _settle_gang(revision, mine, len(plans), assignment.grace, now, verdict):
        return
    if not missing or scene.held_back:
        return
    if not gang:
        missing = _fitting(missing, scene.nodes, verdict)
    else:
        if mine:
            missing = _without_hopeless(revision, missing, scene, verdict)
        refusal = next(filter(None, (_unfit(plan, scene.nodes) for plan in missing)), None)
        if refusal is not None:
            # What has begun waits for its node, which may be silent for a moment only.
            if not mine or (assignment.start_deadline is not None and now > assignment.start_deadline):
                verdict.actions.append(refusal)
            return
    if _in_the_way(missing, scene.observed, {r.key for r in assignment.revisions}):
        return
    verdict.actions.extend(_starts(assignment, missing, here, now))


def _fitting(missing: list[ReplicaPlan], nodes: Mapping[str, NodeView], verdict: _Verdict) -> list[ReplicaPlan]:
    """The plans that can start; each of the others is refused by itself, and may get another place."""
    left = []
    for plan in missing:
        refusal = _unfit(plan, nodes)
        if refusal is None:
            left.append(plan)
        else:
            verdict.actions.append(refusal)
    return left


def _without_hopeless(
    revision: Revision, missing: list[ReplicaPlan], scene: Scene, verdict: _Verdict
) -> list[ReplicaPlan]:
    """Gives up what an elastic gang can do without and what cannot be started: it would hold up the others."""
    left = []
    for plan in missing:
        spare = revision.spares(plan.role, plan.index)
        refusal = _unfit(plan, scene.nodes) if spare else None
        if refusal is None:
            left.append(plan)
            continue
        verdict.actions.append(refusal)
    return left


def _settle_gang(
    revision: Revision, mine: list[Observed], size: int, grace: float, now: float, verdict: _Verdict
) -> bool:
    """Whether it is past starting: a member failed and all go, or the deciding one succeeded and the rest follow."""
    ends = {replica.name: status.how_it_ended(replica) for replica in mine}
    failed = [r for r in mine if ends[r.name] is State.FAILED and not _fails_alone(revision, r)]
    if failed or _left_early(revision, mine, ends):
        for replica in mine:
            if ends[replica.name] is None:
                verdict.stop(replica, grace, status.GANG)
        return True
    decider = _decider(revision, mine)
    if decider is None or ends[decider.name] is not State.SUCCEEDED:
        return False
    # Workers of MPI are daemons: kept, as cleanPodPolicy None says, they would hold their devices for ever.
    at_once = revision.pattern is Pattern.MPI or revision.cleaned
    late = decider.ended is not None and now - decider.ended.at >= STRAGGLER_SECONDS
    for replica in mine:
        if ends[replica.name] is None and (at_once or late):
            verdict.stop(replica, grace, status.COMPLETED if at_once else status.STRAGGLER)
    return len(mine) == size


def _left_early(revision: Revision, mine: list[Observed], ends: Mapping[str, State | None]) -> bool:
    """Whether a worker has ended, however well, while its launcher goes on, which may not notice (replicas.md 0.5)."""
    if revision.pattern is not Pattern.MPI:
        return False
    launcher = _decider(revision, mine)
    return launcher is not None and ends[launcher.name] is None and any(end is not None for end in ends.values())


def _fails_alone(revision: Revision, replica: Observed) -> bool:
    """Whether an elastic gang goes on without a replica that failed for no fault of its command."""
    return revision.spares(replica.role, replica.index) and status.failure_of(replica) in _NO_FAULT_OF_ITS_OWN


_NO_FAULT_OF_ITS_OWN: Final = frozenset({Failure.INFRASTRUCTURE, Failure.START, Failure.OURS})


def _decider(revision: Revision, mine: list[Observed]) -> Observed | None:
    """The replica whose end decides: MPI's launcher, else the one with rank 0."""
    launchers = [r for r in mine if r.role in {"launcher", "master"}]
    if revision.pattern is Pattern.MPI or launchers:
        return launchers[0] if launchers else None
    return next((r for r in mine if r.index == 0), None)


def _unfit(plan: ReplicaPlan, nodes: Mapping[str, NodeView]) -> Refuse | None:
    """Why what is missing cannot be started where it is told to; None: it can."""
    node = nodes.get(plan.node)
    if node is None:
        return refusal_of(plan, RefusalCode.UNKNOWN_NODE, f"this cluster has no node {plan.node!r}")
    if node.health is not NodeHealth.UP:
        return refusal_of(plan, RefusalCode.NODE_NOT_READY, f"node {plan.node} is {node.health.value}")
    lacking = sorted({share.device for share in plan.shares} - node.devices)
    if lacking:
        text = f"node {plan.node} has no healthy device {', '.join(lacking)}"
        return refusal_of(plan, RefusalCode.UNKNOWN_DEVICE, text)
    return None


def _in_the_way(missing: list[ReplicaPlan], observed: Iterable[Observed], runs: AbstractSet[RunKey]) -> bool:
    """Whether something of another run, or an earlier one of the same places, still has processes."""
    places = {(plan.generation, plan.attempt, plan.role, plan.index) for plan in missing}
    for replica in observed:
        if replica.gone:
            continue
        if replica.key not in runs or (*replica.key, replica.role, replica.index) in places:
            return True
    return False


def _starts(
    assignment: Assignment, missing: list[ReplicaPlan], here: Mapping[str, Observed], now: float
) -> Iterable[Action]:
    for plan in missing:
        waiting = [name for name in plan.after if name not in here or not here[name].ready]
        if not waiting:
            yield Create(plan)
        elif _is_late(assignment, [here.get(name) for name in waiting], now):
            yield Abandon(plan, f"{len(waiting)} of {len(plan.after)} workers were not ready before the start deadline")


def _is_late(assignment: Assignment, awaited: Iterable[Observed | None], now: float) -> bool:
    """Whether workers that have started have had their time to be ready. One that has not has a deadline of its own."""
    if assignment.start_deadline is None:
        return False
    deadline = assignment.start_deadline
    for worker in awaited:
        if worker is None or worker.started_at is None:
            return False
        deadline = max(deadline, worker.started_at + _READY_SECONDS)
    return now > deadline


def _routes(scene: Scene, stopping: AbstractSet[str]) -> Iterable[Action]:
    """Where the workload's address leads: to what is ready and stays. stopping: what is asked to stop just now."""
    servers = [replica for replica in scene.observed if replica.service]
    if not servers:
        return
    staying = (r for r in servers if not r.stop_reason and r.name not in stopping)
    ready = sorted(r.name for r in staying if r.ready and not r.ended and not r.gone)
    closed = isinstance(scene.desired, Release) and all(r.gone for r in servers)
    deleted = isinstance(scene.desired, Release) and scene.desired.reason in _DELETIONS
    yield Route(servers[0].workload_id, tuple(ready), closed, deleted)
