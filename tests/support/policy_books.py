"""Policy's books and herald in memory: the fake of its ports, held equal to PostgreSQL by one contract suite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from muster.events.v1.submission_pb2 import WorkloadSubmitted
from muster_chassis.unit import Unit
from muster_policy_engine.judging.judge import Verdict
from muster_policy_engine.policy import Policy
from muster_policy.ports import Key, Project, Submission, Told


@dataclass
class NoUnit:
    """A unit for handlers that write into memory."""

    traces: Mapping[str, str] = field(default_factory=dict)


def no_unit() -> Unit:
    """A unit that nothing is written through."""
    return cast("Unit", NoUnit())


@dataclass
class MemoryBooks:
    """The books as dictionaries."""

    told: dict[Key, Told] = field(default_factory=dict)
    known: dict[str, Project] = field(default_factory=dict)
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
                self.known[project.name] = Project(old.name, old.version, old.node_pools, gone=True)
            elif old is None or old.gone or project.version >= old.version:
                self.known[project.name] = project

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
class MemoryHerald:
    """Verdicts in the order in which they were told, with `again` for repeated ones."""

    said: list[tuple[Key, Any]] = field(default_factory=list)
    again: list[Key] = field(default_factory=list)

    def tell(self, unit: Unit, submission: Submission, verdict: Verdict, policy: Policy, digest: str) -> Told:
        self.said.append((submission.key, verdict))
        return Told(submission.key, type(verdict).__name__, digest.encode())

    def repeat(self, unit: Unit, told: Told) -> None:
        self.again.append(told.key)


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
