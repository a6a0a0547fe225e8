"""The way in for programs: one object that speaks to one control plane.

    async with Muster("127.0.0.1:7700") as muster:
        workload = await muster.submit(document, project="team-a")
        done = await muster.wait(workload.id, timeout=600)

Holds: every mutation carries an idempotency key, made here unless the caller brings one; every call has a deadline;
answers are the messages of muster.*.v1 themselves, so that nothing has to be kept in step with them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Self

from muster.api.v1 import (
    explain_pb2,
    explain_pb2_grpc,
    usage_pb2,
    usage_pb2_grpc,
    workloads_pb2,
    workloads_pb2_grpc,
)
from muster.events.v1 import scheduler_pb2
from muster.workload.v1 import workload_pb2
from muster_client.access import Access, Applications
from muster_client.address import find_application, find_server, find_token
from muster_client.calls import CHANNEL_OPTIONS, Calls, OnRetry, Patience, new_key
from muster_client.drafts import OUTCOMES, Applied, Draft, draft_of, filter_of, reference_of
from muster_client.errors import MusterError, Violation, error_of_code, violation_of
from muster_client.login import Login
from muster_client.organisation import Departments, NodePools, Projects
from muster_client.pages import pages
from muster_client.phases import Phase
from muster_client.policies import Policies
from muster_client.resources import Clusters, DeadLetters, Nodes, Quarantine, Templates
from muster_client.tls import open_channel
from muster_client.triggers import Triggers
from muster_client.watching import Watcher, WatchItem, until
from muster_client.words import TERMINAL

LONGEST_VERDICT: Final = 5.0
_LARGEST_PAGE: Final = 500


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a replica's log, without its end."""

    replica: str
    text: str


class Muster:
    """A client of one control plane.

    server: host:port, or https://host:port for TLS, whose authorities are those in the file MUSTER_SERVER_CA, else the
    system's; left out: MUSTER_SERVER, else the stack on this machine. token: a bearer token; left out: MUSTER_TOKEN,
    else one for the application in the file MUSTER_APPLICATION, else for that of this machine's stack, where it asks
    for tokens. patience: deadlines in seconds. on_retry: hears of each failed attempt that is followed by another.
    Raises Unavailable where no address is known, InvalidInput for unusable authorities. Use it as `async with`; every
    method raises a MusterError.
    """

    def __init__(
        self,
        server: str | None = None,
        token: str | None = None,
        *,
        patience: Patience | None = None,
        on_retry: OnRetry | None = None,
    ) -> None:
        self.server = find_server(server)
        self._channel = open_channel(self.server, CHANNEL_OPTIONS)
        login = Login(self._channel, find_token(token, self.server), find_application(server))
        self._calls = Calls(self.server, login, patience or Patience(), on_retry)
        self._workloads = workloads_pb2_grpc.WorkloadsServiceStub(self._channel)
        self._watcher = Watcher(self._calls, self._workloads)
        self.projects = Projects(self._calls, self._channel)
        self.departments = Departments(self._calls, self._channel)
        self.node_pools = NodePools(self._calls, self._channel)
        self.templates = Templates(self._calls, self._channel)
        self.policies = Policies(self._calls, self._channel)
        self.triggers = Triggers(self._calls, self._channel)
        self.clusters = Clusters(self._calls, self._channel)
        self.nodes = Nodes(self._calls, self._channel)
        self.quarantine = Quarantine(self._calls, self._channel)
        self.dead_letters = DeadLetters(self._calls, self._channel)
        self.access = Access(self._calls, self._channel)
        self.applications = Applications(self._calls, self._channel)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends every call and stream of this client."""
        await self._channel.close()

    async def submit(
        self, draft: Draft, *, project: str = "", cluster: str = "", verdict: float = 0.0, key: str | None = None
    ) -> workload_pb2.Workload:
        """Hands one workload in and answers with it as acknowledged.

        project: where the document's namespace does not say it. cluster: the only one it may run in.
        verdict: seconds, at most 5, for which the answer waits for policy. key: to repeat an earlier submission.
        Raises InvalidInput with every violation, AlreadyExists where the name is taken, NotFound for project or
        template.
        """
        request = workloads_pb2.SubmitWorkloadRequest(
            draft=draft_of(draft, project, cluster),
            idempotency_key=key or new_key(),
            wait_for_verdict_ms=int(min(max(verdict, 0.0), LONGEST_VERDICT) * 1000),
        )
        attempt = self._calls.patience.attempt + verdict
        return (await self._calls.unary(self._workloads.SubmitWorkload, request, attempt=attempt)).workload

    async def apply(
        self, draft: Draft, *, project: str = "", cluster: str = "", verdict: float = 0.0, key: str | None = None
    ) -> Applied:
        """Makes the workload of a document as it says, known by its project, kind and metadata.name.

        Applied twice it is one workload; a changed spec changes a running service where every field allows it.
        Raises what `submit` raises, and NotNow naming the fields that cannot change.
        """
        request = workloads_pb2.ApplyWorkloadRequest(
            draft=draft_of(draft, project, cluster),
            idempotency_key=key or new_key(),
            wait_for_verdict_ms=int(min(max(verdict, 0.0), LONGEST_VERDICT) * 1000),
        )
        attempt = self._calls.patience.attempt + verdict
        answer = await self._calls.unary(self._workloads.ApplyWorkload, request, attempt=attempt)
        return Applied(answer.workload, OUTCOMES.get(answer.outcome, str(answer.outcome)))

    async def submit_many(
        self, drafts: Iterable[Draft], *, project: str = "", key: str | None = None
    ) -> list[str | MusterError]:
        """Hands in up to 1,000 workloads in one transaction.

        Answers for each, in order, with its id or why it was refused.
        """
        request = workloads_pb2.SubmitWorkloadsRequest(
            drafts=[draft_of(each, project) for each in drafts], idempotency_key=key or new_key()
        )
        answer = await self._calls.unary(self._workloads.SubmitWorkloads, request)
        return [_outcome(each) for each in answer.outcomes]

    async def validate(self, draft: Draft, *, project: str = "") -> list[Violation]:
        """Every error of a draft, without making anything; empty where it is valid."""
        request = workloads_pb2.ValidateWorkloadRequest(draft=draft_of(draft, project))
        answer = await self._calls.unary(self._workloads.ValidateWorkload, request)
        return [violation_of(each) for each in answer.violations]

    async def get(self, workload: str, *, project: str = "") -> workload_pb2.Workload:
        """One workload by id, or by name within its project. Raises NotFound."""
        return (await self._get(workload, project)).workload

    async def get_yaml(self, workload: str, *, project: str = "") -> str:
        """Its spec as a document of the language."""
        return (await self._get(workload, project)).yaml

    def list(
        self,
        *,
        project: str = "",
        phases: Sequence[Phase] = (),
        name_prefix: str = "",
        include_deleted: bool = False,
        page_size: int = 200,
    ) -> AsyncIterator[workload_pb2.Workload]:
        """Workloads, newest first; pages are fetched as they are needed."""
        wanted = filter_of(project, phases, name_prefix, include_deleted=include_deleted)

        async def page(token: str) -> tuple[Sequence[workload_pb2.Workload], str]:
            request = workloads_pb2.ListWorkloadsRequest(filter=wanted, page_size=page_size, page_token=token)
            answer = await self._calls.unary(self._workloads.ListWorkloads, request)
            return answer.workloads, answer.next_page_token

        return pages(page)

    def archived(
        self,
        *,
        project: str = "",
        name: str = "",
        since: datetime | None = None,
        before: datetime | None = None,
        include_deleted: bool = False,
        page_size: int = 200,
    ) -> AsyncIterator[workload_pb2.Workload]:
        """Workloads that have been over for so long that lists have them no more; what ended last comes first.

        since, before: when they ended; a time without a zone is local. Pages are fetched as they are needed.
        """
        request = workloads_pb2.ListArchivedWorkloadsRequest(
            project=project, name=name, include_deleted=include_deleted, page_size=page_size
        )
        if since is not None:
            request.ended_since.FromDatetime(since.astimezone(UTC))
        if before is not None:
            request.ended_before.FromDatetime(before.astimezone(UTC))

        async def page(token: str) -> tuple[Sequence[workload_pb2.Workload], str]:
            request.page_token = token
            answer = await self._calls.unary(self._workloads.ListArchivedWorkloads, request)
            return answer.workloads, answer.next_page_token

        return pages(page)

    def events(
        self, workload: str, *, project: str = "", page_size: int = 200
    ) -> AsyncIterator[workloads_pb2.WorkloadEvent]:
        """What happened to a workload, newest first, its acknowledgement last; pages are fetched as they are needed."""
        meant = reference_of(workload, project)

        async def page(token: str) -> tuple[Sequence[workloads_pb2.WorkloadEvent], str]:
            request = workloads_pb2.ListWorkloadEventsRequest(
                workload=meant, page_size=min(page_size, _LARGEST_PAGE), page_token=token
            )
            answer = await self._calls.unary(self._workloads.ListWorkloadEvents, request)
            return answer.events, answer.next_page_token

        return pages(page)

    def watch(
        self, *, project: str = "", workload: str | None = None, phases: Sequence[Phase] = (), cursor: str = ""
    ) -> AsyncIterator[WatchItem]:
        """Workloads as they are, then every change, for ever.

        A broken connection is mended by going on after the last item; raises CursorTooOld only for the `cursor` given
        here.
        """
        reference = reference_of(workload, project) if workload else None
        return self._watcher.items(filter_of(project, phases), reference, cursor)

    async def wait(
        self,
        workload: str,
        *,
        project: str = "",
        phases: Iterable[Phase] = TERMINAL,
        timeout: float | None = None,
    ) -> workload_pb2.Workload:
        """The workload once it is in one of `phases`, or in a final phase, which nothing follows.

        timeout: seconds; WaitTimedOut afterwards. Raises NotFound where there is no such workload.
        """
        items = self._watcher.items(
            filter_of(project, (), include_deleted=True), reference_of(workload, project), cursor=""
        )
        return await until(items, frozenset(phases), workload, timeout)

    async def logs(
        self,
        workload: str,
        *,
        project: str = "",
        replica: str = "",
        follow: bool = False,
        tail: int = 0,
        since: datetime | None = None,
    ) -> AsyncIterator[workloads_pb2.StreamLogsResponse]:
        """Pieces of the log of a workload's replicas, in bytes; with `follow` until the workload ends.

        tail: at most so many of the last lines of each to begin with. since: only what was written since then, to the
        second, in whole lines; a time without a zone is local.
        """
        request = workloads_pb2.StreamLogsRequest(
            workload=reference_of(workload, project), replica=replica, follow=follow, tail_lines=tail
        )
        if since is not None:
            request.since.FromDatetime(since.astimezone(UTC))
        async for piece in self._calls.stream(self._workloads.StreamLogs, request):
            yield piece

    async def log_lines(
        self,
        workload: str,
        *,
        project: str = "",
        replica: str = "",
        follow: bool = False,
        tail: int = 0,
        since: datetime | None = None,
    ) -> AsyncIterator[LogLine]:
        """The log as lines of text, each with its replica; bytes that are no UTF-8 are replaced by U+FFFD.

        A line comes once it has its end, or once the log has ended.
        """
        begun: dict[str, bytes] = {}
        async for piece in self.logs(workload, project=project, replica=replica, follow=follow, tail=tail, since=since):
            *whole, begun[piece.replica] = (begun.get(piece.replica, b"") + piece.data).split(b"\n")
            for line in whole:
                yield LogLine(piece.replica, line.decode(errors="replace"))
        for name, rest in begun.items():
            if rest:
                yield LogLine(name, rest.decode(errors="replace"))

    async def suspend(self, workload: str, *, project: str = "", key: str | None = None) -> workload_pb2.Workload:
        """Asks that it stops and keeps its place in the books. Raises NotNow where it has ended."""
        request = workloads_pb2.SuspendWorkloadRequest(
            workload=reference_of(workload, project), idempotency_key=key or new_key()
        )
        return (await self._calls.unary(self._workloads.SuspendWorkload, request)).workload

    async def resume(self, workload: str, *, project: str = "", key: str | None = None) -> workload_pb2.Workload:
        """Asks that a suspended workload runs again. Raises NotNow where it has ended."""
        request = workloads_pb2.ResumeWorkloadRequest(
            workload=reference_of(workload, project), idempotency_key=key or new_key()
        )
        return (await self._calls.unary(self._workloads.ResumeWorkload, request)).workload

    async def delete(self, workload: str, *, project: str = "", key: str | None = None) -> workload_pb2.Workload:
        """Asks that it goes away."""
        request = workloads_pb2.DeleteWorkloadRequest(
            workload=reference_of(workload, project), idempotency_key=key or new_key()
        )
        return (await self._calls.unary(self._workloads.DeleteWorkload, request)).workload

    async def why(self, workload: str, *, project: str = "") -> scheduler_pb2.Explanation:
        """Why it waits, runs with fewer replicas than it would have, or is as it is, from the state of this moment."""
        stub = explain_pb2_grpc.ExplainServiceStub(self._channel)
        at = reference_of(workload, project)
        request = explain_pb2.WhyRequest(workload_id=at.id, project=at.project, name=at.name)
        return (await self._calls.unary(stub.Why, request)).explanation

    async def what_if(self, drafts: Sequence[workloads_pb2.WorkloadDraft]) -> explain_pb2.WhatIfResponse:
        """What would become of 1 to 100 workloads if they were submitted now, in this order; nothing is made.

        `drafts.draft_of` makes a draft of a document or a spec. Raises what `submit` raises; what policy refuses is
        part of the answer.
        """
        stub = explain_pb2_grpc.ExplainServiceStub(self._channel)
        return await self._calls.unary(stub.WhatIf, explain_pb2.WhatIfRequest(drafts=drafts))

    async def usage(self, *, project: str = "") -> Sequence[usage_pb2.WorkloadUsage]:
        """GPU-seconds by workload, the heaviest first."""
        stub = usage_pb2_grpc.UsageServiceStub(self._channel)
        return (await self._calls.unary(stub.GetUsage, usage_pb2.GetUsageRequest(project=project))).workloads

    async def _get(self, workload: str, project: str) -> workloads_pb2.GetWorkloadResponse:
        request = workloads_pb2.GetWorkloadRequest(workload=reference_of(workload, project))
        return await self._calls.unary(self._workloads.GetWorkload, request)


def _outcome(outcome: workloads_pb2.SubmitOutcome) -> str | MusterError:
    if outcome.code == 0:
        return outcome.workload_id
    return error_of_code(outcome.code, outcome.message, map(violation_of, outcome.violations))
