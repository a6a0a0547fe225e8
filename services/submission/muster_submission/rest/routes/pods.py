"""/api/v1/workloads/pods and /{workloadId}/pods: replicas as pods, those of all workloads or of one.

A replica stands in the last status of its workload, so a list of pods is a list of workloads that have some, newest
first. Holds: filters are about the workload; what would need every status to be read is not offered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from muster_submission.adapters.reading import Listed
from muster_submission.domain.fields import BY_NAME, ListField
from muster_submission.domain.listing import PAGE_LIMIT, Question, beyond, question
from muster_submission.domain.terms import Interval
from muster_submission.rest import list_shapes, org_shapes, queries, requests
from muster_submission.rest.answers import answer
from muster_submission.rest.operation import Answer, Operation, Parameter
from muster_submission.rest.parts import Parts
from muster_submission.rest.pod_rows import completed, pod
from muster_submission.rest.routes.lists import PATH, TAG, WORKLOAD_ID
from muster_submission.rest.seen import Seeing
from muster_submission.rest.workload_rows import Rows

_KNOWN_AS: Final = {
    "workloadId": "id",
    "workloadName": "name",
    "projectName": "projectName",
    "projectId": "projectId",
    "departmentId": "departmentId",
    "clusterId": "clusterId",
    "currentNodePool": "nodepool",
    "createdAt": "createdAt",
}
FIELDS: Final[Mapping[str, ListField]] = {
    name: replace(BY_NAME[field], name=name, sortable=name == "createdAt") for name, field in _KNOWN_AS.items()
}
FURTHEST: Final = 10_000
"""Workloads that are looked through for a page: each is read with its status."""
_ALL: Final = "all"


def operations(parts: Parts) -> list[Operation]:
    """What is served."""
    routes = Pods(parts)
    page = {200: Answer("A page of pods.", list_shapes.PODS)}
    more = [
        Parameter("verbosity", "Full adds names.", {"type": "string", "enum": ["brief", "full"], "default": "brief"}),
        Parameter(
            "completed",
            "Only those that have ended, or only the others.",
            {"type": "string", "enum": ["true", "false", "all", ""], "default": _ALL},
        ),
    ]
    own = [WORKLOAD_ID, *queries.stretch_parameters(), queries.count_parameters(FIELDS)[0]]
    return [
        Operation(
            "GET",
            f"{PATH}/pods",
            "list_pods",
            TAG,
            "Pods of all workloads, those of the newest first",
            routes.page,
            page,
            [*queries.parameters(FIELDS), *more],
        ),
        Operation(
            "GET",
            f"{PATH}/pods/count",
            "count_pods",
            TAG,
            "How many pods there are",
            routes.count,
            {200: Answer("The number.", org_shapes.COUNT)},
            queries.count_parameters(FIELDS),
        ),
        Operation(
            "GET", f"{PATH}/{{workloadId}}/pods", "get_workload_pods", TAG, "Pods of a workload", routes.own, page, own
        ),
    ]


class Pods:
    """The handlers."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._seeing = Seeing(parts)

    async def page(self, request: Request) -> Response:
        """Pods of every workload that passes."""
        wanted = requests.one_of(request, "completed", ["true", "false", _ALL, ""])
        full = requests.one_of(request, "verbosity", ["brief", "full"], "brief") == "full"
        directory = await self._seeing.directory(request)
        asked = queries.list_question(request, directory, await self._seeing.scope(), FIELDS)
        found: list[dict[str, Any]] = []
        rows, need, after, seen = await self._seeing.rows(directory), asked.need, "", 0
        stride = min(need, PAGE_LIMIT)
        while len(found) < need:
            if seen >= FURTHEST:
                said = f"pods of {FURTHEST} workloads were looked through: ask with a smaller offset, or filter"
                raise requests.bad("offset", said)
            some = await self._with_pods(asked, after, stride)
            found.extend(one for listed in some for one in _pods(rows, listed, wanted, full=full))
            if len(some) < stride:
                break
            after, seen = some[-1].workload.id, seen + stride
        limit = asked.limit - 1
        page = found[asked.offset : asked.offset + limit]
        return answer({"pods": page, **({"next": asked.offset + limit} if len(found) >= need else {})})

    async def count(self, request: Request) -> Response:
        """How many pods there are."""
        directory = await self._seeing.directory(request)
        asked = queries.count_question(request, directory, await self._seeing.scope(), FIELDS)
        return answer({"count": await self._parts.reading.lists.pods(asked)})

    async def own(self, request: Request) -> Response:
        """The pods of one workload."""
        offset, limit = queries.stretch(request)
        deleted = requests.flag(request, "deleted")
        listed = await self._seeing.listed(request)
        rows = await self._seeing.rows(await self._seeing.directory(request))
        found = _pods(rows, listed, _ALL, full=True) if deleted is (listed.deleted_at is not None) else []
        more = {"next": offset + limit} if len(found) > offset + limit else {}
        return answer({"pods": found[offset : offset + limit], **more})

    async def _with_pods(self, asked: Question, after: str, limit: int) -> list[Listed]:
        further = (beyond(asked.order, after),) if after else ()
        terms = (*asked.terms, *further, Interval("pods", 1, None))
        ids = await self._parts.reading.lists.ids(question(terms, asked.order, gone=asked.gone, limit=limit))
        return await self._parts.reading.listed(ids)


def _pods(rows: Rows, listed: Listed, wanted: str, *, full: bool) -> list[dict[str, Any]]:
    return [
        pod(rows, listed, one, full=full)
        for one in listed.workload.replicas
        if wanted in {"", _ALL} or completed(one) is (wanted == "true")
    ]
