"""Publication: decisions of an open transaction become outbox rows of the same transaction.

The handlers call it. Holds: events of a workload keep the order in which they were decided. If a transaction has
several records for one (cluster, workload), only the last is written, because a record is state and not a message.
"""

from __future__ import annotations

from typing import Final

from google.protobuf.message import Message

from muster.events.v1 import scheduler_pb2
from muster.fleet.v1 import fleet_pb2
from muster.workload.v1 import workload_pb2
from muster_chassis import logs
from muster_chassis.topics import DECISIONS, Topic, assignments
from muster_chassis.unit import Unit
from muster_kernel.lifecycle import FINAL
from muster_kernel.sentences import Reason
from muster_scheduler.adapters import encoding
from muster_scheduler.adapters.placements import Placements
from muster_scheduler.domain import decisions as d
from muster_scheduler.domain.answers.explain import brief_of
from muster_scheduler.domain.asked.courses import Planned
from muster_scheduler.domain.asked.workloads import Replica, Workload
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.state import Plan
from muster_scheduler.ports import Unpublishable

_log = logs.get(__name__)
_NODE: Final = "node/"


class Publisher:
    """The publisher of one epoch."""

    def __init__(self, epoch: int) -> None:
        """Create a publisher. epoch: every record carries it; agents refuse epochs below the highest seen one."""
        self._epoch = epoch

    def publish(self, unit: Unit, plan: Plan, world: World) -> None:
        """Stage the events, then the records."""
        records: dict[tuple[str, str], d.Record] = {}
        placements = Placements()
        decisions = plan.decisions
        last = {one.workload: n for n, one in enumerate(decisions) if isinstance(one, d.PhaseChange)}
        for number, decision in enumerate(decisions):
            if isinstance(decision, d.Record):
                place = decision.cluster, _key_of(decision)
                records.pop(place, None)
                records[place] = decision
            else:
                latest = last.get(decision.workload) == number
                with _blaming(decision.workload, world):
                    unit.publish(DECISIONS, decision.workload, event_of(decision, world, placements, latest=latest))
        for (cluster, key), record in records.items():
            if isinstance(record, d.Wish | d.EndWish):
                self._record_of_node(unit, assignments(cluster), key, record, world)
                continue
            with _blaming(record.workload, world):
                self._record(unit, record, world)

    def _record(self, unit: Unit, record: d.Assign | d.Release, world: World) -> None:
        topic = assignments(record.cluster)
        if isinstance(record, d.Release):
            headers = {
                "generation": str(record.generation),
                "attempt": str(record.attempt),
                "epoch": str(self._epoch),
                "grace": str(record.grace),
                "reason": record.reason,
            }
            unit.publish(topic, record.workload, None, headers=headers)
            return
        workload, cluster = world.workloads[record.workload], world.clusters[record.cluster]
        message = encoding.assignment(workload, epoch=self._epoch, instance=cluster.instance, grace=world.limits.grace)
        unit.publish(topic, record.workload, message)

    def _record_of_node(self, unit: Unit, topic: Topic, key: str, record: d.Wish | d.EndWish, world: World) -> None:
        if isinstance(record, d.EndWish):
            headers = {"revision": str(record.revision), "epoch": str(self._epoch), "reason": record.reason}
            unit.publish(topic, key, None, headers=headers)
            return
        message = fleet_pb2.NodeWish(
            node=record.node,
            epoch=self._epoch,
            agent_instance=world.clusters[record.cluster].instance,
            revision=record.revision,
            layout=record.config,
        )
        unit.publish(topic, key, message)


def _key_of(record: d.Record) -> str:
    """The record's key on its cluster's topic."""
    return f"{_NODE}{record.node}" if isinstance(record, d.Wish | d.EndWish) else record.workload


class _blaming:  # noqa: N801 - a context manager without a generator's cost: one for each decision
    """The context of one decision: an exception names its workload.

    A decision about a workload that is already set aside is skipped, with a line in the log.
    """

    __slots__ = ("_workload", "_world")

    def __init__(self, workload: str, world: World) -> None:
        self._workload = workload
        self._world = world

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> bool:
        if not isinstance(error, Exception):
            return False
        if self._workload in self._world.quarantined:
            _log.error("a decision about a workload that is set aside is not published", workload=self._workload)
            return True
        raise Unpublishable(self._workload, f"{type(error).__name__}: {error}") from error


def event_of(decision: d.Event, world: World, placements: Placements, *, latest: bool = True) -> Message:
    """Return the event of one decision. latest: the decision is the workload's last phase, which shows its replicas."""
    workload = world.workloads[decision.workload]
    match decision:
        case d.PhaseChange():
            return encoding.phase_changed(workload, decision, _shown(workload, world) if latest else ())
        case d.Placed(at=at):
            return placements.event(workload, at)
        case d.Queued(pool=pool, at=at):
            return scheduler_pb2.WorkloadQueued(
                workload_id=workload.id,
                generation=workload.generation,
                project=workload.project,
                node_pool=pool,
                queued_at=encoding.timestamp(at),
            )
        case d.Waiting(reason=reason):
            return _waiting(workload, reason)
        case d.Claimed(cluster=cluster, planned=planned, waits_for=waits_for):
            return _claimed(workload, cluster, planned, waits_for)
        case d.Preempted() | d.Evicted():
            return _preempted(workload, decision)
        case d.Scaled(before=before, after=after):
            return scheduler_pb2.WorkloadScaled(
                workload_id=workload.id, generation=workload.generation, **{"from": before}, to=after
            )
        case d.Refused(request=request, phase=phase):
            why = workload_pb2.Reason(code="PhaseDoesNotAllow", message=f"it is {phase.value}")
            return scheduler_pb2.RequestRefused(workload_id=workload.id, request=request, reason=why)


def _waiting(workload: Workload, reason: Reason) -> scheduler_pb2.WorkloadWaiting:
    brief = brief_of(workload)
    # All who may read the workload can read the event; `why` shows figures only to those who may see them.
    explanation = scheduler_pb2.Explanation(
        workload_id=workload.id,
        name=workload.name,
        reason=workload_pb2.Reason(code=reason.code.value, message=reason.sentence(department=False)),
        asks=brief.asks,
        node_pool=brief.pool,
        queued_at=encoding.timestamp(workload.queued),
        phase=encoding.PHASES[workload.phase],
        project=workload.project,
    )
    return scheduler_pb2.WorkloadWaiting(
        workload_id=workload.id, generation=workload.generation, explanation=explanation
    )


def _claimed(
    workload: Workload, cluster: str, planned: tuple[Planned, ...], waits_for: tuple[str, ...]
) -> scheduler_pb2.WorkloadClaimed:
    spots = [(p.role, p.rank, 0, p.node[1], p.grant) for p in planned]
    made = scheduler_pb2.WorkloadClaimed(
        workload_id=workload.id, generation=workload.generation, cluster=cluster, waits_for=waits_for
    )
    encoding.add_runs(made.replicas, spots)
    return made


def _preempted(workload: Workload, decision: d.Preempted | d.Evicted) -> scheduler_pb2.WorkloadPreempted:
    by, cause = decision.by if isinstance(decision, d.Preempted) else "", decision.cause
    return scheduler_pb2.WorkloadPreempted(
        workload_id=workload.id,
        generation=workload.generation,
        attempt=decision.attempt,
        by=by,
        why=workload_pb2.Reason(code=cause.value, message=cause.sentence, other_workload_id=by),
        cause=encoding.CAUSES[cause],
    )


def _shown(workload: Workload, world: World) -> list[Replica]:
    """Return the replicas to show: for an ended workload its last ones, even if the state no longer has them."""
    known = workload.everyone()
    return known if known or workload.phase not in FINAL else world.farewell.get(workload.id, [])
