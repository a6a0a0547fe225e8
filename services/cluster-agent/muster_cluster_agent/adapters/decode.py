"""Records of the assignments topic as domain values.

Used by `stream.py`. Raises BadRecord, with as much as could be read of whose record it is; never anything else.
Holds: a device is 16 bytes of its UUID or its name as text, and comes out as the name that the inventory has.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Final

from google.protobuf.message import DecodeError

from muster.fleet.v1 import fleet_pb2
from muster_chassis.numbers import LARGEST_EPOCH, LARGEST_RUN, number
from muster_cluster_agent.adapters import specs
from muster_cluster_agent.adapters.notebooks import with_notebook_defaults
from muster_cluster_agent.adapters.support import Support
from muster_cluster_agent.domain.layouts import NodeWish, WishEnd
from muster_cluster_agent.domain.model import (
    Assignment,
    Release,
    Revision,
    Run,
    Share,
    Slice,
)
from muster_cluster_agent.errors import BadRecord
from muster_kernel.ids import is_uuid

SOURCE: Final = b"scheduler"
_UUID_BYTES: Final = 16
_LARGEST: Final = 1 << 20
_LARGEST_REVISION: Final = 1 << 53
_LONGEST_GRACE: Final = 300.0

Names = Callable[[bytes], str]


def device_name(raw: bytes, known: Mapping[bytes, str]) -> str:
    """The device's name in the inventory. Sixteen bytes that no device here has are printed as a GPU's UUID."""
    if raw in known:
        return known[raw]
    if len(raw) == _UUID_BYTES:
        return f"GPU-{uuid.UUID(bytes=raw)}"
    return raw.decode("utf-8", "replace")


def uuid_bytes(name: str) -> bytes:
    """How an assignment writes a device of that name: a GPU's canonical UUID as 16 bytes, anything else as its text."""
    text = name.removeprefix("GPU-")
    return uuid.UUID(text).bytes if is_uuid(text) else name.encode()


def from_scheduler(headers: Mapping[str, bytes]) -> None:
    """Raises BadRecord for a record that the scheduler did not write. It names no workload to report about."""
    source = headers.get("ce_source", b"")
    if source != SOURCE:
        raise BadRecord(f"ce_source is {source[:80]!r}: only the scheduler writes assignments ({SOURCE!r})")


def release(workload_id: str, headers: Mapping[str, bytes]) -> Release:
    """A tombstone, from its headers."""
    try:
        return Release(
            workload_id=workload_id,
            epoch=number(headers.get("epoch"), LARGEST_EPOCH, "epoch"),
            generation=number(headers.get("generation"), LARGEST_RUN, "generation"),
            attempt=number(headers.get("attempt"), LARGEST_RUN, "attempt"),
            grace=min(_LONGEST_GRACE, max(0.0, float(headers.get("grace", b"30")))),
            reason=headers.get("reason", b"").decode("utf-8", "replace")[:200],
        )
    except ValueError as error:
        raise BadRecord(f"a tombstone needs generation, attempt and epoch as numbers: {error}", workload_id) from error


def node_wish(name: str, value: bytes) -> NodeWish:
    """What a node is to become, from its bytes."""
    try:
        message = fleet_pb2.NodeWish.FromString(value)
    except (DecodeError, ValueError) as error:
        raise BadRecord(f"the value is no NodeWish: {error}") from error
    if message.node != name or not message.layout:
        said = f"{message.node[:80]!r} with the layout {message.layout[:80]!r}"
        raise BadRecord(f"the key says node {name[:80]!r}, the value {said}")
    return NodeWish(message.node, message.epoch, message.revision, message.agent_instance, message.layout)


def wish_end(name: str, headers: Mapping[str, bytes]) -> WishEnd:
    """The tombstone of a node's record, from its headers."""
    try:
        return WishEnd(
            name,
            epoch=number(headers.get("epoch"), LARGEST_EPOCH, "epoch"),
            revision=number(headers.get("revision"), _LARGEST_REVISION, "revision"),
        )
    except ValueError as error:
        raise BadRecord(f"a tombstone of a node needs epoch and revision as numbers: {error}") from error


def assignment(workload_id: str, value: bytes, devices: Mapping[bytes, str], support: Support) -> Assignment:
    """An assignment, from its bytes.

    devices: the names of this cluster's devices by their bytes. support: what the back end does with each field.
    """
    if len(value) > _LARGEST:
        raise BadRecord(f"the record has {len(value)} bytes; an assignment has at most {_LARGEST}", workload_id)
    try:
        message = fleet_pb2.Assignment.FromString(value)
    except (DecodeError, ValueError) as error:
        raise BadRecord(f"the value is no Assignment: {error}", workload_id) from error
    if message.workload_id != workload_id:
        raise BadRecord(f"the key says {workload_id!r}, the value {message.workload_id!r}", workload_id)
    if not message.revisions:
        raise BadRecord("an assignment needs a revision", workload_id)
    newest = message.revisions[-1]
    try:
        return _assignment(message, devices, support)
    except ValueError as error:
        raise BadRecord(str(error), workload_id, newest.generation, newest.attempt) from error


def _assignment(message: fleet_pb2.Assignment, devices: Mapping[bytes, str], support: Support) -> Assignment:
    return Assignment(
        workload_id=message.workload_id,
        epoch=message.epoch,
        instance=message.agent_instance,
        revision=message.revision,
        revisions=tuple(_revision(one, devices, support) for one in message.revisions),
        project=message.project,
        namespace=message.namespace,
        name=message.name,
        grace=min(_LONGEST_GRACE, float(message.grace_seconds)),
        start_deadline=message.start_deadline.ToNanoseconds() / 1e9 if message.HasField("start_deadline") else None,
        leaving=tuple(_run(run, devices) for run in message.leaving),
    )


def _revision(message: fleet_pb2.Revision, devices: Mapping[bytes, str], support: Support) -> Revision:
    spec = with_notebook_defaults(message.spec, support.notebook)
    return Revision(
        generation=message.generation,
        attempt=message.attempt,
        pattern=specs.pattern(spec),
        template=specs.template(spec, containers=support.containers),
        runs=tuple(_run(run, devices) for run in message.runs),
        master=specs.template(spec.master_spec, containers=support.containers)
        if spec.HasField("master_spec")
        else None,
        slots_per_worker=spec.slots_per_worker or 1,
        processes=spec.processes,
        framework=specs.framework(spec),
        cleaned=spec.clean_pod_policy in specs.CLEANED,
        without_effect=support.without_effect(spec),
        least=message.least,
        most=message.most,
    )


def _run(run: fleet_pb2.ReplicaRun, devices: Mapping[bytes, str]) -> Run:
    return Run(
        role=run.role,
        first_index=run.first_index,
        count=run.count,
        node=run.node,
        k=run.k,
        shares=tuple(tuple(_share(share, devices) for share in one.shares) for one in run.devices),
        slots=tuple((each.resource, each.count) for each in run.slots),
    )


def _share(share: fleet_pb2.DeviceShare, devices: Mapping[bytes, str]) -> Share:
    device = device_name(share.device, devices)
    kind = share.WhichOneof("share")
    if kind == "slice":
        return Share(device, slice=Slice(share.slice.profile, share.slice.start, share.slice.uuid))
    if kind == "portion_milli":
        return Share(device, portion_milli=share.portion_milli)
    if kind == "memory_bytes":
        return Share(device, memory_bytes=share.memory_bytes)
    return Share(device, whole=True)
