"""What handlers need of the world: the books of workloads, tenancy and templates, and someone to wake.

Each has its real thing under `adapters/`. Everything that takes a Unit belongs to that transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from muster.tenancy.v1.tenancy_pb2 import Department, NodePool, Project
from muster.workload.v1.workload_pb2 import Workload, WorkloadSpec
from muster_chassis.connection import AnyConnection
from muster_chassis.unit import Unit
from muster_submission.domain.archiving import Month
from muster_submission.domain.progress import Progress


@dataclass(frozen=True, slots=True)
class Base:
    """A template as a layer: what a workload inherits from."""

    template_id: str
    version: int
    name: str
    project: str
    spec: WorkloadSpec


@dataclass(frozen=True, slots=True)
class NewWorkload:
    """One row to make. The bytes are serialised messages."""

    id: str
    project: str
    name: str
    kind: int
    desired: int
    spec: bytes
    base_spec: bytes | None
    template_id: str
    template_version: int
    owner: bytes
    origin: int
    caused_by: str
    asked_cluster: str
    submitted_by: str


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the change log: what happened to a workload and what it is after that.

    at: when it happened. other: the id of the workload that the text calls "another workload"; "" for none.
    """

    workload_id: str
    event: str
    text: str
    before: int
    after: Progress
    at: datetime
    other: str = ""


@dataclass(frozen=True, slots=True)
class Brought:
    """What a verdict brings beside progress: the effective spec, serialised, or the issues."""

    workload_id: str
    effective_spec: bytes | None
    issues: tuple[str, ...]


@dataclass(slots=True)
class Batch:
    """What one batch of events makes of the workloads: last values, change log, verdicts."""

    progress: dict[str, Progress] = field(default_factory=dict)
    status: dict[str, bytes] = field(default_factory=dict)
    pods: dict[str, int] = field(default_factory=dict)
    """How many replicas each status names."""
    lines: list[Line] = field(default_factory=list)
    brought: dict[str, Brought] = field(default_factory=dict)


class WorkloadBooks(Protocol):
    """The rows of workloads, within a transaction."""

    async def make(self, unit: Unit, rows: Sequence[NewWorkload]) -> frozenset[str]:
        """Makes the rows whose name is free and logs them. Returns their ids."""
        ...

    async def take_numbers(
        self, unit: Unit, demand: Iterable[tuple[str, str, int]]
    ) -> dict[tuple[str, str], Sequence[int]]:
        """Hands out numbers of name prefixes, which nobody else will get."""
        ...

    async def lock(self, unit: Unit, ids: Iterable[str]) -> dict[str, Progress]:
        """The progress of those that exist, locked until the transaction ends, always in one order."""
        ...

    async def keep(self, unit: Unit, batch: Batch) -> None:
        """Writes a batch back. Its rows are locked."""
        ...

    async def change_spec(self, unit: Unit, workload_id: str, generation: int, spec: bytes, base: Base | None) -> None:
        """Writes a new spec of a locked row and logs it."""
        ...

    async def show(self, unit: Unit, workload_id: str) -> Workload | None:
        """A workload as people see it; None where there is none."""
        ...


class Archive(Protocol):
    """What has been over for a while, by the month of its end."""

    async def show(self, unit: Unit, workload_id: str) -> Workload | None:
        """An archived workload as people see it; None where there is none."""
        ...

    async def known(self, unit: Unit, workload_ids: Iterable[str]) -> frozenset[str]:
        """Those of these that are archived."""
        ...

    async def delete(self, unit: Unit, workload_ids: Iterable[str]) -> None:
        """Makes archived workloads Deleted."""
        ...

    async def due(self, unit: Unit, before: datetime, at_most: int) -> dict[str, datetime]:
        """Some that were over before a moment, locked: id to when they ended."""
        ...

    async def move(self, unit: Unit, workload_ids: Sequence[str]) -> None:
        """Moves locked rows into the archive. The partitions are there."""
        ...

    async def delete_due(self, connection: AnyConnection, now: datetime, at_most: int) -> int:
        """Makes some Deleted whose time for that has come, as their specs say: the number."""
        ...

    async def oldest_due(self) -> datetime | None:
        """When that ended which has waited longest for its move."""
        ...

    async def partitions(self, connection: AnyConnection) -> list[Month]:
        """The months that the archive has a partition for."""
        ...

    async def make_partition(self, connection: AnyConnection, month: Month) -> None:
        """Makes the partition of a month."""
        ...

    async def drop_partition(self, connection: AnyConnection, month: Month) -> None:
        """Drops the partition of a month with all that is in it."""
        ...

    async def remove(self, connection: AnyConnection, before: datetime, at_most: int) -> int:
        """Removes some that ended before a moment: the number."""
        ...


class Tenancy(Protocol):
    """Departments and projects."""

    async def project(self, name: str) -> Project | None:
        """A project; answered from memory where it is known."""
        ...

    async def project_of_namespace(self, namespace: str) -> Project | None:
        """The project whose namespace it is."""
        ...

    async def some_names(self, unit: Unit | None = None) -> Sequence[str]:
        """A few names of projects, for an error message.

        Within a transaction `unit` is given: asking the pool for a second connection there could wait for ever.
        """
        ...

    async def department(self, unit: Unit, name: str) -> Department | None:
        """A department; it cannot be removed before the transaction has ended."""
        ...

    async def lock_department(self, unit: Unit, name: str) -> Department | None:
        """A department, locked until the transaction ends."""
        ...

    async def add_department(self, unit: Unit, department: Department) -> bool:
        """Makes a department and gives it its number and version; False where the name is taken."""
        ...

    async def save_department(self, unit: Unit, department: Department) -> None:
        """Writes a locked department."""
        ...

    async def remove_department(self, unit: Unit, department: Department) -> None:
        """Removes a locked department without projects."""
        ...

    async def projects_in(self, unit: Unit, department: str) -> Sequence[str]:
        """The first names of the projects in a department."""
        ...

    async def live_workloads(self, unit: Unit, project: str) -> int:
        """How many workloads of a project have not ended."""
        ...

    async def add_project(self, unit: Unit, project: Project) -> str:
        """Makes a project and gives it its number and version; returns '' or what is taken: name or namespace."""
        ...

    async def lock_project(self, unit: Unit, name: str) -> Project | None:
        """A project, locked until the transaction ends."""
        ...

    async def save_project(self, unit: Unit, project: Project) -> None:
        """Writes a locked project."""
        ...

    async def remove_project(self, unit: Unit, project: Project) -> Sequence[str]:
        """Removes a locked project with what belongs to it; returns the ids of the templates that went with it."""
        ...


class FleetBooks(Protocol):
    """Clusters that were noted, and node pools."""

    async def unknown(self, clusters: Iterable[str], pools: Iterable[tuple[str, str]]) -> bool:
        """Whether something of this has not been noted yet."""
        ...

    async def note(self, unit: Unit, clusters: Iterable[str], pools: Iterable[tuple[str, str]] = ()) -> list[NodePool]:
        """Notes clusters with their pool `default`, and pools (cluster, name); returns the new pools."""
        ...

    async def cluster_known(self, unit: Unit, name: str) -> bool:
        """Whether a cluster was noted."""
        ...

    async def add(self, unit: Unit, pool: NodePool) -> str:
        """Makes a node pool and gives it its number; returns '' or what is taken: name or label."""
        ...

    async def lock(self, unit: Unit, cluster: str, name: str) -> NodePool | None:
        """A node pool, locked until the transaction ends."""
        ...

    async def save(self, unit: Unit, pool: NodePool) -> bool:
        """Writes a locked pool; False where another pool of its cluster has the label."""
        ...

    async def remove(self, unit: Unit, pool: NodePool) -> None:
        """Removes a locked pool."""
        ...


class Templates(Protocol):
    """Templates as layers."""

    async def find(self, wanted: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Base]:
        """For each (project, name): the project's template, else the global one of that name."""
        ...

    async def current(self, unit: Unit, project: str, name: str) -> Base | None:
        """The template of exactly that project ('' is global), locked until the transaction ends."""
        ...

    async def save(self, unit: Unit, base: Base) -> Base:
        """Makes the template (project, name) or replaces its spec; the answer has its id and new version."""
        ...

    async def remove(self, unit: Unit, base: Base) -> None:
        """Removes a locked template."""
        ...


class Usage(Protocol):
    """What workloads have used."""

    async def keep(self, unit: Unit, accounts: Mapping[str, Account]) -> None:
        """Takes in accounts by workload id; an older one changes nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Account:
    """GPU-seconds of one workload up to a moment, since `begun` where telemetry says when this account began."""

    project: str
    name: str
    gpu_seconds: float
    until: datetime
    begun: datetime | None = None


class Reserve(Protocol):
    """What has to be left for something new to be accepted."""

    def check(self) -> None:
        """Raises DiskReserveSpent where it is not left."""
        ...


class Waker(Protocol):
    """Those who follow the change log, here and in other instances."""

    def poke(self) -> None:
        """There is something new."""
        ...
