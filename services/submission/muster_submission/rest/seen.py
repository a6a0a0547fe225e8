"""What the routes of lists need of a request: who may see what, the directory of the moment, one workload by its id.

Called by the routes about all kinds of workloads. Holds: a workload beyond the caller's scope is answered like one that
does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from muster.api.v1 import workloads_pb2 as api
from muster.workload.v1 import workload_pb2 as wl
from muster_chassis.rpc import caller
from muster_chassis.text import clean
from muster_kernel.ids import is_uuid
from muster_submission.adapters.places import Directory
from muster_submission.adapters.reading import Listed
from muster_submission.domain.access import Verb
from muster_submission.errors import NoSuchWorkload
from muster_submission.handlers.access import Rights
from muster_submission.rest.parts import Parts
from muster_submission.rest.workload_rows import Rows
from muster_submission.rpc.reading import find


@dataclass(frozen=True, slots=True)
class Seeing:
    """The questions of one process."""

    parts: Parts

    async def rights(self) -> Rights:
        """What the caller may do."""
        return await self.parts.access.rights(caller())

    async def scope(self) -> frozenset[str] | None:
        """The projects whose workloads the caller may see; None is all."""
        return (await self.rights()).projects(Verb.WORKLOADS_READ)

    async def directory(self, request: Request) -> Directory:
        """The directory; clusters are looked up only where a filter or an order may name one."""
        asked = [*request.query_params.getlist("filterBy"), request.query_params.get("sortBy", "")]
        named = any("clusterid" in one.lower() for one in asked)  # sortBy is read in any case of its letters
        return await self.parts.reading.directory.now(clusters=named)

    async def rows(self, directory: Directory) -> Rows:
        """A writer of rows for the caller."""
        return Rows(self.parts.tenant_id, directory, await self.scope())

    async def one(self, request: Request) -> wl.Workload:
        """The workload in the path. Raises NoSuchWorkload."""
        workload_id = request.path_params["workloadId"]
        if not is_uuid(workload_id):
            raise NoSuchWorkload(f"workload {clean(workload_id, 80)!r} does not exist: its id would be a UUID")
        return await find(self.parts.reading, api.WorkloadRef(id=workload_id), await self.rights())

    async def listed(self, request: Request) -> Listed:
        """The workload in the path with what lists show. Raises NoSuchWorkload."""
        shown = await self.one(request)
        found = await self.parts.reading.listed([shown.id])
        if not found:
            raise NoSuchWorkload(f"workload {shown.id} does not exist any more")
        return found[0]
