"""Reports as the contract's messages.

Used by records.py, which cuts what may be too large for one record. Pure translation: nothing is decided here.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Final

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from muster.events.v1 import agent_pb2, dead_letter_pb2
from muster.fleet.v1 import fleet_pb2
from muster.workload.v1 import workload_pb2
from muster_chassis.text import clean
from muster_cluster_agent.adapters.decode import uuid_bytes
from muster_cluster_agent.domain.fleet import Device, Foreign, NamespaceObjects, Node, Profile, SlotGroup
from muster_cluster_agent.domain.model import Slice, Status
from muster_cluster_agent.domain.usage import Sample
from muster_cluster_agent.ports import (
    BeatReport,
    DeadLetter,
    Held,
    LayoutReport,
    RefusalReport,
    SampleReport,
    StatusReport,
)
from muster_kernel.reasons import RefusalScope

SERVICE: Final = "cluster-agent"
_MESSAGE_LIMIT: Final = 1000
_LOG_LIMIT: Final = 4000
_VALUE_LIMIT: Final = 64 << 10
_IGNORED: Final = "FieldIgnored"
_WORKING: Final = "WorkingFolder"
_LAYOUT_FAILED: Final = "LayoutFailed"
_SCOPES: Final = {
    RefusalScope.NODE: agent_pb2.REFUSAL_SCOPE_NODE,
    RefusalScope.CLUSTER: agent_pb2.REFUSAL_SCOPE_CLUSTER,
    RefusalScope.WORKLOAD: agent_pb2.REFUSAL_SCOPE_WORKLOAD,
}


def timestamp(seconds: float | None) -> Timestamp | None:
    """Seconds since 1970 as protobuf has them."""
    if seconds is None:
        return None
    stamp = Timestamp()
    stamp.FromDatetime(datetime.fromtimestamp(seconds, UTC))
    return stamp


Single = StatusReport | RefusalReport | LayoutReport | BeatReport | SampleReport | DeadLetter
"""Reports that one record holds, however large the cluster is."""


def message(report: Single, order: agent_pb2.ReportOrder, letter_id: str) -> Message:
    """The report as a message. `letter_id` names a dead letter."""
    match report:
        case StatusReport():
            return _status_changed(report, order)
        case RefusalReport():
            return _refused(report, order)
        case LayoutReport():
            return _layout(report, order)
        case BeatReport(healthy=healthy, dead_man=dead_man):
            health = agent_pb2.BACKEND_HEALTH_OK if healthy else agent_pb2.BACKEND_HEALTH_UNREACHABLE
            # Never less than a supervisor waits: a part of a second counts as a whole one.
            return agent_pb2.Heartbeat(order=order, backend=health, dead_man_seconds=math.ceil(dead_man or 0.0))
        case SampleReport(samples=samples):
            return agent_pb2.UsageSampled(cluster=order.cluster, samples=[_sample(one) for one in samples])
        case DeadLetter():
            return _dead_letter(report, order, letter_id)


def _status_changed(report: StatusReport, order: agent_pb2.ReportOrder) -> agent_pb2.ReplicaStatusChanged:
    status = report.status
    return agent_pb2.ReplicaStatusChanged(
        order=order,
        workload_id=status.workload_id,
        generation=status.generation,
        attempt=status.attempt,
        status=replica_status(status, report.log_tail),
        endpoints=report.endpoints,
        conditions=_conditions(report, order.observed_at),
    )


def replica_status(status: Status, log_tail: bytes = b"") -> fleet_pb2.ReplicaStatus:
    """How a replica stands."""
    return fleet_pb2.ReplicaStatus(
        name=status.name,
        role=status.role,
        index=status.index,
        k=status.k,
        node=status.node,
        state=fleet_pb2.ReplicaState.ValueType(status.state.value),
        exit_code=status.exit_code,
        failure=fleet_pb2.FailureClass.ValueType(status.failure.value),
        started_at=timestamp(status.started_at),
        finished_at=timestamp(status.finished_at),
        endpoints=status.endpoints,
        gone_evidence=status.evidence,
        message=clean(status.message, _MESSAGE_LIMIT),
        log_tail=clean(log_tail, _LOG_LIMIT) if log_tail else "",
        devices=[fleet_pb2.DeviceShare(device=uuid_bytes(name), whole=True) for name in status.devices],
        substate=fleet_pb2.Substate.ValueType(status.start.substate.value if status.start is not None else 0),
        substate_since=timestamp(status.start.since if status.start is not None else None),
    )


def _conditions(report: StatusReport, since: Timestamp) -> list[workload_pb2.Condition]:
    found = []
    if report.without_effect:
        found.append(("FieldsIgnored", _IGNORED, report.without_effect))
    if report.folders:
        text = f"this run works in {report.folders[0]}; {report.folders[1]} stays for later runs (MUSTER_WORKLOAD_DIR)"
        found.append(("WorkingFolder", _WORKING, text))
    return [
        workload_pb2.Condition(type=kind, status=True, reason=workload_pb2.Reason(code=code, message=text), since=since)
        for kind, code, text in found
    ]


def held(held: Held) -> agent_pb2.HeldAssignment:
    """An assignment that is held."""
    return agent_pb2.HeldAssignment(
        workload_id=held.workload_id,
        generation=held.generation,
        attempt=held.attempt,
        epoch=held.epoch,
        replicas=[replica_status(status) for status in held.replicas],
    )


def _refused(report: RefusalReport, order: agent_pb2.ReportOrder) -> agent_pb2.AssignmentRefused:
    refusal = report.refusal
    return agent_pb2.AssignmentRefused(
        order=order,
        workload_id=refusal.workload_id,
        generation=refusal.generation,
        attempt=refusal.attempt,
        reason=workload_pb2.Reason(code=refusal.code, message=clean(refusal.message, _MESSAGE_LIMIT)),
        node=refusal.node,
        retry_after_seconds=refusal.retry_after,
        scope=_SCOPES[refusal.code.scope],
        role=refusal.role,
        index=refusal.index,
        k=refusal.k,
    )


def _layout(report: LayoutReport, order: agent_pb2.ReportOrder) -> agent_pb2.LayoutChanged | agent_pb2.LayoutFailed:
    answer = report.answer
    if answer.node is not None:
        now = node(answer.node)
        return agent_pb2.LayoutChanged(order=order, node=report.node, now=now, revision=report.revision)
    why = workload_pb2.Reason(code=_LAYOUT_FAILED, message=clean(answer.failure, _MESSAGE_LIMIT))
    return agent_pb2.LayoutFailed(order=order, node=report.node, reason=why, revision=report.revision)


def _sample(sample: Sample) -> agent_pb2.UsageSample:
    message = agent_pb2.UsageSample(
        workload_id=sample.workload_id,
        generation=sample.generation,
        attempt=sample.attempt,
        replica=sample.replica,
        to=timestamp(sample.until),
        gpu_charge=sample.charge,
        devices=sample.devices,
        project=sample.project,
        name=sample.name,
    )
    since = timestamp(sample.since)
    if since is not None:
        getattr(message, "from").CopyFrom(since)  # the field is called as Python calls a statement
    return message


def _dead_letter(letter: DeadLetter, order: agent_pb2.ReportOrder, letter_id: str) -> dead_letter_pb2.DeadLettered:
    headers = [dead_letter_pb2.RecordHeader(name=name, value=value) for name, value in letter.headers]
    return dead_letter_pb2.DeadLettered(
        id=letter_id,
        service=f"{SERVICE}/{order.cluster}",
        reason=clean(letter.reason, 2000),
        topic=letter.topic,
        partition=letter.partition,
        offset=letter.offset,
        key=letter.key,
        value=letter.value[:_VALUE_LIMIT],
        headers=headers,
        attempts=1,
        at=order.observed_at,
        aggregate=clean(letter.key, 200),
    )


def profile(profile: Profile) -> fleet_pb2.ClusterProfile:
    """What the cluster can do."""
    return fleet_pb2.ClusterProfile(
        backend=profile.backend,
        identity=fleet_pb2.DeviceIdentity.ValueType(profile.identity.value),
        portions=profile.portions,
        memory_requests=profile.memory_requests,
        memory_isolation=profile.memory_isolation,
        mig=fleet_pb2.MigSupport.ValueType(profile.mig.value),
        ignored_fields=profile.ignored_fields,
        refused_fields=profile.refused_fields,
        service_types=profile.service_types,
        request_gateway=profile.request_gateway,
        confinement=profile.confinement,
        names_objects=profile.names_objects,
    )


def objects(found: NamespaceObjects) -> fleet_pb2.NamespaceObjects:
    """What may be mounted in a namespace."""
    return fleet_pb2.NamespaceObjects(
        namespace=found.namespace,
        claims=found.claims,
        config_maps=found.config_maps,
        truncated=found.truncated,
    )


def node(node: Node) -> fleet_pb2.Node:
    """A node as it is."""
    return fleet_pb2.Node(
        name=node.name,
        uid=node.uid,
        boot_id=node.boot_id,
        state=fleet_pb2.NodeState.ValueType(node.state.value),
        drain_deadline=timestamp(node.drain_deadline),
        labels=dict(node.labels),
        taints=[fleet_pb2.Taint(key=t.key, value=t.value, effect=t.effect) for t in node.taints],
        cpu_milli=node.cpu_milli,
        memory_bytes=node.memory_bytes,
        foreign=_foreign(node.foreign),
        devices=[_device(device) for device in node.devices],
        slots=[_group(group) for group in node.slots],
        pool=node.pool,
        extended=dict(node.extended),
        maintenance=[_window(start, end) for start, end in node.maintenance],
        most_replicas=node.most_replicas,
    )


def _group(group: SlotGroup) -> fleet_pb2.SlotGroup:
    return fleet_pb2.SlotGroup(
        resource=group.resource,
        mig_profile=group.profile,
        model=group.model,
        memory_bytes=group.memory_bytes,
        count=group.count,
    )


def _window(start: float, end: float) -> fleet_pb2.MaintenanceWindow:
    window = fleet_pb2.MaintenanceWindow(to=timestamp(end))
    getattr(window, "from").CopyFrom(timestamp(start))
    return window


def _foreign(foreign: Foreign) -> fleet_pb2.Foreign:
    return fleet_pb2.Foreign(
        cpu_milli=foreign.cpu_milli,
        memory_bytes=foreign.memory_bytes,
        devices=foreign.devices,
        slots=[fleet_pb2.SlotCount(resource=name, count=count) for name, count in foreign.slots],
        extended=dict(foreign.extended),
    )


def _device(device: Device) -> fleet_pb2.Device:
    return fleet_pb2.Device(
        uuid=device.uuid,
        model=device.model,
        memory_bytes=device.memory_bytes,
        healthy=device.healthy,
        trouble=device.trouble,
        mig_enabled=device.mig_enabled,
        slices=[_slice(one) for one in device.slices],
        slot=device.slot,
    )


def _slice(one: Slice) -> fleet_pb2.MigSlice:
    return fleet_pb2.MigSlice(profile=one.profile, start=one.start, uuid=one.uuid)
