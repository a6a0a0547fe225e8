"""What the language works out itself once all layers are in: members that follow from others, and what has no effect.

Called by policy on the merged spec, before the rules of policy look at it, so that a rule sees what will run. Nobody
writes these into a user's layer: they would count as set, and defaults and canEdit would go wrong.
Holds: a value that somebody gave is never changed; what is taken out is said by `warnings_of` first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from muster.workload.v1 import placement_pb2, storage_pb2, workload_pb2
from muster_kernel.torchrun import lets_late_ones_in
from muster_language.merging.layers import LayerName, Merged
from muster_language.merging.overlay import MASTER
from muster_language.resources import implied_class, is_preemptible
from muster_language.rules.issues import path_of
from muster_language.spec import Kind, WorkloadSpec, kind_of

_TO_ZERO: Final = frozenset({workload_pb2.SCALE_METRIC_CONCURRENCY, workload_pb2.SCALE_METRIC_THROUGHPUT})
_IDS: Final = ("run_as_uid", "run_as_gid")


def derive(merged: Merged, *, rest: bool = False) -> None:
    """Works out what follows from the merged values, and notes it as derived.

    rest: the workload came by REST, whose services have one replica at least unless they say otherwise; elsewhere they
    may go down to none where their metric can bring them back.
    """
    spec: Any = merged.spec
    before = _values(spec)
    if kind_of(spec) is Kind.INFERENCE:
        _scale(spec, rest=rest)
    _class(spec, merged.provenance)
    for role, prefix in ((spec, ""), (spec.master_spec, f"{path_of(MASTER)}."))[: 1 + spec.HasField(MASTER)]:
        _gpu_type(role)
        _spread(role)
        _drop(role)
        _source(role, prefix, merged.provenance)
        _nfs(role, prefix, merged.provenance)
    for name in _values(spec) - before:
        merged.provenance.setdefault(path_of(name), LayerName.DERIVED)


def _values(spec: Any) -> set[str]:
    """The fields that are set, items aside: those have a layer each."""
    return {each.name for each, _ in spec.ListFields() if not each.is_repeated}


def _scale(spec: Any, *, rest: bool) -> None:
    if not spec.HasField("min_scale"):
        metric = spec.metric or workload_pb2.SCALE_METRIC_CONCURRENCY
        spec.min_scale = 0 if metric in _TO_ZERO and not rest else 1
        if spec.HasField("max_scale"):
            spec.min_scale = min(spec.min_scale, spec.max_scale)
    if not spec.HasField("max_scale"):
        spec.max_scale = max(1, spec.min_scale)
    low, high = spec.min_scale, spec.max_scale
    # Between 0 and 1 replica the traffic decides, and REST wants the metric said.
    if low < high and (low, high) != (0, 1) and not spec.metric and not rest:
        spec.metric = workload_pb2.SCALE_METRIC_CONCURRENCY


def _gpu_type(role: Any) -> None:
    if role.HasField("gpu_request_type"):
        return
    if role.HasField("mig_profile"):
        role.gpu_request_type = workload_pb2.GPU_REQUEST_TYPE_MIG_PROFILE
    elif role.HasField("gpu_memory_request"):
        role.gpu_request_type = workload_pb2.GPU_REQUEST_TYPE_MEMORY
    elif role.HasField("gpu_portion_request") or role.gpu_devices_request:
        role.gpu_request_type = workload_pb2.GPU_REQUEST_TYPE_PORTION


def _spread(role: Any) -> None:
    """What is said for all ports or volumes goes into each that does not say it itself."""
    if role.HasField("service_type"):
        for port in role.ports:
            if not port.HasField("service_type"):
                port.service_type = role.service_type
    if role.mount_propagation:
        for volume in role.volumes:
            if not volume.HasField("mount_propagation"):
                volume.mount_propagation = storage_pb2.MOUNT_PROPAGATION_HOST_TO_CONTAINER
    if role.run_as_user and not role.HasField("create_home_dir"):
        role.create_home_dir = True


def _class(spec: Any, provenance: dict[str, LayerName]) -> None:
    """The class that `preemptible` and `nonPreemptible` stand for, so that a rule about classes sees them too."""
    implied = implied_class(spec)
    if implied and not spec.HasField("priority_class"):
        spec.priority_class = implied
        said = "non_preemptible" if spec.non_preemptible else "preemptible"
        provenance[path_of("priority_class")] = provenance[path_of(said)]


def _source(role: Any, prefix: str, provenance: dict[str, LayerName]) -> None:
    """YAML's runAsUser as uidGidSource, as if its giver had said that: one rule of a policy holds for both channels."""
    if not role.HasField("run_as_user") or role.HasField("uid_gid_source"):
        return
    if not role.run_as_user:
        role.uid_gid_source = workload_pb2.UID_GID_SOURCE_FROM_THE_IMAGE
    elif any(role.HasField(name) for name in _IDS):
        role.uid_gid_source = workload_pb2.UID_GID_SOURCE_CUSTOM
    else:
        role.uid_gid_source = workload_pb2.UID_GID_SOURCE_FROM_IDP_TOKEN
    role.ClearField("run_as_user")
    provenance[f"{prefix}{path_of('uid_gid_source')}"] = provenance.pop(f"{prefix}{path_of('run_as_user')}")


def _nfs(role: Any, prefix: str, provenance: dict[str, LayerName]) -> None:
    """Volumes of an NFS server among `nfs`, where rules about NFS look and rules about the node's folders do not."""
    remote = [volume for volume in role.volumes if volume.HasField("nfs_server")]
    for volume in remote:
        moved = role.nfs.add(label=volume.label, server=volume.nfs_server)
        for name in ("path", "mount_path", "read_only"):
            if volume.HasField(name):
                setattr(moved, name, getattr(volume, name))
        given = provenance.pop(f"{prefix}{path_of('volumes')}.{volume.label}")
        provenance[f"{prefix}{path_of('nfs')}.{volume.label}"] = given
    if remote:
        local = [volume for volume in role.volumes if not volume.HasField("nfs_server")]
        del role.volumes[:]
        role.volumes.extend(local)


def _drop(role: Any) -> None:
    if not _own_ids(role):
        for name in _IDS:
            role.ClearField(name)
    for toleration in role.tolerations:
        if _needless(toleration):
            toleration.ClearField("seconds")


def _own_ids(role: Any) -> bool:
    """Whether the process runs under ids that somebody gives."""
    return bool(role.run_as_user) or role.uid_gid_source == workload_pb2.UID_GID_SOURCE_CUSTOM


def _needless(toleration: Any) -> bool:
    return bool(toleration.HasField("seconds")) and toleration.effect != placement_pb2.TAINT_EFFECT_NO_EXECUTE


def warnings_of(spec: WorkloadSpec) -> list[str]:
    """What the spec says without effect, one sentence each. Before `derive`, which takes some of it out."""
    found = list(_of_workload(spec))
    found += _of_role(spec, "")
    if spec.HasField(MASTER):
        found += _of_role(spec.master_spec, "masterSpec: ")
    return found


def _of_workload(spec: Any) -> Iterator[str]:
    if spec.terminate_after_preemption and not is_preemptible(spec):
        yield "terminateAfterPreemption has no effect: the workload is not preemptible"
    if spec.preemption_limit and not is_preemptible(spec):
        yield "preemptionLimit has no effect: the workload is not preemptible"
    if spec.HasField("min_replicas") or spec.HasField("max_replicas"):
        yield from _not_elastic(spec)
    if spec.slots_per_worker > 1 and spec.framework and spec.framework not in _SLOTS:
        yield "slotsPerWorker has no effect: only MPI gives its workers slots"
    if kind_of(spec) is Kind.INFERENCE and (spec.min_scale, spec.max_scale) == (0, 1) and not spec.metric:
        yield "without a metric the service scales with its traffic between 0 and 1 replicas"
    if spec.HasField("notebook_token") and not spec.jupyter:
        yield "notebookToken has no effect without jupyter"
    if spec.HasField("tensorboard_logdir") and not spec.tensorboard:
        yield "tensorboardLogdir has no effect without tensorboard"


def _not_elastic(spec: Any) -> Iterator[str]:
    why = ""
    if spec.topology_group:
        why = "its workers run in groups"
    elif not lets_late_ones_in(spec.command, spec.args):
        why = "late ones could join only a torchrun command without --nnodes, --rdzv-... and --standalone"
    if why:
        yield f"minReplicas and maxReplicas have no effect: the gang has all its {spec.workers} workers, since {why}"


_SLOTS: Final = frozenset({workload_pb2.FRAMEWORK_MPI, workload_pb2.FRAMEWORK_COLOSSALAI})


def _of_role(role: Any, where: str) -> list[str]:
    found = []
    if not _own_ids(role):
        given = [word for name, word in zip(_IDS, ("runAsUid", "runAsGid"), strict=True) if role.HasField(name)]
        found += [
            f"{where}{word} is ignored: it is used only with runAsUser or a custom uidGidSource" for word in given
        ]
    if role.tty and not role.stdin:
        found.append(f"{where}tty needs stdin as well: the terminal cannot be typed at")
    for each in role.tolerations:
        if _needless(each):
            found.append(f"{where}the seconds of toleration {each.label} are ignored: only NoExecute counts them")
    for each in role.pvcs:
        if each.existing_pvc and (each.size or each.storage_class or each.ephemeral):
            found.append(f"{where}size, storageClass and ephemeral of {each.label} are ignored: the claim exists")
    return found
