"""Decisions and state as protobuf: events for muster.decisions, records for a cluster's assignments.

Pure functions of domain values. A device's name is encoded as 16 bytes if it is `GPU-` and a UUID, otherwise as text.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, Final

from google.protobuf.internal.containers import RepeatedCompositeFieldContainer
from google.protobuf.timestamp_pb2 import Timestamp

from muster.events.v1 import scheduler_pb2
from muster.fleet.v1 import fleet_pb2
from muster.workload.v1 import workload_pb2
from muster_kernel.ids import is_uuid, replica_name
from muster_kernel.lifecycle import DesiredPhase, Phase
from muster_kernel.reasons import ChangeReason, PreemptionCause
from muster_scheduler.domain.asked.requests import Grant, Kind, Share
from muster_scheduler.domain.asked.workloads import SECOND, Replica, ReplicaState, Request, Workload
from muster_scheduler.domain.decisions import PhaseChange
from muster_scheduler.domain.fleet.slots import counts_of, is_slot, resource_of
from muster_scheduler.domain.life.trials import done_count

PHASES: Final = {phase: workload_pb2.Phase.Value(f"PHASE_{phase.name}") for phase in Phase}
DESIRED: Final = {phase: workload_pb2.DesiredPhase.Value(f"DESIRED_PHASE_{phase.name}") for phase in DesiredPhase}
CAUSES: Final = {
    cause: scheduler_pb2.PreemptionCause.Value(f"PREEMPTION_CAUSE_{cause.name}") for cause in PreemptionCause
}
_PREFIX: Final = "GPU-"
_UUID_BYTES: Final = 16
_ENDED: Final = frozenset({ReplicaState.SUCCEEDED, ReplicaState.FAILED})
SENTENCES: Final[dict[ChangeReason, str]] = {
    ChangeReason.ADMITTED: "policy admitted it",
    ChangeReason.POLICY_REFUSED: "policy refused it",
    ChangeReason.PLACED: "it has its devices; its replicas are starting",
    ChangeReason.ALL_READY: "all replicas are ready",
    ChangeReason.SOME_READY: "some replicas are ready",
    ChangeReason.REPLICAS_LOST: "some replicas are not ready",
    ChangeReason.NODE_LOST: "a node with replicas of it does not answer",
    ChangeReason.SUCCEEDED: "it ended well",
    ChangeReason.EXIT_LIMIT: "its command failed and has no restart left",
    ChangeReason.INFRASTRUCTURE_LIMIT: "it met too many infrastructure faults",
    ChangeReason.START_FAILED: "it could not be started",
    ChangeReason.OUT_OF_MEMORY: "it used more memory than it was given",
    ChangeReason.RESTART: "it is started again after a failure",
    ChangeReason.PREEMPTED: "it gives its place to another workload",
    ChangeReason.TERMINATED_AFTER_PREEMPTION: "it was preempted and is not to be started again",
    ChangeReason.SUSPENDED: "somebody suspended it",
    ChangeReason.RESUMED: "somebody resumed it",
    ChangeReason.DELETED: "somebody deleted it",
    ChangeReason.RUN_TIME_LIMIT: "it ran as long as it may",
    ChangeReason.IDLE_LIMIT: "it left its GPUs idle for as long as it may",
    ChangeReason.NODE_CLOSING: "its node has to be empty",
    ChangeReason.BELOW_MINIMUM: "too few of its replicas are left to go on",
    ChangeReason.AGENT_REFUSED: "the cluster's agent refused it",
    ChangeReason.CLUSTER_SILENT: "its cluster is silent",
    ChangeReason.CLUSTER_BACK: "its cluster answers again",
    ChangeReason.CLUSTER_LOST: "its cluster was given up",
    ChangeReason.CLUSTER_REMOVED: "its cluster was removed",
    ChangeReason.REPLICAS_GONE: "nothing of it is running any more",
    ChangeReason.NEW_REVISION: "a new revision rolls out",
    ChangeReason.AUTO_DELETED: "its time after completion is over",
}


def timestamp(microseconds: int) -> Timestamp:
    """Return a time of the domain, in microseconds, as a Timestamp."""
    return Timestamp(seconds=microseconds // SECOND, nanos=microseconds % SECOND * 1000)


def device_bytes(name: str) -> bytes:
    """Return the encoded name of a device."""
    bare = name.removeprefix(_PREFIX)
    return uuid.UUID(bare).bytes if is_uuid(bare) else name.encode()


def device_name(raw: bytes, known: Iterable[str] = ()) -> str:
    """Return the name of a device: one of `known` if it matches, otherwise the text or the UUID."""
    names = frozenset(known)
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = ""
    if text in names or len(raw) != _UUID_BYTES:
        return text
    bare = str(uuid.UUID(bytes=raw))
    return bare if bare in names else f"{_PREFIX}{bare}"


def _share(share: Share) -> fleet_pb2.DeviceShare:
    raw = device_bytes(share.device)
    match share.kind:
        case Kind.PORTION:
            return fleet_pb2.DeviceShare(device=raw, portion_milli=share.milli)
        case Kind.MEMORY:
            return fleet_pb2.DeviceShare(device=raw, memory_bytes=share.bytes)
        case Kind.SLICE:
            return fleet_pb2.DeviceShare(device=raw, slice=fleet_pb2.MigSlice(profile=share.profile, start=share.start))
        case _:
            return fleet_pb2.DeviceShare(device=raw, whole=True)


Spot = tuple[str, int, int, str, Grant]
"""(role, rank, k, node, grant) of one replica."""
Counts = tuple[tuple[str, int], ...]
"""(resource, units) of what a replica holds of its node's slot groups; an empty resource: of the whole devices."""


def add_runs(into: RepeatedCompositeFieldContainer[fleet_pb2.ReplicaRun], spots: Sequence[Spot]) -> None:
    """Add replicas as runs: same role, node and k, ranks without a gap.

    Messages are created and filled in place: creating them separately and copying them costs twice as much.
    """
    last: fleet_pb2.ReplicaRun | None = None
    before: Counts = ()
    for role, rank, k, node, grant in sorted(spots, key=_by_rank) if len(spots) > 1 else spots:
        counts = _counts(grant)
        if last is None or counts != before or not _goes_on(last, (role, rank, k, node, grant)):
            last = into.add()
            last.role, last.node = role, node
            last.first_index, last.k, before = rank, k, counts
            for resource, count in counts:
                last.slots.add(resource=resource, count=count)
        last.count += 1
        if grant.shares and not counts:
            last.devices.add().shares.extend([_share(share) for share in grant.shares])


_by_rank: Final = itemgetter(0, 1)


def _counts(grant: Grant) -> Counts:
    """Return what a grant holds of slot groups; empty: nothing."""
    if grant.slots:
        return (("", grant.slots),)
    return counts_of(grant.shares) if grant.shares and is_slot(grant.shares[0].device) else ()


def _goes_on(run: fleet_pb2.ReplicaRun, spot: Spot) -> bool:
    role, rank, k, node, grant = spot
    return (
        (run.role, run.node, run.k) == (role, node, k)
        and run.first_index + run.count == rank
        and bool(run.devices or run.slots) == bool(grant.shares or grant.slots)
    )


def spots_of(replicas: Iterable[Replica]) -> list[Spot]:
    """Return the spots of replicas."""
    return [(r.holder.role, r.holder.rank, r.holder.k, r.node[1], r.grant) for r in replicas]


def placed(workload: Workload, at: int) -> scheduler_pb2.WorkloadPlaced:
    """Return the event of a placement."""
    made = scheduler_pb2.WorkloadPlaced()
    made.workload_id, made.generation, made.attempt = workload.id, workload.generation, workload.attempt
    made.cluster, made.node_pool = workload.cluster, workload.pool
    add_runs(made.replicas, spots_of(workload.replicas.values()))
    made.placed_at.seconds, made.placed_at.nanos = at // SECOND, at % SECOND * 1000
    return made


def assignment(workload: Workload, *, epoch: int, instance: str, grace: int) -> fleet_pb2.Assignment:
    """Return the record of the replicas of a workload that should run on its cluster now."""
    made = fleet_pb2.Assignment(
        workload_id=workload.id,
        epoch=epoch,
        agent_instance=instance,
        revision=workload.record,
        project=workload.project,
        department=workload.department,
        namespace=workload.namespace,
        name=workload.name,
        requested_by=workload.owner,
        priority_class=str(workload.request.priority) if workload.request else "",
        start_deadline=timestamp(workload.placed + 600 * SECOND),
        grace_seconds=grace,
        submitted_at=timestamp(workload.submitted),
    )
    if workload.rolling and workload.old is not None:
        _revision(made, workload, workload.old, workload.rolling.values())
    if workload.request is not None:
        _revision(made, workload, workload.request, workload.replicas.values())
        add_runs(made.leaving, spots_of(r for r in workload.leaving.values() if r.leaving and _of_newest(workload, r)))
    return made


def _of_newest(workload: Workload, replica: Replica) -> bool:
    return (replica.holder.generation, replica.holder.attempt) == (workload.revision, workload.attempt)


def _revision(record: fleet_pb2.Assignment, workload: Workload, request: Request, replicas: Iterable[Replica]) -> None:
    held = list(replicas)
    attempt = min((replica.holder.attempt for replica in held), default=workload.attempt)
    revision = record.revisions.add(generation=request.run, attempt=attempt)
    revision.spec.ParseFromString(request.spec)
    add_runs(revision.runs, spots_of(held))
    if request.stretch is not None:
        revision.least, revision.most = request.stretch.least, request.stretch.most


def reason_of(reason: ChangeReason, message: str, preempted_by: str) -> workload_pb2.Reason:
    """Return why a phase changed. preempted_by: the id of the preemptor, included if preemption is the reason."""
    other = preempted_by if reason is ChangeReason.PREEMPTED else ""
    return workload_pb2.Reason(code=reason.value, message=message or SENTENCES[reason], other_workload_id=other)


def phase_changed(workload: Workload, change: PhaseChange, replicas: Iterable[Replica]) -> scheduler_pb2.PhaseChanged:
    """Return the event of a phase. replicas: those to show; none if a later event of the transaction has them."""
    before: dict[str, Any] = {"from": PHASES[change.before]}  # `from` is a keyword of Python
    made = scheduler_pb2.PhaseChanged(
        workload_id=workload.id,
        generation=workload.generation,
        attempt=change.attempt,
        **before,
        to=PHASES[change.after],
        reason=reason_of(change.reason, change.message, workload.preempted_by),
        at=timestamp(change.at),
        replicas=[replica_of(replica) for replica in replicas],
        endpoints=workload.endpoints,
        desired=DESIRED[change.desired],
        conditions=[
            workload_pb2.Condition(type=kind, status=status, reason=workload_pb2.Reason(code=code, message=text))
            for kind, status, code, text in workload.conditions
        ],
    )
    trials = workload.request.trials if workload.request else None
    if trials is not None:
        done = done_count(workload)
        made.trials.done, made.trials.total, made.trials.at_once = done, trials.completions, trials.at_once
    return made


def replica_of(replica: Replica) -> workload_pb2.Replica:
    """Return a replica as users see it."""
    h = replica.holder
    made = workload_pb2.Replica(
        name=replica.news.name or replica_name(h.workload, h.generation, h.attempt, h.role, h.rank, h.k),
        role=h.role,
        index=h.rank,
        node=replica.node[1],
        # The result of a command tells users more than GONE.
        state="GONE" if replica.gone and replica.state not in _ENDED else replica.state.value,
        exit_code=replica.news.exit_code,
        devices=[resource_of(share) if is_slot(share.device) else share.device for share in replica.grant.shares],
        message=replica.news.message,
        substate=replica.news.substate,
    )
    if replica.news.substate_since:
        made.substate_since.CopyFrom(timestamp(replica.news.substate_since))
    return made
