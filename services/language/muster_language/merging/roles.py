"""What each role of a gang is given: the workers the spec, the master or launcher its own fields over the workers'.

Called by the EFFECTIVE stage, by the resource requests and by policy for the effective spec.
Holds: a launcher starts the ranks and runs none, so it inherits no GPU.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from muster.workload.v1 import workload_pb2
from muster_language.catalogue import catalogue
from muster_language.merging.overlay import gpu_members, overlay
from muster_language.spec import WorkloadSpec

_LAUNCHED: Final = frozenset({workload_pb2.FRAMEWORK_MPI, workload_pb2.FRAMEWORK_COLOSSALAI})


def has_launcher(spec: WorkloadSpec) -> bool:
    """Whether a launcher starts the ranks on the workers."""
    return spec.framework in _LAUNCHED


def complete_master(spec: WorkloadSpec) -> WorkloadSpec | None:
    """What the master or launcher is given: the workers' fields, its own over them; None without masterSpec."""
    if not spec.HasField("master_spec"):
        return None
    shared = WorkloadSpec()
    shared.CopyFrom(spec)
    for name in _not_shared():
        shared.ClearField(name)  # type: ignore[arg-type]
    if has_launcher(spec):
        for name in gpu_members():
            shared.ClearField(name)  # type: ignore[arg-type]
    master = overlay(shared, spec.master_spec)
    for name in _own():
        master.ClearField(name)  # type: ignore[arg-type]
    return master


@cache
def _not_shared() -> tuple[str, ...]:
    every = catalogue()
    return tuple(row.name for row in (*every.rows, *every.whole) if not row.for_roles)


@cache
def _own() -> tuple[str, ...]:
    return tuple(row.name for row in catalogue().rows if row.own)
