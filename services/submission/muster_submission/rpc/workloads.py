"""WorkloadsService: submit, show, steer. Watching, logs and applying have files of their own, which this one mounts."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import grpc

from muster.api.v1 import workloads_pb2 as api
from muster.api.v1 import workloads_pb2_grpc
from muster.workload.v1 import workload_pb2 as wl
from muster_chassis import tracing
from muster_chassis.database import Database
from muster_chassis.errors import ServiceError
from muster_chassis.rpc import Together, caller, once, remaining
from muster_chassis.text import clean
from muster_chassis.unit import Unit
from muster_kernel.ids import is_uuid
from muster_language import write
from muster_submission.adapters.peers import Call
from muster_submission.adapters.reading import Reading
from muster_submission.adapters.verdicts import Verdicts
from muster_submission.domain.access import Verb
from muster_submission.domain.cursors import page_token
from muster_submission.domain.problems import Problem
from muster_submission.domain.requests import Request
from muster_submission.errors import BadQuestion
from muster_submission.handlers.access import Access, Rights
from muster_submission.handlers.drafts import Checked, Drafts, Refusal
from muster_submission.handlers.intents import Intents
from muster_submission.handlers.submit import Acknowledged, Order, Submit
from muster_submission.rpc.applying import Applying, creating
from muster_submission.rpc.archived import Archived
from muster_submission.rpc.happenings import Happenings
from muster_submission.rpc.judging import judged
from muster_submission.rpc.logs import LogReading
from muster_submission.rpc.naming import name_others
from muster_submission.rpc.reading import filter_of, find, owner, page_of
from muster_submission.rpc.watch import Watching

MOST: Final = 1000
"""Drafts in one bulk call."""
_LONGEST_WAIT: Final = 5000  # milliseconds for policy's verdict
Answer = TypeVar("Answer", api.SuspendWorkloadResponse, api.ResumeWorkloadResponse, api.DeleteWorkloadResponse)


@dataclass(frozen=True, slots=True)
class Mounted:
    """The methods that have files of their own."""

    watching: Watching
    logs: LogReading
    applying: Applying
    happenings: Happenings
    archived: Archived


class Workloads(workloads_pb2_grpc.WorkloadsServiceServicer):
    """The servicer."""

    def __init__(
        self,
        database: Database,
        access: Access,
        reading: Reading,
        drafts: Drafts,
        submit: Submit,
        intents: Intents,
        verdicts: Verdicts,
        mounted: Mounted,
    ) -> None:
        self._database = database
        self._access = access
        self._reading = reading
        self._drafts = drafts
        self._submit = submit
        self.together: Together[Order, api.SubmitWorkloadResponse] = Together(
            database, "SubmitWorkload", api.SubmitWorkloadResponse, self._make
        )
        """Single submissions that come at once share a transaction; its task is the composition root's."""
        self._intents = intents
        self._verdicts = verdicts
        self._watching = mounted.watching
        self._logs = mounted.logs
        self._applying = mounted.applying
        self._happenings = mounted.happenings
        self._archived = mounted.archived

    async def SubmitWorkload(self, request: api.SubmitWorkloadRequest, context: Any) -> api.SubmitWorkloadResponse:
        """Acknowledges a workload, and waits for policy's verdict as long as the caller wants."""
        _check_wait(request.wait_for_verdict_ms)
        # Checked outside of the transaction: what is looked up for it must not hold one connection and ask for another.
        (checked,) = await self._drafts.check([request.draft], await self._rights())
        if isinstance(checked, Refusal):
            raise checked.error()
        order = Order(checked, owner(), caller(), trace=tracing.current())
        response = await self.together.once(request, order, key=request.idempotency_key)
        if request.wait_for_verdict_ms:
            seconds = remaining(context, request.wait_for_verdict_ms / 1000)
            return api.SubmitWorkloadResponse(workload=await self._judged(response.workload, seconds))
        return response

    async def _make(self, unit: Unit, orders: Sequence[Order]) -> Sequence[api.SubmitWorkloadResponse | ServiceError]:
        """What single calls that came at once ask for."""
        answers = await self._submit.make_together(unit, orders)
        return [
            answer.error()
            if isinstance(answer, Refusal)
            else api.SubmitWorkloadResponse(workload=creating(unit, answer, order.draft, order.owner))
            for order, answer in zip(orders, answers, strict=True)
        ]

    async def ApplyWorkload(self, request: api.ApplyWorkloadRequest, context: Any) -> api.ApplyWorkloadResponse:
        """Makes, changes or keeps the workload of a document; waits for policy's verdict on a new or changed one."""
        _check_wait(request.wait_for_verdict_ms)
        answer = await self._applying.apply(request)
        if answer.outcome != api.APPLY_OUTCOME_UNCHANGED and request.wait_for_verdict_ms:
            seconds = remaining(context, request.wait_for_verdict_ms / 1000)
            answer.workload.CopyFrom(await self._judged(answer.workload, seconds))
        return answer

    async def _rights(self) -> Rights:
        return await self._access.rights(caller())

    async def _judged(self, made: wl.Workload, seconds: float) -> wl.Workload:
        return (await judged(self._reading, self._verdicts, made, seconds))[0]

    async def SubmitWorkloads(self, request: api.SubmitWorkloadsRequest, context: Any) -> api.SubmitWorkloadsResponse:
        """Acknowledges up to 1,000 workloads in one transaction, with an answer for each."""
        count = len(request.drafts)
        if count > MOST:
            raise BadQuestion(f"{count} drafts in one call; at most {MOST} are allowed: send the rest in another call")

        checked = await self._drafts.check(request.drafts, await self._rights())
        good = [one for one in checked if isinstance(one, Checked)]

        async def work(unit: Unit) -> api.SubmitWorkloadsResponse:
            answers = iter(await self._submit.make(unit, good, owner()))
            return api.SubmitWorkloadsResponse(
                outcomes=[_outcome(next(answers) if isinstance(one, Checked) else one) for one in checked]
            )

        response = await once(self._database, "SubmitWorkloads", request, api.SubmitWorkloadsResponse, work)
        # An answer that is replayed must not show what the caller has lost the right to since.
        for outcome, one in zip(response.outcomes, checked, strict=True):
            if isinstance(one, Refusal):
                outcome.CopyFrom(_outcome(one))
        return response

    async def GetWorkload(self, request: api.GetWorkloadRequest, context: Any) -> api.GetWorkloadResponse:
        """One workload, with its spec as a document."""
        rights = await self._rights()
        shown = await find(self._reading, request.workload, rights)
        await self._happenings.add_attempts(shown, rights)
        namespace = await self._drafts.namespace(shown.project)
        document = write(shown.spec, namespace=namespace, metadata_name=shown.name)
        return api.GetWorkloadResponse(workload=shown, yaml=document)

    async def ListWorkloads(self, request: api.ListWorkloadsRequest, context: Any) -> api.ListWorkloadsResponse:
        """Workloads, newest first."""
        wanted = await filter_of(self._reading, request.filter, await self._rights())
        size, after = page_of(request.page_size, request.page_token, wanted.canonical())
        if after and not is_uuid(after):
            raise BadQuestion("page_token is not one of this list: begin with an empty one")
        page = await self._reading.page(wanted, size, after)
        await name_others(self._reading, page.workloads, wanted.scope)
        token = page_token(page.last, wanted.canonical()) if page.full else ""
        return api.ListWorkloadsResponse(workloads=page.workloads, next_page_token=token, cursor=str(page.head))

    async def ListArchivedWorkloads(
        self, request: api.ListArchivedWorkloadsRequest, context: Any
    ) -> api.ListArchivedWorkloadsResponse:
        """Workloads that have been over for long; what ended last comes first."""
        return await self._archived.page(request, await self._rights())

    async def ListWorkloadEvents(
        self, request: api.ListWorkloadEventsRequest, context: Any
    ) -> api.ListWorkloadEventsResponse:
        """What happened to a workload, newest first."""
        return await self._happenings.page(request, await self._rights())

    def WatchWorkloads(
        self, request: api.WatchWorkloadsRequest, context: Any
    ) -> AsyncGenerator[api.WatchWorkloadsResponse]:
        """Workloads as they are, then every change."""
        return self._watching.watch(request, self._rights)

    def StreamLogs(self, request: api.StreamLogsRequest, context: Any) -> AsyncGenerator[api.StreamLogsResponse]:
        """The log of a workload's replicas."""
        return self._logs.read(request, self._rights, Call.of(context))

    async def SuspendWorkload(self, request: api.SuspendWorkloadRequest, context: Any) -> api.SuspendWorkloadResponse:
        """Asks that a workload is suspended."""
        return await self._ask(Request.SUSPEND, request, api.SuspendWorkloadResponse)

    async def ResumeWorkload(self, request: api.ResumeWorkloadRequest, context: Any) -> api.ResumeWorkloadResponse:
        """Asks that a suspended workload runs again."""
        return await self._ask(Request.RESUME, request, api.ResumeWorkloadResponse)

    async def DeleteWorkload(self, request: api.DeleteWorkloadRequest, context: Any) -> api.DeleteWorkloadResponse:
        """Asks that a workload goes away."""
        return await self._ask(Request.DELETE, request, api.DeleteWorkloadResponse)

    async def _ask(self, wish: Request, request: Any, response: type[Answer]) -> Answer:
        verb = Verb.WORKLOADS_DELETE if wish is Request.DELETE else Verb.WORKLOADS_CHANGE
        workload_id = (await find(self._reading, request.workload, await self._rights(), verb)).id

        async def work(unit: Unit) -> Answer:
            shown = await self._intents.ask(unit, wish, workload_id, clean(caller().subject, 500))
            return response(workload=shown)

        return await once(self._database, f"{wish.capitalize()}Workload", request, response, work)

    async def UpdateWorkload(self, request: api.UpdateWorkloadRequest, context: Any) -> api.UpdateWorkloadResponse:
        """Changes the spec of a running inference service."""
        rights = await self._rights()
        known = await find(self._reading, request.workload, rights, Verb.WORKLOADS_CHANGE)
        (checked,) = await self._drafts.check([_named(request.draft, known)], rights, Verb.WORKLOADS_CHANGE)
        if isinstance(checked, Refusal):
            raise checked.error()

        async def work(unit: Unit) -> api.UpdateWorkloadResponse:
            shown = await self._intents.change(unit, known.id, checked, owner())
            return api.UpdateWorkloadResponse(workload=shown)

        return await once(self._database, "UpdateWorkload", request, api.UpdateWorkloadResponse, work)

    async def ValidateWorkload(
        self, request: api.ValidateWorkloadRequest, context: Any
    ) -> api.ValidateWorkloadResponse:
        """Every error of a document, without making anything."""
        (checked,) = await self._drafts.check([request.draft], await self._rights(), Verb.PROJECTS_READ)
        if isinstance(checked, Checked):
            return api.ValidateWorkloadResponse()
        problems = checked.problems or (Problem("project", checked.message),)
        return api.ValidateWorkloadResponse(violations=[_violation(one) for one in problems])


def _named(draft: api.WorkloadDraft, known: wl.Workload) -> api.WorkloadDraft:
    """The draft of a change; one that names neither project nor workload means those that it changes."""
    named = api.WorkloadDraft()
    named.CopyFrom(draft)
    if not named.project and named.WhichOneof("form") == "spec":
        named.project = known.project
    if named.WhichOneof("form") == "spec" and not named.spec.name and not named.spec.name_prefix:
        named.spec.name = known.name
    return named


def _check_wait(milliseconds: int) -> None:
    if milliseconds > _LONGEST_WAIT:
        raise BadQuestion(f"wait_for_verdict_ms is {milliseconds}; 0 to {_LONGEST_WAIT} are allowed")


def _outcome(answer: Acknowledged | Refusal) -> api.SubmitOutcome:
    if isinstance(answer, Acknowledged):
        return api.SubmitOutcome(workload_id=answer.id, name=answer.name)
    return api.SubmitOutcome(
        code=_number(answer.code), message=answer.message, violations=[_violation(one) for one in answer.problems]
    )


def _number(code: grpc.StatusCode) -> int:
    return int(code.value[0])


def _violation(problem: Problem) -> api.Violation:
    return api.Violation(path=problem.path, message=problem.message, line=problem.line, column=problem.column)
