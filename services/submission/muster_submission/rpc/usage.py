"""UsageService: GPU-seconds by workload, from telemetry's accounts as far as they have come in."""

from __future__ import annotations

from typing import Any

from muster.api.v1 import usage_pb2 as api
from muster.api.v1 import usage_pb2_grpc
from muster_submission.adapters.usage import PostgresUsage
from muster_submission.errors import BadQuestion


class Usage(usage_pb2_grpc.UsageServiceServicer):
    """The servicer."""

    def __init__(self, books: PostgresUsage) -> None:
        self._books = books

    async def GetUsage(self, request: api.GetUsageRequest, context: Any) -> api.GetUsageResponse:
        """The heaviest workloads, at most a thousand."""
        if "\x00" in request.project:
            raise BadQuestion("project holds a NUL character; no name has one")
        return api.GetUsageResponse(workloads=[_shown(row) for row in await self._books.heaviest(request.project)])


def _shown(row: Any) -> api.WorkloadUsage:
    shown = api.WorkloadUsage(
        workload_id=row["workload_id"], name=row["name"], project=row["project"], gpu_seconds=row["gpu_seconds"]
    )
    shown.until.FromDatetime(row["until"])
    return shown
