"""ExplainService, passed on to the scheduler, which decides. Names are looked up here: the scheduler goes by ids.

A question of what if goes to policy first, which says what the spec would be; what policy refuses the scheduler never
hears of. Holds: a workload that the caller may not see has no name in an answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from muster.api.v1 import explain_pb2 as api
from muster.api.v1 import explain_pb2_grpc, policies_pb2, policies_pb2_grpc
from muster.api.v1.workloads_pb2 import WorkloadRef
from muster_chassis import identity
from muster_chassis.rpc import caller
from muster_submission.adapters.owners import Owner
from muster_submission.adapters.reading import Reading
from muster_submission.domain.access import Verb
from muster_submission.handlers.access import Access, Rights
from muster_submission.handlers.asking import Asking
from muster_submission.handlers.submit import name_taken
from muster_submission.rpc.reading import find, owner

_STUB = explain_pb2_grpc.ExplainServiceStub


class Explain(explain_pb2_grpc.ExplainServiceServicer):
    """The servicer."""

    def __init__(self, access: Access, scheduler: Owner, policy: Owner, reading: Reading, asking: Asking) -> None:
        self._access = access
        self._scheduler = scheduler
        self._policy = policy
        self._reading = reading
        self._asking = asking

    async def Why(self, request: api.WhyRequest, context: Any) -> api.WhyResponse:
        """Why a workload waits or is as it is."""
        ref = WorkloadRef(id=request.workload_id, project=request.project, name=request.name)
        rights = await self._access.rights(caller())
        meant = await find(self._reading, ref, rights)
        asked = api.WhyRequest(workload_id=meant.id, project=meant.project, name=meant.name, readable=readable(rights))
        return await self._scheduler.ask(_STUB, "Why", asked, api.WhyResponse, context)

    async def WhatIf(self, request: api.WhatIfRequest, context: Any) -> api.WhatIfResponse:
        """What would become of drafts that the caller could submit."""
        rights = await self._access.rights(caller())
        asked_for = await self._asking.submitted(request.drafts, rights, owner(), identity.now())
        given = [(told.project, told.name) for told, named in asked_for if named]
        free(given, await self._reading.held(given))
        judged = await self._policy.ask(
            policies_pb2_grpc.PoliciesServiceStub,
            "JudgeWorkloads",
            policies_pb2.JudgeWorkloadsRequest(submitted=[each.told for each in asked_for]),
            policies_pb2.JudgeWorkloadsResponse,
            context,
        )
        admitted = [one.admitted for one in judged.judgements if one.HasField("admitted")]
        answer = api.WhatIfResponse()
        if admitted:
            asked = api.WhatIfRequest(admitted=admitted, readable=readable(rights))
            answer = await self._scheduler.ask(_STUB, "WhatIf", asked, api.WhatIfResponse, context)
        return whole(answer, judged.judgements, rights)


def free(names: Iterable[tuple[str, str]], held: Collection[tuple[str, str]]) -> None:
    """Raises NameTaken where a submission would: a name that a workload has, or that the same question gives twice."""
    seen: set[tuple[str, str]] = set()
    for project, name in names:
        if (project, name) in held or (project, name) in seen:
            raise name_taken(project, name).error()
        seen.add((project, name))


def readable(rights: Rights) -> api.Readable:
    """Whose workloads an answer may name to the caller."""
    projects = rights.projects(Verb.WORKLOADS_READ)
    departments = rights.departments(Verb.DEPARTMENTS_READ)
    return api.Readable(
        everything=projects is None and departments is None,
        projects=sorted(projects or ()),
        departments=sorted(departments or ()),
    )


def whole(
    answer: api.WhatIfResponse, judgements: Iterable[policies_pb2.Judgement], rights: Rights
) -> api.WhatIfResponse:
    """The scheduler's answer with what policy refused in its place, as far as the caller may see it."""
    tried = iter(answer.prospects)
    made = api.WhatIfResponse(unfinished=answer.unfinished)
    places: list[int] = []  # of what was tried, among all that was asked about
    for place, judgement in enumerate(judgements, 1):
        if judgement.HasField("admitted"):
            prospect = next(tried)
            prospect.warnings.extend(judgement.admitted.warnings)
            places.append(place)
            made.prospects.append(prospect)
        else:
            made.prospects.append(_refused(judgement))
    made.displaced.extend(_displaced(one, places, rights) for one in answer.displaced)
    return made


def _displaced(one: api.Displaced, places: list[int], rights: Rights) -> api.Displaced:
    """Who would give a place up; of one that the caller may not see neither its name nor what it holds."""
    told = api.Displaced(by=places[one.by - 1] if one.by else 0, moves=one.moves)
    if rights.allows(Verb.WORKLOADS_READ, project=one.project):
        told.workload_id, told.name, told.project = one.workload_id, one.name, one.project
        told.gpu_charge, told.replicas_given_up, told.replicas = one.gpu_charge, one.replicas_given_up, one.replicas
    return told


def _refused(judgement: policies_pb2.Judgement) -> api.Prospect:
    verdict = judgement.rejected
    return api.Prospect(
        name=verdict.name,
        project=verdict.project,
        outlook=api.OUTLOOK_REFUSED,
        issues=verdict.issues,
        warnings=verdict.warnings,
    )
