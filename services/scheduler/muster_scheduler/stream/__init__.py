"""What comes in over Kafka: protobuf into the domain's events.

Called by the handlers for each record of a batch. Messages were decoded by the chassis; here their values are checked,
cut to their bounds and translated. What cannot mean anything raises Reject and becomes a dead letter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from google.protobuf.message import Message

from muster.events.v1 import agent_pb2, policy_pb2, submission_pb2, telemetry_pb2
from muster_chassis.codec import TOMBSTONE, MessageDecoder
from muster_chassis.events import Event
from muster_scheduler.domain import events as domain
from muster_scheduler.stream import intentions, reports, tenancy

_PROJECT: Final = "project/"
_DEPARTMENT: Final = "department/"
_POOL: Final = "pool/"

INTENTS: Final = (submission_pb2.SuspendRequested, submission_pb2.ResumeRequested, submission_pb2.DeletionRequested)
REPORTS: Final = (
    agent_pb2.InventoryReported,
    agent_pb2.InventoryPartReported,
    agent_pb2.ReplicaStatusChanged,
    agent_pb2.AssignmentRefused,
    agent_pb2.AssignmentsHeld,
    agent_pb2.LayoutChanged,
    agent_pb2.LayoutFailed,
    agent_pb2.Heartbeat,
)
UNPARKED: Final = (
    agent_pb2.InventoryReported,
    agent_pb2.InventoryPartReported,
    agent_pb2.AssignmentsHeld,
    agent_pb2.LayoutChanged,
    agent_pb2.LayoutFailed,
    agent_pb2.Heartbeat,
)
_READ: Final = (
    *INTENTS,
    submission_pb2.WorkloadArchived,
    submission_pb2.ProjectChanged,
    submission_pb2.DepartmentChanged,
    submission_pb2.NodePoolChanged,
    policy_pb2.WorkloadAdmitted,
    policy_pb2.WorkloadRejected,
    telemetry_pb2.ScaleAdvised,
    telemetry_pb2.IdleSince,
    agent_pb2.InventoryReported,
    agent_pb2.InventoryPartReported,
    agent_pb2.ReplicaStatusChanged,
    agent_pb2.AssignmentRefused,
    agent_pb2.AssignmentsHeld,
    agent_pb2.LayoutChanged,
    agent_pb2.LayoutFailed,
    agent_pb2.Heartbeat,
)
_PASSED_BY: Final = (
    submission_pb2.WorkloadSubmitted,
    submission_pb2.SpecChanged,
    submission_pb2.TemplateChanged,
    telemetry_pb2.UsageAccounted,
)


def decoder() -> MessageDecoder:
    """Decodes what stands on the topics that the scheduler reads; parses only what it acts on."""
    return MessageDecoder((*_READ, *_PASSED_BY), wants=_READ)


_MAKERS: Final[dict[type[Message], Callable[[Any, Event], domain.Event]]] = {
    policy_pb2.WorkloadAdmitted: intentions.admitted,
    policy_pb2.WorkloadRejected: intentions.rejected,
    submission_pb2.SuspendRequested: intentions.suspend,
    submission_pb2.ResumeRequested: intentions.resume,
    submission_pb2.DeletionRequested: intentions.delete,
    submission_pb2.WorkloadArchived: intentions.archived,
    submission_pb2.ProjectChanged: tenancy.project,
    submission_pb2.DepartmentChanged: tenancy.department,
    submission_pb2.NodePoolChanged: tenancy.node_pool,
    telemetry_pb2.ScaleAdvised: intentions.scale,
    telemetry_pb2.IdleSince: intentions.idle,
    agent_pb2.Heartbeat: reports.heartbeat,
    agent_pb2.InventoryReported: reports.inventory,
    agent_pb2.InventoryPartReported: reports.inventory_part,
    agent_pb2.ReplicaStatusChanged: reports.replica,
    agent_pb2.AssignmentRefused: reports.refused,
    agent_pb2.AssignmentsHeld: reports.held,
    agent_pb2.LayoutChanged: reports.layout_changed,
    agent_pb2.LayoutFailed: reports.layout_failed,
}


def translate(event: Event) -> domain.Event | None:
    """The domain's event, or None where the record means nothing here. Raises Reject for what can mean nothing."""
    message = event.message
    if message is None:
        return _removed(event.aggregate) if event.type == TOMBSTONE else None
    make = _MAKERS.get(type(message))
    return make(message, event) if make else None


def _removed(aggregate: str) -> domain.Event | None:
    if aggregate.startswith(_PROJECT):
        return domain.ProjectRemoved(aggregate.removeprefix(_PROJECT))
    if aggregate.startswith(_DEPARTMENT):
        return domain.DepartmentRemoved(aggregate.removeprefix(_DEPARTMENT))
    if aggregate.startswith(_POOL) and (number := aggregate.removeprefix(_POOL)).isdecimal():
        return domain.NodePoolRemoved(int(number))
    return None
