"""What comes in over Kafka: protobuf into the domain's events.

Called by the handlers for each record of a batch. Messages were decoded by the chassis; here their values are checked,
cut to their bounds and translated. What cannot mean anything raises Reject and becomes a dead letter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from muster.events.v1 import agent_pb2, policy_pb2, submission_pb2, telemetry_pb2
from muster.fleet.v1 import fleet_pb2
from muster.options.v1 import options_pb2
from muster.tenancy.v1 import tenancy_pb2
from muster.workload.v1 import workload_pb2
from muster_chassis.codec import TOMBSTONE, MessageDecoder
from muster_chassis.events import Event, Reject
from muster_kernel.ids import is_uuid
from muster_kernel.reasons import FailureClass
from muster_scheduler.adapters.encoding import device_name
from muster_scheduler.domain import events as domain
from muster_scheduler.domain.clusters import Profile
from muster_scheduler.domain.nodes import Device, Mig, Node, NodeState
from muster_scheduler.domain.queues import Quota
from muster_scheduler.domain.requests import Kind, Role, Shape, Share, charge_of
from muster_scheduler.domain.workloads import SECOND, ReplicaState, Request, WorkloadKind

_LARGEST: Final = (1 << 63) - 1
_MESSAGE_LIMIT: Final = 1024
_NAME_LIMIT: Final = 253
_MOST_REPLICAS: Final = 100_000
# Both grow by one. A number that no agent can reach is not one of ours, and taking it would make its cluster mute.
_MOST_STARTS: Final = 10**9
_MOST_REPORTS: Final = 1 << 53
_LAST_SECOND: Final = 253_402_300_799  # of the year 9999, the last that a Timestamp may name
_WHOLE_MILLI: Final = 1000
_PROJECT: Final = "project/"

INTENTS: Final = (submission_pb2.SuspendRequested, submission_pb2.ResumeRequested, submission_pb2.DeletionRequested)
REPORTS: Final = (
    agent_pb2.InventoryReported,
    agent_pb2.ReplicaStatusChanged,
    agent_pb2.AssignmentRefused,
    agent_pb2.AssignmentsHeld,
    agent_pb2.LayoutChanged,
    agent_pb2.LayoutFailed,
    agent_pb2.Heartbeat,
)
UNPARKED: Final = (agent_pb2.InventoryReported, agent_pb2.AssignmentsHeld, agent_pb2.Heartbeat)
_READ: Final = (
    *INTENTS,
    submission_pb2.ProjectChanged,
    policy_pb2.WorkloadAdmitted,
    policy_pb2.WorkloadRejected,
    telemetry_pb2.ScaleAdvised,
    agent_pb2.InventoryReported,
    agent_pb2.ReplicaStatusChanged,
    agent_pb2.AssignmentRefused,
    agent_pb2.AssignmentsHeld,
    agent_pb2.Heartbeat,
)
_PASSED_BY: Final = (
    submission_pb2.WorkloadSubmitted,
    submission_pb2.SpecChanged,
    submission_pb2.DepartmentChanged,
    submission_pb2.NodePoolChanged,
    submission_pb2.TemplateChanged,
    telemetry_pb2.UsageAccounted,
    telemetry_pb2.IdleSince,
    agent_pb2.LayoutChanged,
    agent_pb2.LayoutFailed,
)


def decoder() -> MessageDecoder:
    """Decodes what stands on the topics that the scheduler reads; parses only what it acts on."""
    return MessageDecoder((*_READ, *_PASSED_BY), wants=_READ)


def translate(event: Event) -> domain.Event | None:
    """The domain's event, or None where the record means nothing here. Raises Reject for what can mean nothing."""
    message = event.message
    if message is None:
        if event.type == TOMBSTONE and event.aggregate.startswith(_PROJECT):
            return domain.ProjectRemoved(event.aggregate.removeprefix(_PROJECT))
        return None
    make = _MAKERS.get(type(message))
    return make(message, event) if make else None


# -- small checks --------------------------------------------------------------------------------------------------


def _workload_id(text: str) -> str:
    if not is_uuid(text):
        raise Reject(f"workload_id is {text[:60]!r}: expected a UUID in lower case")
    return text


def _number(value: int, what: str, largest: int = _LARGEST) -> int:
    if value > largest:
        raise Reject(f"{what} is {value}: at most {largest} is allowed")
    return value


def _micros(time: Timestamp) -> int:
    if not -_LAST_SECOND <= time.seconds <= _LAST_SECOND:
        raise Reject(f"a time is {time.seconds} seconds from 1970: expected one of the years 1 to 9999")
    return time.seconds * SECOND + time.nanos // 1000


def _text(value: str, limit: int = _NAME_LIMIT) -> str:
    return value.replace("\x00", "\N{REPLACEMENT CHARACTER}")[:limit]


# -- policy, submission, telemetry ---------------------------------------------------------------------------------

_KINDS: Final = {
    options_pb2.KIND_WORKSPACE: WorkloadKind.WORKSPACE,
    options_pb2.KIND_TRAINING: WorkloadKind.TRAINING,
    options_pb2.KIND_DISTRIBUTED: WorkloadKind.DISTRIBUTED,
    options_pb2.KIND_INFERENCE: WorkloadKind.INFERENCE,
}
_DEFAULT_BACKOFF_LIMIT: Final = 6


def _admitted(message: Any, _: Event) -> domain.Event:
    spec = message.effective_spec
    roles = tuple(_role(request) for request in message.requests)
    if sum(role.size for role in roles) > _MOST_REPLICAS:
        raise Reject(f"{sum(role.size for role in roles)} replicas are asked for; at most {_MOST_REPLICAS} are allowed")
    request = Request(
        generation=_number(message.generation, "generation"),
        roles=roles,
        pools=tuple(message.node_pools) or ("default",),
        clusters=tuple(sorted(message.admissible_clusters)),
        fields=fields_of(spec),
        kind=_KINDS.get(spec.kind, WorkloadKind.TRAINING),
        launcher_decides=any(role.name == "launcher" for role in roles),
        priority=message.priority,
        preemptible=message.preemptible,
        backoff_limit=spec.backoff_limit if spec.HasField("backoff_limit") else _DEFAULT_BACKOFF_LIMIT,
        terminate_after_preemption=spec.terminate_after_preemption,
        auto_deletion=spec.auto_deletion_seconds if spec.HasField("auto_deletion_seconds") else None,
        max_scale=spec.max_scale,
        spec=spec.SerializeToString(),
    )
    return domain.Admitted(
        workload=_workload_id(message.workload_id),
        project=_text(message.project),
        department=_text(message.department),
        namespace=_text(message.namespace),
        name=_text(message.name),
        owner=_text(message.owner.subject),
        submitted=_micros(message.submitted_at),
        active=spec.active if spec.HasField("active") else True,
        request=request,
    )


def _role(request: Any) -> Role:
    shape = Shape(
        cpu=_number(request.cpu_milli, "cpu_milli"),
        memory=_number(request.memory_bytes, "memory_bytes"),
        **_gpu(request),
    )
    return Role(request.role, request.count, shape, charge_of(shape))


def _gpu(request: Any) -> dict[str, Any]:
    if request.mig_profile:
        return {"kind": Kind.SLICE, "devices": request.gpu_devices or 1, "profile": request.mig_profile}
    if request.gpu_memory_bytes:
        return {"kind": Kind.MEMORY, "devices": request.gpu_devices or 1, "bytes": request.gpu_memory_bytes}
    if 0 < request.gpu_portion_milli < _WHOLE_MILLI:
        return {"kind": Kind.PORTION, "devices": request.gpu_devices or 1, "milli": request.gpu_portion_milli}
    if request.gpu_devices or request.gpu_portion_milli:
        return {"kind": Kind.WHOLE, "devices": request.gpu_devices or 1}
    return {"kind": Kind.NONE}


def _yaml_names() -> dict[int, str]:
    fields = workload_pb2.WorkloadSpec.DESCRIPTOR.fields
    named = {f.number: f.GetOptions().Extensions[options_pb2.field].yaml for f in fields}
    return {number: name for number, name in named.items() if name}


_YAML: Final = _yaml_names()


def fields_of(spec: workload_pb2.WorkloadSpec) -> frozenset[str]:
    """The YAML names of the fields that a spec sets: what a cluster's list of refused fields is held against."""
    return frozenset(_YAML[field.number] for field, _ in spec.ListFields() if field.number in _YAML)


def _rejected(message: Any, _: Event) -> domain.Event:
    issues = "; ".join(f"{issue.path}: {issue.details}" for issue in list(message.issues)[:10])
    return domain.Rejected(
        _workload_id(message.workload_id),
        _number(message.generation, "generation"),
        _text(message.project),
        _text(message.name),
        _micros(message.submitted_at),
        _text(issues, _MESSAGE_LIMIT),
    )


def _suspend(message: Any, event: Event) -> domain.Event:
    return domain.SuspendRequested(event.id, _workload_id(message.workload_id))


def _resume(message: Any, event: Event) -> domain.Event:
    return domain.ResumeRequested(event.id, _workload_id(message.workload_id))


def _delete(message: Any, event: Event) -> domain.Event:
    return domain.DeletionRequested(event.id, _workload_id(message.workload_id))


def _project(message: Any, _: Event) -> domain.Event:
    project: tenancy_pb2.Project = message.project
    quotas = tuple(
        (
            _text(quota.node_pool),
            Quota(
                _number(quota.gpu_deserved, "gpu_deserved"),
                _number(quota.gpu_limit, "gpu_limit") if quota.HasField("gpu_limit") else None,
                quota.over_quota_weight_milli,
            ),
        )
        for quota in project.quotas
    )
    return domain.ProjectChanged(_text(project.name), _text(project.department), quotas, project.version)


def _scale(message: Any, _: Event) -> domain.Event:
    return domain.ScaleAdvised(_workload_id(message.workload_id), min(message.replicas, _MOST_REPLICAS))


# -- agents --------------------------------------------------------------------------------------------------------

_STATES: Final = {
    fleet_pb2.NODE_STATE_READY: NodeState.READY,
    fleet_pb2.NODE_STATE_CORDONED: NodeState.CORDONED,
    fleet_pb2.NODE_STATE_DRAINING: NodeState.DRAINING,
    fleet_pb2.NODE_STATE_NOT_READY: NodeState.NOT_READY,
    fleet_pb2.NODE_STATE_OUT_OF_SERVICE: NodeState.OUT_OF_SERVICE,
}
_MIG: Final = {
    fleet_pb2.MIG_SUPPORT_STATIC: Mig.STATIC,
    fleet_pb2.MIG_SUPPORT_DYNAMIC: Mig.DYNAMIC,
}
_REPLICA_STATES: Final = {
    fleet_pb2.REPLICA_STATE_CREATED: ReplicaState.CREATED,
    fleet_pb2.REPLICA_STATE_STARTING: ReplicaState.STARTING,
    fleet_pb2.REPLICA_STATE_READY: ReplicaState.READY,
    fleet_pb2.REPLICA_STATE_SUCCEEDED: ReplicaState.SUCCEEDED,
    fleet_pb2.REPLICA_STATE_FAILED: ReplicaState.FAILED,
    fleet_pb2.REPLICA_STATE_LOST: ReplicaState.LOST,
}
_FAILURES: Final = {
    fleet_pb2.FAILURE_CLASS_OURS: FailureClass.OURS,
    fleet_pb2.FAILURE_CLASS_INFRASTRUCTURE: FailureClass.INFRASTRUCTURE,
    fleet_pb2.FAILURE_CLASS_START: FailureClass.START,
    fleet_pb2.FAILURE_CLASS_OUT_OF_MEMORY: FailureClass.OUT_OF_MEMORY,
    fleet_pb2.FAILURE_CLASS_RETRYABLE_EXIT: FailureClass.RETRYABLE_EXIT,
    fleet_pb2.FAILURE_CLASS_EXIT: FailureClass.EXIT,
}


def _cluster(message: Any, event: Event) -> str:
    """The cluster whose topic the report came over; a report that names another one is nobody's."""
    named: str = message.order.cluster
    parts = event.origin.topic.split(".")
    topic_of = ".".join(parts[2:-1])
    if named and named != topic_of:
        raise Reject(f"a report of cluster {named!r} on the topic of {topic_of!r}")
    return topic_of


def _order(message: Any) -> domain.Order:
    order: agent_pb2.ReportOrder = message.order
    return domain.Order(
        _text(order.instance),
        _number(order.start, "order.start", _MOST_STARTS),
        _number(order.sequence, "order.sequence", _MOST_REPORTS),
        _micros(order.observed_at),
    )


def _heartbeat(message: Any, event: Event) -> domain.Event:
    return domain.HeartbeatSeen(_cluster(message, event), _order(message))


def _inventory(message: Any, event: Event) -> domain.Event:
    cluster, inventory = _cluster(message, event), message.inventory
    return domain.InventoryReported(
        cluster,
        _order(message),
        inventory.full,
        _number(inventory.sequence, "inventory.sequence"),
        _profile(inventory.profile) if inventory.HasField("profile") else None,
        tuple(_node(cluster, node) for node in inventory.nodes),
        tuple(inventory.removed_nodes),
    )


def _profile(profile: fleet_pb2.ClusterProfile) -> Profile:
    return Profile(
        backend=_text(profile.backend),
        anonymous=profile.identity == fleet_pb2.DEVICE_IDENTITY_ANONYMOUS,
        portions=profile.portions,
        memory_requests=profile.memory_requests,
        memory_isolation=profile.memory_isolation,
        mig=_MIG.get(profile.mig, Mig.NONE),
        ends_replicas_itself=profile.ends_replicas_itself,
        ignored_fields=tuple(profile.ignored_fields),
        refused_fields=tuple(profile.refused_fields),
        service_types=tuple(profile.service_types),
        request_gateway=profile.request_gateway,
    )


def _node(cluster: str, node: fleet_pb2.Node) -> Node:
    foreign = frozenset(node.foreign.devices)
    devices = [_device(device, foreign) for device in node.devices]
    if len({device.uuid for device in devices}) != len(devices):
        raise Reject(f"node {node.name[:80]!r} reports the same device twice")
    return Node(
        cluster,
        _text(node.name),
        _text(node.pool) or "default",
        uid=_text(node.uid),
        boot=_text(node.boot_id),
        state=_STATES.get(node.state, NodeState.NOT_READY),
        cpu=_number(node.cpu_milli, "cpu_milli"),
        memory=_number(node.memory_bytes, "memory_bytes"),
        foreign_cpu=_number(node.foreign.cpu_milli, "foreign.cpu_milli"),
        foreign_memory=_number(node.foreign.memory_bytes, "foreign.memory_bytes"),
        devices=devices,
        slots=_number(node.anonymous_devices, "anonymous_devices"),
        foreign_slots=_number(node.foreign.anonymous_devices, "foreign.anonymous_devices"),
        slot_model=_text(node.anonymous_model),
        slot_memory=_number(node.anonymous_memory_bytes, "anonymous_memory_bytes"),
        labels=tuple(sorted(node.labels.items())),
        taints=tuple((t.key, t.value, t.effect) for t in node.taints),
        drain_deadline=_micros(node.drain_deadline) if node.HasField("drain_deadline") else 0,
    )


def _device(device: fleet_pb2.Device, foreign: frozenset[str]) -> Device:
    made = Device(
        uuid=_text(device.uuid),
        model=_text(device.model),
        memory=_number(device.memory_bytes, "device.memory_bytes"),
        slot=device.slot,
        healthy=device.healthy,
        foreign=device.uuid in foreign,
        mig=device.mig_enabled,
        layout=tuple(sorted((piece.profile, piece.start) for piece in device.slices)),
    )
    made.tally()
    return made


def _status(status: fleet_pb2.ReplicaStatus) -> domain.Status:
    return domain.Status(
        role=_text(status.role),
        rank=status.index,
        k=status.k,
        node=_text(status.node),
        state=_REPLICA_STATES.get(status.state),
        gone=status.state == fleet_pb2.REPLICA_STATE_GONE,
        exit_code=status.exit_code if status.HasField("exit_code") else None,
        failure=_FAILURES.get(status.failure, FailureClass.NONE),
        name=_text(status.name),
        message=_text(status.message, _MESSAGE_LIMIT),
        endpoints=tuple(_text(endpoint) for endpoint in list(status.endpoints)[:16]),
        devices=tuple(_given(status.devices)),
        started=_micros(status.started_at) if status.HasField("started_at") else 0,
        finished=_micros(status.finished_at) if status.HasField("finished_at") else 0,
    )


def _given(shares: Iterable[fleet_pb2.DeviceShare]) -> Iterable[Share]:
    for share in shares:
        yield Share(device_name(share.device), Kind.WHOLE)


def _replica(message: Any, event: Event) -> domain.Event:
    return domain.ReplicaReported(
        _cluster(message, event),
        _order(message),
        _workload_id(message.workload_id),
        _number(message.generation, "generation"),
        message.attempt,
        _status(message.status),
        tuple(_text(endpoint) for endpoint in list(message.endpoints)[:16]),
        tuple(
            (_text(c.type), c.status, _text(c.reason.code), _text(c.reason.message, _MESSAGE_LIMIT))
            for c in list(message.conditions)[:32]
        ),
    )


def _refused(message: Any, event: Event) -> domain.Event:
    return domain.AssignmentRefused(
        _cluster(message, event),
        _order(message),
        _workload_id(message.workload_id),
        _number(message.generation, "generation"),
        message.attempt,
        _text(message.reason.code),
        _text(message.reason.message, _MESSAGE_LIMIT),
        _text(message.node),
        message.retry_after_seconds,
    )


def _held(message: Any, event: Event) -> domain.Event:
    held = tuple(
        domain.Held(
            _workload_id(one.workload_id),
            _number(one.generation, "generation"),
            one.attempt,
            _number(one.epoch, "epoch"),
            tuple(_status(status) for status in one.replicas),
        )
        for one in message.assignments
    )
    return domain.AssignmentsHeld(
        _cluster(message, event), _order(message), held, _number(message.highest_epoch, "highest_epoch")
    )


_MAKERS: Final[dict[type[Message], Callable[[Any, Event], domain.Event]]] = {
    policy_pb2.WorkloadAdmitted: _admitted,
    policy_pb2.WorkloadRejected: _rejected,
    submission_pb2.SuspendRequested: _suspend,
    submission_pb2.ResumeRequested: _resume,
    submission_pb2.DeletionRequested: _delete,
    submission_pb2.ProjectChanged: _project,
    telemetry_pb2.ScaleAdvised: _scale,
    agent_pb2.Heartbeat: _heartbeat,
    agent_pb2.InventoryReported: _inventory,
    agent_pb2.ReplicaStatusChanged: _replica,
    agent_pb2.AssignmentRefused: _refused,
    agent_pb2.AssignmentsHeld: _held,
}
