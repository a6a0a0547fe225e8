"""What policy does with submissions: load, judge, record, tell. One call a batch, a handful of statements a call.

Called by the stream within the transaction of the batch, and by the release task.
Holds: a (workload, generation) is judged once, whatever comes twice; what cannot be judged yet waits in its own row and
holds up no other; a verdict that is committed after the answer to a write of policies was given by that write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from muster_chassis import logs, metrics
from muster_chassis.unit import Unit
from muster_language.spec import kind_of
from muster_policy.domain.memory import Memory
from muster_policy.domain.standing import Shelf, UnreadablePolicy
from muster_policy.errors import NotHeardYet
from muster_policy.handlers.standing import Loading
from muster_policy.ports import Books, Department, Herald, Judged, Project, Submission, Told
from muster_policy_engine.composing import Composed, without_rules_of
from muster_policy_engine.judging.judge import Context, Rejected
from muster_policy_engine.policy import Branch, Level

_log = logs.get(__name__)

AT_ONCE: Final = 500
VERDICTS: Final = metrics.counter(
    "muster_policy_verdicts_total",
    unit="verdicts",
    meaning="New verdicts on submissions, admitted or rejected.",
    action="None: it says how much is judged. Many rejections after a write: see `muster policies history`.",
    labels=["outcome"],
)
ISSUES: Final = metrics.counter(
    "muster_policy_issues_total",
    unit="issues",
    meaning="Issues of rejected submissions by the type of rule; `language` is what no policy has to say.",
    action="None: it says which rules users meet. A rule that suddenly refuses many may be wrong.",
    labels=["rule"],
)


@dataclass(slots=True)
class Batch:
    """What a poll brought, by what it means for policy."""

    departments: list[Department] = field(default_factory=list)
    projects: list[Project] = field(default_factory=list)
    submissions: list[Submission] = field(default_factory=list)
    deletions: list[str] = field(default_factory=list)


class Judging:
    """The work of the service."""

    def __init__(self, loading: Loading, books: Books, herald: Herald) -> None:
        self._loading = loading
        self._memory = Memory()
        self._books = books
        self._herald = herald

    async def on_batch(self, unit: Unit, batch: Batch) -> None:
        """Takes in tenancy first, then judges what came and what has waited for it."""
        due: list[Submission] = []
        if batch.departments:
            await self._books.change_departments(unit, batch.departments)
        if batch.projects:
            await self._books.change(unit, batch.projects)
            due = await self._books.take_due(unit, AT_ONCE)
            _carry_traces(unit, due)
        if due or batch.submissions:
            await self.judge(unit, [*due, *batch.submissions])
        if batch.deletions:
            await self._books.deleted(unit, batch.deletions)

    async def release(self, unit: Unit) -> bool:
        """Judges what waited and can be judged now. Two instances can miss each other's rows: this helps.

        Returns whether there may be more: a batch was full, and not all of it waits again.
        """
        due = await self._books.take_due(unit, AT_ONCE)
        if not due:
            return False
        _carry_traces(unit, due)
        return await self.judge(unit, due) > 0 and len(due) == AT_ONCE

    async def judge(self, unit: Unit, submissions: Sequence[Submission]) -> int:
        """Answers each submission: with its stored verdict, with a new one, or by letting it wait.

        Returns the number of verdicts.
        """
        wanted = {submission.key: submission for submission in submissions}
        known = await self._books.verdicts(unit, wanted)
        for given in known.values():
            self._herald.repeat(unit, given)
        new = [submission for key, submission in wanted.items() if key not in known]
        if not new:
            return len(known)
        shelf = await self._loading.shared(unit)
        projects = await self._books.projects(unit, {each.submitted.project for each in new})
        told: list[Told] = []
        waiting: list[Submission] = []
        for submission in new:
            project = projects.get(submission.submitted.project)
            judged = None
            if project is not None and project.has(submission.submitted.tenancy_version):
                judged = self._judged_or_waiting(submission, project, shelf)
            if judged is None:
                waiting.append(submission)
            else:
                told.append(self._herald.tell(unit, submission, judged))
                unit.after_commit(partial(_count, judged))
        if told:
            await self._books.record(unit, told)
        if waiting:
            await self._books.wait(unit, waiting)
        return len(known) + len(told)

    async def consider(self, unit: Unit, submissions: Sequence[Submission]) -> list[Judged]:
        """The verdicts about submissions that are not made; nothing is kept. Raises NotHeardYet, UnreadablePolicy."""
        shelf = await self._loading.seen(unit)
        projects = await self._books.projects(unit, {each.submitted.project for each in submissions})
        given: list[Judged] = []
        for submission in submissions:
            project = projects.get(submission.submitted.project)
            if project is None or not project.has(submission.submitted.tenancy_version):
                raise NotHeardYet(submission.submitted.project)
            given.append(self._judged(submission, project, shelf))
        return given

    def _judged_or_waiting(self, submission: Submission, project: Project, shelf: Shelf) -> Judged | None:
        """None: a policy of the branch cannot be read, so the submission waits until it can."""
        try:
            return self._judged(submission, project, shelf)
        except UnreadablePolicy as error:
            _log.error("a submission waits", workload=submission.key[0], why=str(error))
            return None

    def _judged(self, submission: Submission, project: Project, shelf: Shelf) -> Judged:
        submitted = submission.submitted
        base = submitted.base_spec if submitted.HasField("base_spec") else None
        context = Context(project.node_pools, rest=submission.by_rest, cluster=submitted.asked_cluster)
        kind = kind_of(submitted.spec)
        cluster = cluster_of(submission, project)
        branch = Branch(cluster, submitted.department or project.department, submitted.project)
        if kind is None:
            verdict, digest = self._memory.judge(submitted.spec, base, None, context)
            return Judged(verdict, None, shelf.revision, digest)
        composed = shelf.composed(kind, branch)
        others: dict[str, Composed] = {}
        if not submitted.asked_cluster:
            # Rules of a cluster refuse what asks for the cluster. Other work just does not run there.
            for each in shelf.clusters(kind):
                there = shelf.composed(kind, replace(branch, cluster=each))
                if there is not None:
                    others[each] = there
            if cluster in others and composed is not None:
                composed = without_rules_of(composed, Level.CLUSTER)
        verdict, digest = self._memory.judge(submitted.spec, base, composed, context, others)
        return Judged(verdict, composed, shelf.revision, digest)


def _count(judged: Judged) -> None:
    """Of what is committed: a batch that is redone counts once."""
    match judged.verdict:
        case Rejected(issues=issues):
            VERDICTS.labels("rejected").inc()
            for rule in {each.rule for each in issues}:
                ISSUES.labels(rule).inc()
        case _:
            VERDICTS.labels("admitted").inc()


def cluster_of(submission: Submission, project: Project) -> str:
    """The cluster whose policy gives the defaults: the asked one, the only one that is named, the project's home."""
    submitted = submission.submitted
    named = list(submitted.spec.clusters.values) or list(submitted.base_spec.clusters.values)
    return submitted.asked_cluster or (named[0] if len(named) == 1 else "") or project.home_cluster


def _carry_traces(unit: Unit, due: Sequence[Submission]) -> None:
    """What waited goes on in the trace of its own submission, not in that of the event that released it."""
    unit.traces = {**unit.traces, **{each.key[0]: each.traceparent for each in due if each.traceparent}}
