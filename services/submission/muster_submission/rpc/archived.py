"""ListArchivedWorkloads: pages of the archive, within what the caller may see.

Called by WorkloadsService. Holds: a page token belongs to its question; pages neither repeat nor skip what is there.
"""

from __future__ import annotations

from datetime import datetime

from muster.api.v1 import workloads_pb2 as api
from muster_chassis.moments import moment_of
from muster_kernel.ids import is_uuid
from muster_submission.adapters.archive import BEGINNING, END, Place, PostgresArchive, Wanted
from muster_submission.adapters.reading import Reading
from muster_submission.domain.access import Verb
from muster_submission.domain.cursors import page_token
from muster_submission.errors import BadQuestion
from muster_submission.handlers.access import Rights
from muster_submission.rpc.naming import name_others
from muster_submission.rpc.reading import page_of


class Archived:
    """Reads the archive."""

    def __init__(self, archive: PostgresArchive, reading: Reading) -> None:
        self._archive = archive
        self._reading = reading

    async def page(
        self, request: api.ListArchivedWorkloadsRequest, rights: Rights
    ) -> api.ListArchivedWorkloadsResponse:
        """A page. Raises BadQuestion."""
        scope = rights.projects(Verb.WORKLOADS_READ)
        wanted = _wanted(request, scope)
        asked = api.ListArchivedWorkloadsRequest()
        asked.CopyFrom(request)
        asked.ClearField("page_size")
        asked.ClearField("page_token")
        bound = asked.SerializeToString(deterministic=True)
        size, after = page_of(request.page_size, request.page_token, bound)
        found = await self._archive.page(wanted, size, _place(after))
        shown = [workload for workload, _ in found]
        await name_others(self._reading, shown, scope)
        token = page_token(_written(found[-1][1]), bound) if len(found) == size else ""
        return api.ListArchivedWorkloadsResponse(workloads=shown, next_page_token=token)


def _wanted(request: api.ListArchivedWorkloadsRequest, scope: frozenset[str] | None) -> Wanted:
    if "\x00" in request.project or "\x00" in request.name:
        raise BadQuestion("a filter holds a NUL character; no name has one")
    projects = scope
    if request.project:
        projects = frozenset({request.project}) & (scope if scope is not None else {request.project})
    since = moment_of(request.ended_since, "ended_since") if request.HasField("ended_since") else BEGINNING
    before = moment_of(request.ended_before, "ended_before") if request.HasField("ended_before") else END
    return Wanted(projects, request.name, since, before, request.include_deleted)


def _place(after: str) -> Place:
    if not after:
        return Place()
    moment, _, workload_id = after.partition(" ")
    try:
        place = Place(datetime.fromisoformat(moment), workload_id)
    except ValueError:
        raise BadQuestion("page_token is not one of this list: begin with an empty one") from None
    if place.ended_at.tzinfo is None or not is_uuid(workload_id):
        raise BadQuestion("page_token is not one of this list: begin with an empty one")
    return place


def _written(place: Place) -> str:
    return f"{place.ended_at.isoformat()} {place.id}"
