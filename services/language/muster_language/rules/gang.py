"""What a workload of several replicas needs: a framework and workers that fit each other, trials that fit each other.

Called for the effective spec of a workload as a whole.
Holds: what only one framework knows is refused for the others where it would change what runs.
"""

from __future__ import annotations

from typing import Final

from muster.workload.v1 import workload_pb2
from muster_language.rules.issues import Found, missing, words, wrong
from muster_language.spec import WorkloadSpec

MPI: Final = workload_pb2.FRAMEWORK_MPI
PYTORCH: Final = workload_pb2.FRAMEWORK_PYTORCH


def gang(spec: WorkloadSpec) -> Found:
    """A distributed workload: what it runs under, how many, and ranks that find a slot."""
    if not spec.framework:
        yield missing("distributedFramework", "a distributed workload needs jobType", words("framework"))
    if not spec.workers:
        yield missing("numWorkers", "a distributed workload needs workers", "a whole number from 1 on")
    if spec.HasField("processes"):
        yield from _processes(spec)
    if spec.HasField("min_replicas") or spec.HasField("max_replicas"):
        yield from _elastic(spec)
    yield from _groups(spec)


def _groups(spec: WorkloadSpec) -> Found:
    """Groups of replicas that stay close together: named and sized, and no worker is left over."""
    size = spec.topology_group_size
    if spec.topology_group and not spec.HasField("topology_group_size"):
        yield missing("topology.groupSize", "topologyGroup needs the size of its groups", "a whole number from 1 on")
    elif size and not spec.topology_group:
        yield missing("topology.group", "topologyGroupSize needs the node label of its groups", "topologyGroup")
    elif size and spec.workers % size:
        said = f"{spec.workers} workers do not divide into groups of {size}"
        yield wrong("topology.groupSize", size, f"a number that divides {spec.workers}", said)


def by_kind(spec: WorkloadSpec) -> Found:
    """Documents of an older form say `mpi` and are read as distributed ones; a typed spec says its kind itself."""
    if spec.mpi:
        yield wrong("mpi", "true", "kind DistributedWorkload with jobType MPI", "MPI needs workers")


def _processes(spec: WorkloadSpec) -> Found:
    if spec.framework and spec.framework != MPI:
        allowed = "jobType MPI, or leave it out"
        yield wrong("processes", spec.processes, allowed, "only MPI counts its ranks in processes")
        return
    slots = max(1, spec.slots_per_worker)
    room = spec.workers * slots
    if spec.workers and spec.processes > room:
        said = f"{spec.processes} processes do not fit {spec.workers} workers with {slots} slots each"
        yield wrong("processes", spec.processes, f"at most {room}", said)


def _elastic(spec: WorkloadSpec) -> Found:
    if spec.framework and spec.framework != PYTORCH:
        path, given = ("minReplicas", spec.min_replicas) if spec.min_replicas else ("maxReplicas", spec.max_replicas)
        yield wrong(path, given, "jobType PyTorch, or leave it out", "only a PyTorch gang can grow and shrink")
        return
    low = spec.min_replicas or spec.workers
    high = spec.max_replicas or spec.workers
    if low > spec.workers:
        yield wrong("minReplicas", low, f"at most {spec.workers}", f"it is more than the {spec.workers} workers")
    if high < spec.workers:
        yield wrong("maxReplicas", high, f"at least {spec.workers}", f"it is less than the {spec.workers} workers")


def trials(spec: WorkloadSpec) -> Found:
    """More trials at once than there are in all would leave places that nobody can take."""
    if spec.HasField("parallelism"):
        in_all = spec.completions if spec.HasField("completions") else 1
        if spec.parallelism > in_all:
            allowed = f"at most {in_all}, or more completions"
            yield wrong("parallelism", spec.parallelism, allowed, f"{spec.parallelism} at once, but {in_all} in all")
