"""What the handlers need of the world: verdicts and tenancy that policy keeps, the store of policies, the bus.

The real ones are under `adapters/`. Everything takes the Unit of the transaction in which it happens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from muster.events.v1.submission_pb2 import WorkloadSubmitted
from muster.workload.v1.workload_pb2 import ORIGIN_REST
from muster_chassis.unit import Unit
from muster_policy.domain.standing import Row
from muster_policy_engine.composing import Composed
from muster_policy_engine.judging.judge import Verdict

Key = tuple[str, int]
"""A workload's id and the generation of its spec."""


@dataclass(frozen=True, slots=True)
class Project:
    """Policy's copy of a project. `gone`: it was deleted, and no newer version will come."""

    name: str
    version: int
    node_pools: tuple[str, ...]
    gone: bool = False
    id: int = 0
    department: str = ""
    home_cluster: str = ""
    namespace: str = ""

    def has(self, version: int) -> bool:
        """Whether this copy is at least as new as `version`."""
        return self.gone or self.version >= version


@dataclass(frozen=True, slots=True)
class Department:
    """Policy's copy of a department."""

    name: str
    version: int
    id: int = 0
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Submission:
    """One generation of a workload that wants a verdict."""

    submitted: WorkloadSubmitted
    traceparent: str | None = None

    @property
    def key(self) -> Key:
        """What the verdict is kept under."""
        return self.submitted.workload_id, self.submitted.generation

    @property
    def by_rest(self) -> bool:
        """Whether it came by REST, whose defaults of scaling differ."""
        return self.submitted.origin == ORIGIN_REST


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict and what it was given by. revision: of all policies. digest: of everything that it depends on."""

    verdict: Verdict
    composed: Composed | None
    revision: int
    digest: str


@dataclass(frozen=True, slots=True)
class Told:
    """A verdict as it was published: the message's type and bytes."""

    key: Key
    type: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Directory:
    """The projects and departments that there are, by name."""

    projects: Mapping[str, Project]
    departments: Mapping[str, Department]

    def namespaces(self) -> dict[str, str]:
        """The project of each namespace, as documents of v1 name it."""
        return {each.namespace: each.name for each in self.projects.values() if each.namespace}


@dataclass(frozen=True, slots=True)
class Written:
    """One version of a policy, as it is written. row: as the policy stands then."""

    row: Row
    author: str
    channel: str
    reason: str


class PolicyStore(Protocol):
    """The policies and their versions.

    A batch of verdicts shares the store; a write has it alone. So a verdict that is committed after the answer to a
    write was given by that write or a later one. Both queue in the order in which they came: neither starves.
    """

    async def share(self, unit: Unit) -> int:
        """Keeps writes out until the unit ends. Returns the revision."""
        ...

    async def take(self, unit: Unit) -> int:
        """Keeps all others out until the unit ends. Returns the revision."""
        ...

    async def revision(self, unit: Unit) -> int:
        """The revision, without a promise that it stays."""
        ...

    async def newer(self, unit: Unit, revision: int) -> list[Row]:
        """The rows of later revisions, those of removed policies included."""
        ...

    async def write(self, unit: Unit, revision: int, written: Sequence[Written]) -> None:
        """Writes versions of policies under the next revision."""
        ...

    async def versions(self, unit: Unit, policy: str) -> list[Written]:
        """Every version of a policy, the newest first; none where there is no such policy."""
        ...


class Books(Protocol):
    """Verdicts, projects and what waits, in one transaction."""

    async def verdicts(self, unit: Unit, keys: Iterable[Key]) -> Mapping[Key, Told]:
        """The verdicts that were given before."""
        ...

    async def record(self, unit: Unit, told: Sequence[Told]) -> None:
        """Keeps new verdicts."""
        ...

    async def projects(self, unit: Unit, names: Iterable[str]) -> Mapping[str, Project]:
        """The copies of the projects that are known."""
        ...

    async def change(self, unit: Unit, projects: Sequence[Project]) -> None:
        """Takes newer versions of projects; an older one changes nothing."""
        ...

    async def change_departments(self, unit: Unit, departments: Sequence[Department]) -> None:
        """Takes newer versions of departments; an older one changes nothing."""
        ...

    async def tenancy(self, unit: Unit) -> Directory:
        """All projects and departments that there are."""
        ...

    async def wait(self, unit: Unit, submissions: Sequence[Submission]) -> None:
        """Keeps submissions until the copy of their project is new enough."""
        ...

    async def take_due(self, unit: Unit, limit: int) -> list[Submission]:
        """Takes out submissions whose project is new enough now, the oldest first."""
        ...

    async def deleted(self, unit: Unit, workloads: Sequence[str]) -> None:
        """Notes that somebody wants these workloads gone: nothing of them waits any longer."""
        ...


class Herald(Protocol):
    """Tells the others."""

    def tell(self, unit: Unit, submission: Submission, judged: Judged) -> Told:
        """Publishes a verdict and says what was published."""
        ...

    def repeat(self, unit: Unit, told: Told) -> None:
        """Publishes a verdict once more as it was."""
        ...
