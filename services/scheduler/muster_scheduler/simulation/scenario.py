"""What a simulation is given, as plain values: a fleet, who may use how much, what comes when, and what breaks.

Made by reading.py (YAML) and traces.py (CSV), consumed by running.py. Times are microseconds since the start of the
simulation, amounts are those of the domain: milli-CPU, bytes, 1/7,000 GPU.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from muster_kernel.quantities import GPU, MILLI, UNITS_PER_MILLI
from muster_scheduler.domain.asked.quotas import Quota
from muster_scheduler.domain.asked.requests import Kind, Role, Shape, charge_of, total_charge
from muster_scheduler.domain.asked.terms import ANYWHERE, Terms
from muster_scheduler.domain.asked.workloads import SECOND, Request, WorkloadKind
from muster_scheduler.domain.books.pools import NodePool

GIB: Final = 1 << 30
DAY: Final = 86_400 * SECOND
LARGEST_NODE: Final = 16  # GPUs
MOST_GPUS: Final = 1_000_000
MOST_JOBS: Final = 2_000_000


class NodeGroup(NamedTuple):
    """Nodes of one shape in one node pool of one cluster; `cpu` milli-CPU, `memory` and `gpu_memory` bytes."""

    cluster: str
    pool: str
    name: str  # the nodes are called NAME-0, NAME-1 ..; a single one is called NAME
    nodes: int
    gpus: int
    model: str = "A100-80GB"
    gpu_memory: int = 80 * GIB
    cpu: int = 128_000
    memory: int = 1024 * GIB
    labels: tuple[tuple[str, str], ...] = ()


class Tenant(NamedTuple):
    """A project and what it deserves, by node pool. `rank`: who comes first in the surplus."""

    project: str
    department: str
    quotas: tuple[tuple[str, Quota], ...]
    rank: int = 0


class Unit(NamedTuple):
    """A department with what its projects deserve together, by node pool."""

    department: str
    quotas: tuple[tuple[str, Quota], ...]
    rank: int = 0


class Job(NamedTuple):
    """A workload that comes at `at` and has to run for `duration`. `fails_after`: into its first run; 0: never."""

    name: str
    project: str
    at: int
    duration: int
    request: Request
    fails_after: int = 0


class Outage(NamedTuple):
    """A node that is down from `at` until `until`; what runs on it is lost."""

    at: int
    until: int
    cluster: str
    node: str


class Change(NamedTuple):
    """A project whose quotas are others from `at` on."""

    at: int
    tenant: Tenant


class Pace(NamedTuple):
    """How the simulated world moves."""

    length: int = DAY
    cycle: int = 5 * SECOND  # what comes within one such interval is decided in one cycle at its end
    sample: int = 300 * SECOND
    start: int = 10 * SECOND  # from a placement until its replicas are ready
    stop: int = 5 * SECOND  # from a withdrawal until nothing is left
    checkpoint: int = 0  # work since the last multiple of it is lost when a run is interrupted; 0: all of the run


class Scenario(NamedTuple):
    """Everything."""

    name: str
    pace: Pace
    fleet: tuple[NodeGroup, ...]
    tenants: tuple[Tenant, ...]
    jobs: tuple[Job, ...]  # by time
    outages: tuple[Outage, ...] = ()
    changes: tuple[Change, ...] = ()
    departments: tuple[Unit, ...] = ()
    pools: tuple[NodePool, ...] = ()  # those that are filled otherwise than by packing

    @property
    def gpus(self) -> int:
        """How many GPUs the fleet has."""
        return gpus_of(self.fleet)


def gpus_of(fleet: tuple[NodeGroup, ...]) -> int:
    """How many GPUs these nodes have."""
    return sum(group.nodes * group.gpus for group in fleet)


class Ask(NamedTuple):
    """What one class of jobs asks for. `milli`: of each device, 1000 is a whole one."""

    replicas: int = 1
    gpus: int = 1
    milli: int = MILLI
    cpu: int = 0
    memory: int = 0
    priority: int = 50
    preemptible: bool = True
    pools: tuple[str, ...] = ("default",)
    retries: int = 6
    clusters: tuple[str, ...] = ()
    terms: Terms = ANYWHERE


def request_of(ask: Ask) -> Request:
    """The request that policy would have admitted."""
    shape = Shape(ask.cpu, ask.memory, *_devices(ask))
    return Request(
        generation=1,
        roles=(Role("worker", ask.replicas, shape, charge_of(shape)),),
        pools=ask.pools,
        clusters=tuple(sorted(ask.clusters)),
        fields=frozenset(),
        kind=WorkloadKind.DISTRIBUTED if ask.replicas > 1 else WorkloadKind.TRAINING,
        launcher_decides=False,
        priority=ask.priority,
        preemptible=ask.preemptible,
        backoff_limit=ask.retries,
        terminate_after_preemption=False,
        auto_deletion=None,
        max_scale=0,
        spec=b"",
        terms=ask.terms,
    )


def _devices(ask: Ask) -> tuple[Kind, int, int]:
    if not ask.gpus:
        return Kind.NONE, 0, 0
    if ask.milli == MILLI:
        return Kind.WHOLE, ask.gpus, 0
    return Kind.PORTION, ask.gpus, ask.milli


def units_of(request: Request) -> int:
    """What a job asks for in all, in 1/7,000 GPU."""
    return total_charge(request.roles)


def whole_gpus(units: int) -> float:
    """1/7,000 GPU as GPUs, exact to a thousandth."""
    return round(units / UNITS_PER_MILLI) / MILLI if units % GPU else units // GPU
