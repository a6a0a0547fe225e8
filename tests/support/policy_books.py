"""Policy's ports in memory: books, the store of policies, the herald; contract suites hold them equal to PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from muster.events.v1.submission_pb2 import WorkloadSubmitted
from muster_chassis.unit import Unit
from muster_policy.domain.standing import Row, Shelf
from muster_policy.handlers.judging import Judging
from muster_policy.handlers.standing import Loading
from muster_policy.handlers.writing import Writing
from muster_policy.ports import Department, Directory, Judged, Key, Project, Submission, Told, Written


@dataclass
class NoUnit:
    """A unit for handlers that write into memory."""

    traces: Mapping[str, str] = field(default_factory=dict)

    def after_commit(self, action: Callable[[], None]) -> None:
        action()


def no_unit() -> Unit:
    """A unit that nothing is written through."""
    return cast("Unit", NoUnit())


@dataclass
class MemoryBooks:
    """The books as dictionaries."""

    told: dict[Key, Told] = field(default_factory=dict)
    known: dict[str, Project] = field(default_factory=dict)
    departments: dict[str, Department] = field(default_factory=dict)
    waiting: dict[Key, Submission] = field(default_factory=dict)

    async def verdicts(self, unit: Unit, keys: Iterable[Key]) -> Mapping[Key, Told]:
        return {key: self.told[key] for key in keys if key in self.told}

    async def record(self, unit: Unit, told: Sequence[Told]) -> None:
        self.told.update((each.key, each) for each in told)

    async def projects(self, unit: Unit, names: Iterable[str]) -> Mapping[str, Project]:
        return {name: self.known[name] for name in names if name in self.known}

    async def change(self, unit: Unit, projects: Sequence[Project]) -> None:
        for project in projects:
            old = self.known.get(project.name)
            if project.gone and old is not None:
                self.known[project.name] = replace(old, gone=True)
            elif old is None or old.gone or project.version >= old.version:
                self.known[project.name] = project

    async def change_departments(self, unit: Unit, departments: Sequence[Department]) -> None:
        for department in departments:
            old = self.departments.get(department.name)
            if department.gone and old is not None:
                self.departments[department.name] = replace(old, gone=True)
            elif old is None or old.gone or department.version >= old.version:
                self.departments[department.name] = department

    async def tenancy(self, unit: Unit) -> Directory:
        return Directory(
            {name: each for name, each in self.known.items() if not each.gone},
            {name: each for name, each in self.departments.items() if not each.gone},
        )

    async def wait(self, unit: Unit, submissions: Sequence[Submission]) -> None:
        for submission in submissions:
            self.waiting.setdefault(submission.key, submission)

    async def take_due(self, unit: Unit, limit: int) -> list[Submission]:
        due = [each for each in self.waiting.values() if self._is_due(each)][:limit]
        for submission in due:
            del self.waiting[submission.key]
        return due

    async def deleted(self, unit: Unit, workloads: Sequence[str]) -> None:
        for key in [key for key in self.waiting if key[0] in workloads]:
            del self.waiting[key]

    def _is_due(self, submission: Submission) -> bool:
        project = self.known.get(submission.submitted.project)
        return project is not None and project.has(submission.submitted.tenancy_version)


@dataclass
class MemoryPolicies:
    """The store of policies as dictionaries; units are one after the other, so that nothing has to be locked."""

    number: int = 0
    rows: dict[str, Row] = field(default_factory=dict)
    history: list[Written] = field(default_factory=list)

    async def share(self, unit: Unit) -> int:
        return self.number

    async def take(self, unit: Unit) -> int:
        return self.number

    async def revision(self, unit: Unit) -> int:
        return self.number

    async def newer(self, unit: Unit, revision: int) -> list[Row]:
        found = [each for each in self.rows.values() if each.revision > revision]
        return sorted(found, key=lambda each: each.revision)

    async def write(self, unit: Unit, revision: int, written: Sequence[Written]) -> None:
        self.number = revision
        self.rows.update((each.row.id, each.row) for each in written)
        self.history.extend(written)

    async def versions(self, unit: Unit, policy: str) -> list[Written]:
        found = [each for each in self.history if each.row.id == policy]
        return sorted(found, key=lambda each: -each.row.version)


@dataclass
class MemoryHerald:
    """Verdicts in the order in which they were told, with `again` for repeated ones."""

    said: list[tuple[Key, Any]] = field(default_factory=list)
    judged: dict[Key, Judged] = field(default_factory=dict)
    again: list[Key] = field(default_factory=list)

    def tell(self, unit: Unit, submission: Submission, judged: Judged) -> Told:
        self.said.append((submission.key, judged.verdict))
        self.judged[submission.key] = judged
        return Told(submission.key, type(judged.verdict).__name__, judged.digest.encode())

    def repeat(self, unit: Unit, told: Told) -> None:
        self.again.append(told.key)


@dataclass
class MemoryService:
    """The handlers of policy over ports in memory."""

    books: MemoryBooks = field(default_factory=MemoryBooks)
    store: MemoryPolicies = field(default_factory=MemoryPolicies)
    herald: MemoryHerald = field(default_factory=MemoryHerald)

    def __post_init__(self) -> None:
        self.loading = Loading(Shelf(), self.store)
        self.judging = Judging(self.loading, self.books, self.herald)
        self.writing = Writing(self.loading, self.store, self.books)


def submission(
    number: int = 1,
    *,
    generation: int = 1,
    project: str = "team-a",
    needs: int = 1,
    trace: str | None = None,
    **spec: Any,
) -> Submission:
    """The submission of workload `number`: a training that runs `true` unless `spec` says otherwise."""
    submitted = WorkloadSubmitted(
        workload_id=f"00000000-0000-7000-8000-{number:012d}",
        generation=generation,
        name=f"w-{number}",
        project=project,
        tenancy_version=needs,
    )
    submitted.spec.kind = spec.pop("kind", 2)
    submitted.spec.name = f"w-{number}"
    for name, value in {"command": "true", **spec}.items():
        setattr(submitted.spec, name, value)
    return Submission(submitted, trace)
