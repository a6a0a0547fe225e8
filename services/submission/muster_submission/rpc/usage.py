"""UsageService: GPU-seconds by workload, from telemetry's accounts as far as they have come in."""

from __future__ import annotations

from typing import Any

from muster.api.v1 import usage_pb2 as api
from muster.api.v1 import usage_pb2_grpc
from muster_chassis.rpc import caller
from muster_submission.adapters.usage import PostgresUsage
from muster_submission.domain.access import Verb
from muster_submission.errors import BadQuestion
from muster_submission.handlers.access import Access


class Usage(usage_pb2_grpc.UsageServiceServicer):
    """The servicer."""

    def __init__(self, access: Access, books: PostgresUsage) -> None:
        self._access = access
        self._books = books

    async def GetUsage(self, request: api.GetUsageRequest, context: Any) -> api.GetUsageResponse:
        """The heaviest workloads, at most a thousand."""
        if "\x00" in request.project:
            raise BadQuestion("project holds a NUL character; no name has one")
        rights = await self._access.rights(caller())
        if request.project:
            rights.require(Verb.WORKLOADS_READ, project=request.project)
        found = await self._books.heaviest(request.project, rights.projects(Verb.WORKLOADS_READ))
        return api.GetUsageResponse(workloads=[_shown(row) for row in found])


def _shown(row: Any) -> api.WorkloadUsage:
    shown = api.WorkloadUsage(
        workload_id=row["workload_id"], name=row["name"], project=row["project"], gpu_seconds=row["gpu_seconds"]
    )
    shown.until.FromDatetime(row["until"])
    return shown
