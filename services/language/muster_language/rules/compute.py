"""What a replica may ask for: the ways of asking for GPU that go together, and limits that are no less than requests.

Called for the workers' spec and for the completed spec of a master. A portion, memory or a MIG slice is a share of one
device; several devices are whole ones.
Holds: each rule looks at presence first, so that a spec without GPU costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from muster_kernel.quantities import parse_bytes, parse_milli_cpu
from muster_language.rules.issues import Found, Issue, missing, path_of, wrong
from muster_language.spec import WorkloadSpec

_SHARES: Final = {
    "gpu_portion_request": "a portion",
    "gpu_memory_request": "GPU memory",
    "mig_profile": "a MIG profile",
}
_TYPES: Final = {1: "gpu_portion_request", 2: "gpu_memory_request", 3: "mig_profile"}  # by the number of gpuRequestType


def gpu(spec: WorkloadSpec) -> Found:
    """One way of asking, the limit that belongs to it, and a number of devices that it can have."""
    yield from _share(spec)
    yield from _limits(spec)
    if spec.HasField("gpu_request_type"):
        yield from _type(spec)


def _share(spec: WorkloadSpec) -> Found:
    if not spec.HasField("gpu_devices_request"):
        return
    devices = spec.gpu_devices_request
    portion = spec.gpu_portion_request if spec.HasField("gpu_portion_request") else 1.0
    shared = portion < 1 or bool(spec.gpu_memory_request) or bool(spec.mig_profile)
    if shared and devices != 1:
        share = "a portion" if portion < 1 else _SHARES[_which(spec)]
        said = f"{share} is a share of one device, and {devices} are asked for"
        yield wrong("compute.gpuDevicesRequest", devices, "1, or nothing", said)


def _which(spec: Any) -> str:
    return next(name for name in _SHARES if spec.HasField(name))


def _limits(spec: WorkloadSpec) -> Found:
    if spec.HasField("gpu_portion_limit"):
        path, limit = "compute.gpuPortionLimit", spec.gpu_portion_limit
        if not spec.HasField("gpu_portion_request"):
            yield wrong(path, f"{limit:g}", "a portion beside it", "a limit of the portion needs a portion")
        elif limit < spec.gpu_portion_request:
            yield _below(path, f"{limit:g}", f"{spec.gpu_portion_request:g}")
    if spec.HasField("gpu_memory_limit"):
        path, text = "compute.gpuMemoryLimit", spec.gpu_memory_limit
        if not spec.HasField("gpu_memory_request"):
            yield wrong(path, text, "gpuMemory beside it", "a limit of GPU memory needs a request for GPU memory")
        elif _less(spec, "gpu_memory_limit", "gpu_memory_request", parse_bytes):
            yield _below(path, text, spec.gpu_memory_request)


def _type(spec: Any) -> Found:
    path = "compute.gpuRequestType"
    wanted = _TYPES.get(int(spec.gpu_request_type), "")
    word = {"gpu_memory_request": "memory", "mig_profile": "migProfile"}.get(wanted, "portion")
    others = [name for name in _SHARES if name != wanted and spec.HasField(name)]
    for name in others:
        yield wrong(path, word, "the type of what is asked for", f"it is {word}, but {path_of(name)} is asked for")
    if not others and word != "portion" and not spec.HasField(wanted):
        yield missing(path_of(wanted), f"gpuRequestType is {word}, and nothing says how much", path_of(wanted))


def plain_limits(spec: WorkloadSpec) -> Found:
    """CPU and memory: a limit is no less than what is asked for. A limit alone is its own request."""
    if _less(spec, "cpu_limit", "cpu", parse_milli_cpu):
        yield _below("compute.cpuCoreLimit", spec.cpu_limit, spec.cpu)
    if _less(spec, "memory_limit", "memory", parse_bytes):
        yield _below("compute.cpuMemoryLimit", spec.memory_limit, spec.memory)


def _below(path: str, limit: str, request: str) -> Issue:
    return wrong(path, limit, f"at least {request}", f"the limit of {limit} is below the request of {request}")


def _less(spec: Any, limit: str, request: str, parse: Callable[[str], int]) -> bool:
    """Whether both are given and the limit is the smaller; what is no quantity is said by the row's own check."""
    if not (spec.HasField(limit) and spec.HasField(request)):
        return False
    try:
        return parse(getattr(spec, limit)) < parse(getattr(spec, request))
    except ValueError:
        return False
