"""What policy does with what comes in: load, judge, record, tell. One call a batch, a handful of statements a call.

Called by the stream within the transaction of the batch, and by the release task.
Holds: a (workload, generation) is judged once, whatever comes twice; what cannot be judged yet waits in its own row and
holds up nobody else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from muster_chassis.unit import Unit
from muster_policy.domain.bench import Bench
from muster_policy_engine.judging.judge import Context, Verdict
from muster_policy.errors import NotHeardYet
from muster_policy.ports import Books, Herald, Project, Submission, Told

AT_ONCE: Final = 500


@dataclass(slots=True)
class Batch:
    """What a poll brought, by what it means for policy."""

    projects: list[Project] = field(default_factory=list)
    submissions: list[Submission] = field(default_factory=list)
    deletions: list[str] = field(default_factory=list)


class Handlers:
    """The work of the service."""

    def __init__(self, bench: Bench, books: Books, herald: Herald) -> None:
        self._bench = bench
        self._books = books
        self._herald = herald

    async def on_batch(self, unit: Unit, batch: Batch) -> None:
        """Takes in tenancy first, then judges what came and what has waited for it."""
        due: list[Submission] = []
        if batch.projects:
            await self._books.change(unit, batch.projects)
            due = await self._books.take_due(unit, AT_ONCE)
            _carry_traces(unit, due)
        if due or batch.submissions:
            await self.judge(unit, [*due, *batch.submissions])
        if batch.deletions:
            await self._books.deleted(unit, batch.deletions)

    async def release(self, unit: Unit) -> int:
        """Judges what waited and can be judged now; how many. Two instances can miss each other's rows: this helps."""
        due = await self._books.take_due(unit, AT_ONCE)
        if due:
            _carry_traces(unit, due)
            await self.judge(unit, due)
        return len(due)

    async def judge(self, unit: Unit, submissions: Sequence[Submission]) -> None:
        """Answers each submission: with its stored verdict, with a new one, or by letting it wait."""
        wanted = {submission.key: submission for submission in submissions}
        known = await self._books.verdicts(unit, wanted)
        for given in known.values():
            self._herald.repeat(unit, given)
        new = [submission for key, submission in wanted.items() if key not in known]
        if not new:
            return
        projects = await self._books.projects(unit, {each.submitted.project for each in new})
        told: list[Told] = []
        waiting: list[Submission] = []
        for submission in new:
            project = projects.get(submission.submitted.project)
            if project is not None and project.has(submission.submitted.tenancy_version):
                told.append(self._verdict(unit, submission, project))
            else:
                waiting.append(submission)
        if told:
            await self._books.record(unit, told)
        if waiting:
            await self._books.wait(unit, waiting)

    async def consider(self, unit: Unit, submissions: Sequence[Submission]) -> list[tuple[Verdict, str]]:
        """The verdicts about submissions that nobody made, with their digests; nothing is kept. Raises NotHeardYet."""
        projects = await self._books.projects(unit, {each.submitted.project for each in submissions})
        given: list[tuple[Verdict, str]] = []
        for submission in submissions:
            project = projects.get(submission.submitted.project)
            if project is None or not project.has(submission.submitted.tenancy_version):
                raise NotHeardYet(submission.submitted.project)
            given.append(self._judge(submission, project))
        return given

    def _verdict(self, unit: Unit, submission: Submission, project: Project) -> Told:
        verdict, digest = self._judge(submission, project)
        return self._herald.tell(unit, submission, verdict, self._bench.policy, digest)

    def _judge(self, submission: Submission, project: Project) -> tuple[Verdict, str]:
        submitted = submission.submitted
        base = submitted.base_spec if submitted.HasField("base_spec") else None
        context = Context(project.node_pools, rest=submission.by_rest, cluster=submitted.asked_cluster)
        return self._bench.judge(submitted.spec, base, context)


def _carry_traces(unit: Unit, due: Sequence[Submission]) -> None:
    """What waited goes on in the trace of its own submission, not in that of the event that released it."""
    unit.traces = {**unit.traces, **{each.key[0]: each.traceparent for each in due if each.traceparent}}
