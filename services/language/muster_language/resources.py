"""What each role of an effective spec needs, in base units, and how the workload ranks: all that the scheduler reads.

Called by policy when it admits. Pure.
Holds: integers only; amounts become integers in the kernel's quantities and nowhere else.
"""

from __future__ import annotations

from typing import Final

from muster.workload.v1 import workload_pb2
from muster_kernel import mig
from muster_kernel.quantities import (
    GPU,
    LARGEST,
    MILLI,
    UNITS_PER_MILLI,
    UNITS_PER_SEVENTH,
    parse_bytes,
    parse_count,
    parse_milli_cpu,
    portion_milli,
)
from muster_language.merging.roles import complete_master, has_launcher
from muster_language.spec import Kind, WorkloadSpec, kind_of

ResourceRequest = workload_pb2.ResourceRequest

PRIORITIES: Final = {
    "very-low": 10,
    "low": 25,
    "medium-low": 40,
    "medium": 50,
    "train": 50,
    "interactive-preemptible": 75,
    "medium-high": 75,
    "high": 90,
    "build": 100,
    "very-high": 100,
    "inference": 125,
}
_PREEMPTIBLE_BY_CLASS: Final = {"build": False, "inference": False, "interactive-preemptible": True}
_PRIORITY_BY_KIND: Final = {
    Kind.WORKSPACE: PRIORITIES["build"],
    Kind.TRAINING: PRIORITIES["train"],
    Kind.DISTRIBUTED: PRIORITIES["train"],
    Kind.INFERENCE: PRIORITIES["inference"],
}


def priority_of(spec: WorkloadSpec) -> int:
    """The rank of the workload in its project, the higher the sooner; a plain number is itself."""
    word = spec.priority_class or implied_class(spec)
    if word.isdecimal():
        return int(word)
    return PRIORITIES[word] if word else _PRIORITY_BY_KIND[Kind(int(spec.kind))]


def implied_class(spec: WorkloadSpec) -> str:
    """The class that `preemptible` of a workspace and `nonPreemptible` of a gang stand for."""
    if spec.non_preemptible:
        return "build"
    return "interactive-preemptible" if spec.preemptible and kind_of(spec) is Kind.WORKSPACE else ""


def is_preemptible(spec: WorkloadSpec) -> bool:
    """Whether others may take its place: what it says, else what its class says, else by its kind."""
    if spec.non_preemptible or kind_of(spec) is Kind.INFERENCE:
        return False
    if spec.HasField("preemptible"):
        return spec.preemptible
    by_class = _PREEMPTIBLE_BY_CLASS.get(spec.priority_class)
    return by_class if by_class is not None else kind_of(spec) in {Kind.TRAINING, Kind.DISTRIBUTED}


def resource_requests(spec: WorkloadSpec) -> list[ResourceRequest]:
    """One request per role, the one that starts the others first. Raises ValueError for a spec with issues."""
    match kind_of(spec):
        case Kind.DISTRIBUTED:
            return _gang(spec)
        case Kind.INFERENCE:
            # One replica answers the first request also where the service may go down to none later: nothing but a
            # replica can hold a request, so that a service which began with none would never begin.
            return [_request("worker", max(1, spec.min_scale), spec)]
        case _:
            return [_request("worker", trials_at_once(spec), spec)]


def trials_at_once(spec: WorkloadSpec) -> int:
    """How many replicas of a training run side by side: parallelism, but no more than there are completions."""
    return max(1, min(spec.parallelism or 1, spec.completions or 1))


def _gang(spec: WorkloadSpec) -> list[ResourceRequest]:
    master = complete_master(spec)
    if has_launcher(spec):
        return [_request("launcher", 1, master or WorkloadSpec()), _request("worker", spec.workers, spec)]
    if master is None:
        return [_request("worker", spec.workers, spec)]
    return [_request("master", 1, master), _request("worker", spec.workers, spec)]


def _request(role: str, count: int, spec: WorkloadSpec) -> ResourceRequest:
    request = ResourceRequest(role=role, count=count)
    if cpu := spec.cpu or spec.cpu_limit:  # a limit alone is its own request, as Kubernetes has it
        request.cpu_milli = parse_milli_cpu(cpu)
    if memory := spec.memory or spec.memory_limit:
        request.memory_bytes = parse_bytes(memory)
    for each in spec.extended_resources:
        if not each.deleted and (amount := parse_count(each.quantity or "0")):
            request.extended[each.resource] = min(LARGEST, request.extended[each.resource] + amount)
    _ask_gpu(request, spec)
    return request


def _ask_gpu(request: ResourceRequest, spec: WorkloadSpec) -> None:
    """Devices, the share of each, and the charge: of a memory request it is known only for a device, so it stays 0."""
    shares = spec.HasField("gpu_portion_request") or bool(spec.gpu_memory_request) or bool(spec.mig_profile)
    devices = spec.gpu_devices_request if spec.HasField("gpu_devices_request") else int(shares)
    request.gpu_devices = devices
    if devices == 0:
        return
    if spec.mig_profile:
        request.mig_profile = spec.mig_profile
        request.gpu_charge = devices * mig.compute_of(spec.mig_profile) * UNITS_PER_SEVENTH
    elif spec.gpu_memory_request:
        request.gpu_memory_bytes = parse_bytes(spec.gpu_memory_request)
    elif spec.HasField("gpu_portion_request"):
        request.gpu_portion_milli = portion_milli(spec.gpu_portion_request)
        request.gpu_charge = devices * request.gpu_portion_milli * UNITS_PER_MILLI
    else:
        request.gpu_portion_milli = MILLI
        request.gpu_charge = devices * GPU
