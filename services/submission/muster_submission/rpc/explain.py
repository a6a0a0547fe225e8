"""ExplainService, passed on to the scheduler, which decides. The name is looked up here: the scheduler goes by ids."""

from __future__ import annotations

from typing import Any

from muster.api.v1 import explain_pb2 as api
from muster.api.v1 import explain_pb2_grpc
from muster.api.v1.workloads_pb2 import WorkloadRef
from muster_chassis.rpc import caller
from muster_submission.adapters.owners import Owner
from muster_submission.adapters.reading import Reading
from muster_submission.handlers.access import Access
from muster_submission.rpc.reading import find


class Explain(explain_pb2_grpc.ExplainServiceServicer):
    """The servicer."""

    def __init__(self, access: Access, scheduler: Owner, reading: Reading) -> None:
        self._access = access
        self._scheduler = scheduler
        self._reading = reading

    async def Why(self, request: api.WhyRequest, context: Any) -> api.WhyResponse:
        """Why a workload waits or is as it is."""
        ref = WorkloadRef(id=request.workload_id, project=request.project, name=request.name)
        meant = await find(self._reading, ref, await self._access.rights(caller()))
        asked = api.WhyRequest(workload_id=meant.id, project=meant.project, name=meant.name)
        return await self._scheduler.ask(explain_pb2_grpc.ExplainServiceStub, "Why", asked, api.WhyResponse, context)
