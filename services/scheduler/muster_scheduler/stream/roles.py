"""What each role of an admitted workload asks for, as the domain's shapes. What can mean nothing raises Reject."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from muster_chassis.events import Reject
from muster_kernel.mig import compute_of
from muster_kernel.torchrun import elastic_between
from muster_scheduler.domain.asked.requests import Kind, Role, Shape, charge_of
from muster_scheduler.domain.asked.workloads import Stretch, Trials
from muster_scheduler.stream import values

MOST_REPLICAS: Final = 100_000
_MOST_DEVICES: Final = 1024  # on one node: more than any has, and so a request that waits with its reason
_WHOLE_MILLI: Final = 1000
_WORKER: Final = "worker"


def trials_of(spec: workload_pb2.WorkloadSpec) -> Trials | None:
    """The independent trials of a training; None where it is one run."""
    if spec.kind != options_pb2.KIND_TRAINING or spec.completions <= 1:
        return None
    completions = min(spec.completions, MOST_REPLICAS)
    return Trials(completions, max(1, min(spec.parallelism, completions)))


def stretch_of(spec: workload_pb2.WorkloadSpec) -> Stretch | None:
    """Between which numbers of workers a gang is elastic; None where it is not, or late ones could not join it.

    Groups of close replicas are counted from the first: they leave nothing to spare.
    """
    between = elastic_between(spec.workers, spec.min_replicas, spec.max_replicas, spec.command, spec.args)
    if between is None or spec.framework != workload_pb2.FRAMEWORK_PYTORCH or spec.topology_group:
        return None
    return Stretch(_WORKER, min(between.least, MOST_REPLICAS), min(between.most, MOST_REPLICAS))


def shrunk(roles: tuple[Role, ...], stretch: Stretch | None) -> tuple[Role, ...]:
    """The roles of an elastic gang with as many replicas as it needs."""
    if stretch is None:
        return roles
    return tuple(role._replace(size=stretch.least) if role.name == stretch.role else role for role in roles)


def roles_of(requests: Iterable[workload_pb2.ResourceRequest], *, alone: bool = False) -> tuple[Role, ...]:
    """The roles of a gang; `alone`: of one of its trials. Raises Reject.

    More replicas than anybody starts are refused, and two roles of one name, and trials that are several roles.
    """
    roles = tuple(_role(request) for request in requests)
    if alone:
        if len(roles) != 1:
            raise Reject(f"trials have one role, not {len(roles)}")
        roles = (roles[0]._replace(size=1),)
    replicas = sum(role.size for role in roles)
    if replicas > MOST_REPLICAS:
        raise Reject(f"{replicas} replicas are asked for; at most {MOST_REPLICAS} are allowed")
    names = [role.name for role in roles]
    if len(set(names)) != len(names):
        raise Reject(f"the roles are {', '.join(map(repr, names))[:200]}: each needs a name of its own")
    return roles


def _role(request: workload_pb2.ResourceRequest) -> Role:
    shape = Shape(
        # More than any node has is as much as the most that anybody counts: it waits with its reason either way.
        cpu=min(request.cpu_milli, values.MOST),
        memory=min(request.memory_bytes, values.MOST),
        extra=tuple(sorted(values.amounts(request.extended).items())),
        **_gpu(request),
    )
    return Role(values.text(request.role), request.count, shape, charge_of(shape))


def _gpu(request: workload_pb2.ResourceRequest) -> dict[str, Any]:
    devices = min(request.gpu_devices, _MOST_DEVICES)
    if request.mig_profile:
        return {"kind": Kind.SLICE, "devices": devices or 1, "profile": _profile(request.mig_profile)}
    if request.gpu_memory_bytes:
        return {"kind": Kind.MEMORY, "devices": devices or 1, "bytes": min(request.gpu_memory_bytes, values.MOST)}
    if 0 < request.gpu_portion_milli < _WHOLE_MILLI:
        return {"kind": Kind.PORTION, "devices": devices or 1, "milli": request.gpu_portion_milli}
    if devices or request.gpu_portion_milli:
        return {"kind": Kind.WHOLE, "devices": devices or 1}
    return {"kind": Kind.NONE}


def _profile(name: str) -> str:
    try:
        compute_of(name)
    except ValueError as error:
        raise Reject(f"mig_profile: {error}") from error
    return values.text(name)
