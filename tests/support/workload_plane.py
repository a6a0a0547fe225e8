"""The workloads of a test's control plane: submitted, applied, watched, granted what is asked of them at once.

Mounted by control_plane. Holds: a lazy world takes a request and lets nothing come of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

from google.rpc import code_pb2

from muster.api.v1 import workloads_pb2, workloads_pb2_grpc
from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from tests.support.plane_world import Failure, PlaneService, error_status


class WorkloadsPlane(PlaneService, workloads_pb2_grpc.WorkloadsServiceServicer):
    def _find(self, reference: workloads_pb2.WorkloadRef) -> workload_pb2.Workload | None:
        if reference.id:
            return self._world.workloads.get(reference.id)
        found = [each for each in self._world.workloads.values() if each.name == reference.name]
        return next((each for each in found if each.project == reference.project), None)

    async def _found(self, reference: workloads_pb2.WorkloadRef, context: Any) -> workload_pb2.Workload:
        workload = self._find(reference)
        if workload is None:
            failure = Failure(code_pb2.NOT_FOUND, f"workload {reference.name or reference.id}: there is none")
            await context.abort_with_status(error_status(failure))
            raise AssertionError
        return workload

    async def _grant(
        self, method: str, request: Any, context: Any, phase: workload_pb2.Phase.ValueType, answer: type[Any]
    ) -> Any:
        """What is asked of a workload comes true at once, unless the world is lazy."""

        async def act(asked: Any, asked_context: Any) -> Any:
            found = await self._found(asked.workload, asked_context)
            if not self._world.lazy:
                found.phase = phase
            return answer(workload=found)

        return await self._do(method, request, context, act)

    async def SubmitWorkload(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, _: Any) -> Any:
            name = next((line.split()[-1] for line in asked.draft.yaml.splitlines() if "name:" in line), "typed")
            project = asked.draft.project or "team-a"
            made = self._world.add(name.strip("{}"), project=project, phase=workload_pb2.PHASE_PENDING)
            if "InteractiveWorkload" in asked.draft.yaml:
                made.spec.kind = options_pb2.KIND_WORKSPACE
            return workloads_pb2.SubmitWorkloadResponse(workload=made)

        return await self._do("SubmitWorkload", request, context, act)

    async def ApplyWorkload(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, _: Any) -> Any:
            name = next(
                line.split("name:")[1].split(",")[0].strip(" {}")
                for line in asked.draft.yaml.splitlines()
                if "name:" in line
            )
            known = next((each for each in self._world.workloads.values() if each.name == name), None)
            outcome = workloads_pb2.APPLY_OUTCOME_UNCHANGED if known else workloads_pb2.APPLY_OUTCOME_CREATED
            made = known or self._world.add(name, project=asked.draft.project or "team-a")
            return workloads_pb2.ApplyWorkloadResponse(workload=made, outcome=outcome)

        return await self._do("ApplyWorkload", request, context, act)

    async def SubmitWorkloads(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, _: Any) -> Any:
            violation = workloads_pb2.Violation(path="spec.gpu", message="too much", line=3, column=1)
            refused = workloads_pb2.SubmitOutcome(code=3, message="invalid", violations=[violation])
            good = [workloads_pb2.SubmitOutcome(workload_id=self._world.add("many").id) for _ in asked.drafts[1:]]
            return workloads_pb2.SubmitWorkloadsResponse(outcomes=[*good, refused])

        return await self._do("SubmitWorkloads", request, context, act)

    async def ValidateWorkload(self, request: Any, context: Any) -> Any:
        return await self._tell("ValidateWorkload", request, context, workloads_pb2.ValidateWorkloadResponse())

    async def GetWorkload(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, asked_context: Any) -> Any:
            found = await self._found(asked.workload, asked_context)
            text = self._world.documents.get(found.name, f"metadata:\n  name: {found.name}\n")
            return workloads_pb2.GetWorkloadResponse(workload=found, yaml=text)

        return await self._do("GetWorkload", request, context, act)

    async def ListWorkloads(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, _: Any) -> Any:
            wanted = asked.filter
            found = [
                each
                for each in self._world.workloads.values()
                if each.name.startswith(wanted.name_prefix) and wanted.project in {"", each.project}
            ]
            start = int(asked.page_token or 0)
            end = start + asked.page_size
            token = str(end) if end < len(found) else ""
            return workloads_pb2.ListWorkloadsResponse(workloads=found[start:end], next_page_token=token, cursor="0")

        return await self._do("ListWorkloads", request, context, act)

    async def ListArchivedWorkloads(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, _: Any) -> Any:
            found = [each for each in self._world.archived if asked.name in {"", each.name}]
            start = int(asked.page_token or 0)
            end = start + asked.page_size
            token = str(end) if end < len(found) else ""
            return workloads_pb2.ListArchivedWorkloadsResponse(workloads=found[start:end], next_page_token=token)

        return await self._do("ListArchivedWorkloads", request, context, act)

    async def ListWorkloadEvents(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, asked_context: Any) -> Any:
            found = await self._found(asked.workload, asked_context)
            told = [
                workloads_pb2.WorkloadEvent(
                    number=1, event="PhaseChanged", text="it runs", phase=found.phase, attempt=1
                ),
                workloads_pb2.WorkloadEvent(event="WorkloadSubmitted", text="acknowledged"),
            ]
            start = int(asked.page_token or 0)
            token = str(start + 1) if start + 1 < len(told) else ""
            return workloads_pb2.ListWorkloadEventsResponse(events=told[start : start + 1], next_page_token=token)

        return await self._do("ListWorkloadEvents", request, context, act)

    async def SuspendWorkload(self, request: Any, context: Any) -> Any:
        answer = workloads_pb2.SuspendWorkloadResponse
        return await self._grant("SuspendWorkload", request, context, workload_pb2.PHASE_STOPPED, answer)

    async def ResumeWorkload(self, request: Any, context: Any) -> Any:
        answer = workloads_pb2.ResumeWorkloadResponse
        return await self._grant("ResumeWorkload", request, context, workload_pb2.PHASE_RUNNING, answer)

    async def UpdateWorkload(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, asked_context: Any) -> Any:
            found = await self._found(asked.workload, asked_context)
            found.generation += 1
            return workloads_pb2.UpdateWorkloadResponse(workload=found)

        return await self._do("UpdateWorkload", request, context, act)

    async def DeleteWorkload(self, request: Any, context: Any) -> Any:
        answer = workloads_pb2.DeleteWorkloadResponse
        return await self._grant("DeleteWorkload", request, context, workload_pb2.PHASE_DELETED, answer)

    async def WatchWorkloads(self, request: Any, context: Any) -> AsyncIterator[Any]:
        self._world.calls.append(("WatchWorkloads", request))
        for item in self._world.watches.pop(0) if self._world.watches else self._snapshot(request):
            if isinstance(item, Failure):
                await context.abort_with_status(error_status(item))
            yield item
        if not self._world.watches:
            await asyncio.Event().wait()  # until the reader goes away

    def _snapshot(self, request: Any) -> Iterator[workloads_pb2.WatchWorkloadsResponse]:
        found = [self._find(request.workload)] if request.HasField("workload") else self._world.workloads.values()
        for each in found:
            if each is not None:
                yield workloads_pb2.WatchWorkloadsResponse(
                    kind=workloads_pb2.WATCH_ITEM_KIND_SNAPSHOT, workload=each, cursor="1"
                )
        yield workloads_pb2.WatchWorkloadsResponse(kind=workloads_pb2.WATCH_ITEM_KIND_SNAPSHOT_END, cursor="1")

    async def StreamLogs(self, request: Any, context: Any) -> AsyncIterator[Any]:
        self._world.calls.append(("StreamLogs", request))
        for replica, data in self._world.log:
            yield workloads_pb2.StreamLogsResponse(replica=replica, data=data)
