"""/api/v1/workloads: workloads of every kind as a list, their number, one of them, and one action on many."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from muster_chassis.errors import ServiceError, Violation
from muster_chassis.rpc import caller
from muster_chassis.text import clean
from muster_chassis.unit import Unit
from muster_kernel.ids import is_uuid
from muster_submission.domain.access import Verb
from muster_submission.domain.requests import Request as Wish
from muster_submission.errors import NoSuchWorkload
from muster_submission.rest import list_shapes, org_shapes, queries
from muster_submission.rest.answers import JSON, answer, status_of
from muster_submission.rest.bodies import read_object
from muster_submission.rest.errors import BadBody
from muster_submission.rest.operation import Answer, Body, Operation, path_id
from muster_submission.rest.parts import Parts
from muster_submission.rest.row_reading import RowReading
from muster_submission.rest.seen import Seeing

PATH: Final = "/api/v1/workloads"
TAG: Final = "Workloads"
WORKLOAD_ID: Final = path_id("workloadId", "The workload's id.")
MOST: Final = 100
"""Workloads in one batch."""
_WISHES: Final = {"delete": Wish.DELETE, "suspend": Wish.SUSPEND, "resume": Wish.RESUME}
_VERBS: Final = {
    Wish.DELETE: Verb.WORKLOADS_DELETE,
    Wish.SUSPEND: Verb.WORKLOADS_CHANGE,
    Wish.RESUME: Verb.WORKLOADS_CHANGE,
}


def operations(parts: Parts) -> list[Operation]:
    """What is served."""
    routes = Lists(parts)
    rows = {200: Answer("A page of workloads.", list_shapes.ROWS)}
    number = {200: Answer("The number.", org_shapes.COUNT)}
    one = {200: Answer("The workload.", list_shapes.ROW)}
    batched = {200: Answer("What became of each.", list_shapes.BATCHED)}
    return [
        Operation("GET", PATH, "get_workloads", TAG, "Workloads", routes.page, rows, queries.parameters()),
        Operation(
            "GET",
            f"{PATH}/count",
            "count_workloads",
            TAG,
            "How many workloads there are",
            routes.count,
            number,
            queries.count_parameters(),
        ),
        Operation("GET", f"{PATH}/{{workloadId}}", "get_workload", TAG, "One workload", routes.get, one, [WORKLOAD_ID]),
        Operation(
            "POST",
            f"{PATH}/batch",
            "batch_workloads",
            TAG,
            "Delete, suspend or resume many",
            routes.batch,
            batched,
            body=Body(list_shapes.BATCH),
            since="muster",
        ),
    ]


class Lists:
    """The handlers."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._seeing = Seeing(parts)
        self._rows = RowReading(parts.database.pool)

    async def page(self, request: Request) -> Response:
        """A page of workloads."""
        directory = await self._seeing.directory(request)
        asked = queries.list_question(request, directory, await self._seeing.scope())
        ids = await self._parts.reading.lists.ids(asked)
        limit = asked.limit - 1
        rows = await self._rows.rows(ids[:limit], await self._seeing.rows(directory))
        more = b',"next":%d' % (asked.offset + limit) if len(ids) > limit else b""
        return Response(b'{"workloads":[' + b",".join(rows) + b"]" + more + b"}", media_type=JSON)

    async def count(self, request: Request) -> Response:
        """How many workloads pass."""
        directory = await self._seeing.directory(request)
        asked = queries.count_question(request, directory, await self._seeing.scope())
        return answer({"count": await self._parts.reading.lists.count(asked)})

    async def get(self, request: Request) -> Response:
        """One workload of any kind."""
        shown = await self._seeing.one(request)
        rows = await self._rows.rows([shown.id], await self._seeing.rows(await self._seeing.directory(request)))
        if not rows:
            raise NoSuchWorkload(f"workload {shown.id} does not exist any more")
        return Response(rows[0], media_type=JSON)

    async def batch(self, request: Request) -> Response:
        """One action on many: each by itself, all that can be done in one transaction."""
        wish, ids = _batch(await read_object(request))
        rights = await self._seeing.rights()
        known = await self._parts.reading.by_ids(ids)
        by = clean(caller().subject, 500)

        async def ask(unit: Unit, workload_id: str) -> dict[str, Any]:
            absent = NoSuchWorkload(f"workload {workload_id} does not exist")
            try:
                if workload_id not in known:
                    raise absent
                rights.require(_VERBS[wish], project=known[workload_id].project, absent=absent)
                await self._parts.intents.ask(unit, wish, workload_id, by)
            except ServiceError as error:
                return {"id": workload_id, "code": status_of(error), "message": error.message}
            return {"id": workload_id, "code": 202, "message": "Request has been accepted."}

        async with self._parts.database.unit() as unit:
            results = [await ask(unit, workload_id) for workload_id in ids]
        return answer({"results": results})


def _batch(body: dict[str, Any]) -> tuple[Wish, list[str]]:
    problems = [Violation(name, "batch has no such member") for name in body if name not in {"action", "ids"}]
    wish = _WISHES.get(action) if isinstance(action := body.get("action"), str) else None
    if wish is None:
        problems.append(Violation("action", f"it is one of {', '.join(_WISHES)}"))
    ids = body.get("ids")
    if not isinstance(ids, list) or not 1 <= len(ids) <= MOST:
        problems.append(Violation("ids", f"an array of 1 to {MOST} workload ids is expected"))
    elif not all(isinstance(one, str) and is_uuid(one) for one in ids):
        problems.append(Violation("ids", "each is a UUID in lower case"))
    elif len(set(ids)) < len(ids):
        problems.append(Violation("ids", "an id stands twice"))
    if problems or wish is None or not isinstance(ids, list):
        said = "; ".join(f"{one.field}: {one.description}" for one in problems)
        raise BadBody(f"the batch is refused: {said}", violations=problems)
    return wish, ids
