"""/api/v1/workloads/{workloadId}/events and /history: what happened to a workload, newest first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from muster.workload.v1 import workload_pb2 as wl
from muster_submission.adapters.reading import Happened
from muster_submission.rest import happenings, list_shapes, queries
from muster_submission.rest.answers import answer
from muster_submission.rest.operation import Answer, Operation
from muster_submission.rest.parts import Parts
from muster_submission.rest.routes.lists import PATH, TAG, WORKLOAD_ID
from muster_submission.rest.seen import Seeing
from muster_submission.rest.workload_rows import Rows

_PARAMETERS: Final = [WORKLOAD_ID, *queries.stretch_parameters()]
Form = Callable[[Rows, wl.Workload, Happened], dict[str, Any]]


def operations(parts: Parts) -> list[Operation]:
    """What is served."""
    routes = Histories(parts)
    at = f"{PATH}/{{workloadId}}"
    return [
        Operation(
            "GET",
            f"{at}/events",
            "get_workload_events",
            TAG,
            "What happened to a workload, as events",
            routes.events,
            {200: Answer("A page of events.", list_shapes.EVENTS)},
            _PARAMETERS,
        ),
        Operation(
            "GET",
            f"{at}/history",
            "get_workload_history",
            TAG,
            "A workload's phases and events",
            routes.history,
            {200: Answer("A page of records.", list_shapes.RECORDS)},
            _PARAMETERS,
        ),
    ]


class Histories:
    """The handlers."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._seeing = Seeing(parts)

    async def events(self, request: Request) -> Response:
        """Events."""
        return await self._page(request, "events", happenings.event)

    async def history(self, request: Request) -> Response:
        """Changes of phase and events."""
        return await self._page(request, "records", happenings.record)

    async def _page(self, request: Request, member: str, form: Form) -> Response:
        shown = await self._seeing.one(request)
        offset, limit = queries.stretch(request)
        rows = await self._seeing.rows(await self._seeing.directory(request))
        found = await self._parts.reading.history(shown.id, offset, limit + 1)
        # The beginning comes last, behind all that is stored; where nothing more is stored, this page may have room.
        if len(found) <= limit and (found or await self._ends_at(shown.id, offset)):
            found = [*found, happenings.beginning(shown)]
        told: dict[str, Any] = {member: [form(rows, shown, one) for one in found[:limit]]}
        return answer(told | ({"next": offset + limit} if len(found) > limit else {}))

    async def _ends_at(self, workload_id: str, offset: int) -> bool:
        """Whether exactly so many entries are stored."""
        return offset == 0 or bool(await self._parts.reading.history(workload_id, offset - 1, 1))
