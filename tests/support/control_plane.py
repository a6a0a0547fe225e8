"""A control plane in memory behind a real gRPC server, in a thread of its own: what the client's tests talk to.

Holds: it keeps the calls that came in, with their idempotency keys, and answers the first `failures` calls of a
method with an error before it does what was asked, or after (an answer that was lost on the way).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from muster.api.v1 import (
    access_pb2_grpc,
    dead_letters_pb2,
    dead_letters_pb2_grpc,
    explain_pb2,
    explain_pb2_grpc,
    fleet_pb2_grpc,
    templates_pb2,
    templates_pb2_grpc,
    tenancy_pb2,
    tenancy_pb2_grpc,
    triggers_pb2,
    triggers_pb2_grpc,
    usage_pb2,
    usage_pb2_grpc,
    workloads_pb2,
    workloads_pb2_grpc,
)
from muster.api.v1 import (
    fleet_pb2 as fleet_api_pb2,
)
from muster.events.v1 import scheduler_pb2
from muster.fleet.v1 import fleet_pb2
from muster.options.v1 import options_pb2
from muster.tenancy.v1 import tenancy_pb2 as books_pb2
from muster.workload.v1 import workload_pb2
from tests.support.access_plane import AccessPlane
from tests.support.trigger_plane import TriggerPlane

WORKLOAD_ID = "01900000-0000-7000-8000-00000000000"


@dataclass(slots=True)
class Failure:
    """An error that a method answers with. `after`: it does what was asked first."""

    code: int
    message: str
    details: Sequence[Message] = ()
    after: bool = False


@dataclass
class World:
    """What the control plane knows, and what it was asked."""

    workloads: dict[str, workload_pb2.Workload] = field(default_factory=dict)
    projects: list[str] = field(default_factory=lambda: ["team-a"])
    records: dict[str, Any] = field(default_factory=dict)
    """Departments, projects and node pools that were made, by name."""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    failures: dict[str, list[Failure]] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)
    watches: list[list[workloads_pb2.WatchWorkloadsResponse | Failure]] = field(default_factory=list)
    log: list[tuple[str, bytes]] = field(default_factory=list)
    explanation: scheduler_pb2.Explanation = field(default_factory=scheduler_pb2.Explanation)
    prospects: explain_pb2.WhatIfResponse = field(default_factory=explain_pb2.WhatIfResponse)
    usage: list[usage_pb2.WorkloadUsage] = field(default_factory=list)
    clusters: list[fleet_pb2.Cluster] = field(default_factory=list)
    nodes: list[fleet_pb2.NodeView] = field(default_factory=list)
    dead_letters: list[dead_letters_pb2.DeadLetter] = field(default_factory=list)
    triggers: dict[str, triggers_pb2.Trigger] = field(default_factory=dict)
    firings: list[triggers_pb2.Firing] = field(default_factory=list)
    lazy: bool = False
    """Requests are taken, and nothing has come of them when they are answered."""

    def __post_init__(self) -> None:
        """Who may do what stands apart."""
        self.access = AccessPlane(self.calls)

    def asked(self, method: str) -> list[Any]:
        """The requests that a method got."""
        return [request for name, request in self.calls if name == method]

    def add(self, name: str, **fields: Any) -> workload_pb2.Workload:
        """A workload that is there."""
        number = len(self.workloads) + 1
        fields.setdefault("project", "team-a")
        fields.setdefault("phase", workload_pb2.PHASE_PENDING)
        workload = workload_pb2.Workload(id=f"{WORKLOAD_ID}{number}", name=name, generation=1, attempt=1, **fields)
        if not workload.spec.kind:
            workload.spec.kind = options_pb2.KIND_TRAINING
        self.workloads[workload.id] = workload
        return workload

    def fail(self, method: str, failure: Failure, *, times: int = 1) -> None:
        """Lets a method answer with an error so many times."""
        self.failures.setdefault(method, []).extend([failure] * times)


def error_status(failure: Failure) -> Any:
    """A failure as gRPC sends it."""
    packed = []
    for detail in failure.details:
        each = Packed()
        each.Pack(detail)
        packed.append(each)
    return rpc_status.to_status(status_pb2.Status(code=failure.code, message=failure.message, details=packed))


def bad_request(*violations: tuple[str, str]) -> error_details_pb2.BadRequest:
    """The detail that names fields."""
    kind = error_details_pb2.BadRequest.FieldViolation
    return error_details_pb2.BadRequest(
        field_violations=[kind(field=path, description=text) for path, text in violations]
    )


class _Service:
    """One entrance: keeps calls, fails where it is told to, and answers a repeated key with the first answer."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def _do(self, method: str, request: Any, context: Any, act: Any) -> Any:
        world = self._world
        world.calls.append((method, request))
        failure = world.failures[method].pop(0) if world.failures.get(method) else None
        if failure is not None and not failure.after:
            await context.abort_with_status(error_status(failure))
        key = getattr(request, "idempotency_key", "")
        if key and key in world.answers:
            answer = world.answers[key]
        else:
            answer = await act(request, context)
            if key:
                world.answers[key] = answer
        if failure is not None:
            await context.abort_with_status(error_status(failure))
        return answer


class _Workloads(_Service, workloads_pb2_grpc.WorkloadsServiceServicer):
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

    def _grant(self, workload: workload_pb2.Workload, phase: workload_pb2.Phase.ValueType) -> None:
        if not self._world.lazy:
            workload.phase = phase

    async def SubmitWorkload(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, _: Any) -> Any:
            name = next((line.split()[-1] for line in asked.draft.yaml.splitlines() if "name:" in line), "typed")
            project = asked.draft.project or "team-a"
            made = self._world.add(name.strip("{}"), project=project, phase=workload_pb2.PHASE_PENDING)
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
        async def act(_: Any, __: Any) -> Any:
            return workloads_pb2.ValidateWorkloadResponse()

        return await self._do("ValidateWorkload", request, context, act)

    async def GetWorkload(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, asked_context: Any) -> Any:
            found = await self._found(asked.workload, asked_context)
            return workloads_pb2.GetWorkloadResponse(workload=found, yaml=f"metadata:\n  name: {found.name}\n")

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

    async def SuspendWorkload(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, asked_context: Any) -> Any:
            found = await self._found(asked.workload, asked_context)
            self._grant(found, workload_pb2.PHASE_STOPPED)
            return workloads_pb2.SuspendWorkloadResponse(workload=found)

        return await self._do("SuspendWorkload", request, context, act)

    async def ResumeWorkload(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, asked_context: Any) -> Any:
            found = await self._found(asked.workload, asked_context)
            self._grant(found, workload_pb2.PHASE_RUNNING)
            return workloads_pb2.ResumeWorkloadResponse(workload=found)

        return await self._do("ResumeWorkload", request, context, act)

    async def UpdateWorkload(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, asked_context: Any) -> Any:
            found = await self._found(asked.workload, asked_context)
            found.generation += 1
            return workloads_pb2.UpdateWorkloadResponse(workload=found)

        return await self._do("UpdateWorkload", request, context, act)

    async def DeleteWorkload(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, asked_context: Any) -> Any:
            found = await self._found(asked.workload, asked_context)
            self._grant(found, workload_pb2.PHASE_DELETED)
            return workloads_pb2.DeleteWorkloadResponse(workload=found)

        return await self._do("DeleteWorkload", request, context, act)

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


class _Tenancy(_Service, tenancy_pb2_grpc.TenancyServiceServicer):
    async def ListProjects(self, request: Any, context: Any) -> Any:
        async def act(_: Any, __: Any) -> Any:
            quota = books_pb2.PoolQuota(node_pool="default", gpu_deserved=31_500, over_quota_weight_milli=1000)
            projects = [
                books_pb2.Project(name=name, department="default", namespace=f"runai-{name}", quotas=[quota])
                for name in self._world.projects
            ]
            return tenancy_pb2.ListProjectsResponse(projects=projects)

        return await self._do("ListProjects", request, context, act)

    async def SetProjectQuota(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, asked_context: Any) -> Any:
            project = books_pb2.Project(name=asked.project, quotas=[asked.quota])
            return tenancy_pb2.SetProjectQuotaResponse(project=project)

        return await self._do("SetProjectQuota", request, context, act)

    async def CreateProject(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, _: Any) -> Any:
            project = books_pb2.Project(name=asked.name, department="default", namespace=f"runai-{asked.name}")
            project.quotas.extend(asked.quotas)
            return tenancy_pb2.CreateProjectResponse(project=self._keep(project, 1))

        return await self._do("CreateProject", request, context, act)

    async def CreateDepartment(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, _: Any) -> Any:
            made = self._keep(asked.department, 1)
            return tenancy_pb2.CreateDepartmentResponse(department=made)

        return await self._do("CreateDepartment", request, context, act)

    async def GetDepartment(self, request: Any, context: Any) -> Any:
        return tenancy_pb2.GetDepartmentResponse(department=await self._found(request.name, context))

    async def ListDepartments(self, request: Any, context: Any) -> Any:
        return tenancy_pb2.ListDepartmentsResponse(departments=self._records(books_pb2.Department))

    async def UpdateDepartment(self, request: Any, context: Any) -> Any:
        known = await self._found(request.department.name, context)
        return tenancy_pb2.UpdateDepartmentResponse(department=self._keep(request.department, known.version + 1))

    async def SetDepartmentQuota(self, request: Any, context: Any) -> Any:
        known = await self._found(request.department, context)
        del known.quotas[:]
        known.quotas.append(request.quota)
        return tenancy_pb2.SetDepartmentQuotaResponse(department=known)

    async def DeleteDepartment(self, request: Any, context: Any) -> Any:
        await self._found(request.name, context)
        del self._world.records[request.name]
        return tenancy_pb2.DeleteDepartmentResponse()

    async def GetProject(self, request: Any, context: Any) -> Any:
        return tenancy_pb2.GetProjectResponse(project=await self._found(request.name, context))

    async def UpdateProject(self, request: Any, context: Any) -> Any:
        known = await self._found(request.project.name, context)
        return tenancy_pb2.UpdateProjectResponse(project=self._keep(request.project, known.version + 1))

    async def DeleteProject(self, request: Any, context: Any) -> Any:
        await self._found(request.name, context)
        del self._world.records[request.name]
        return tenancy_pb2.DeleteProjectResponse()

    async def CreateNodePool(self, request: Any, context: Any) -> Any:
        return tenancy_pb2.CreateNodePoolResponse(node_pool=self._keep(request.node_pool, 1))

    async def ListNodePools(self, request: Any, context: Any) -> Any:
        return tenancy_pb2.ListNodePoolsResponse(node_pools=self._records(books_pb2.NodePool))

    async def UpdateNodePool(self, request: Any, context: Any) -> Any:
        known = await self._found(request.node_pool.name, context)
        return tenancy_pb2.UpdateNodePoolResponse(node_pool=self._keep(request.node_pool, known.version + 1))

    async def DeleteNodePool(self, request: Any, context: Any) -> Any:
        await self._found(request.name, context)
        del self._world.records[request.name]
        return tenancy_pb2.DeleteNodePoolResponse()

    def _keep(self, record: Any, version: int) -> Any:
        record.version = version
        self._world.records[record.name] = record
        return record

    def _records(self, kind: Any) -> list[Any]:
        return [one for _, one in sorted(self._world.records.items()) if isinstance(one, kind)]

    async def _found(self, name: str, context: Any) -> Any:
        if name not in self._world.records:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"{name} does not exist")
        return self._world.records[name]


class _Explain(_Service, explain_pb2_grpc.ExplainServiceServicer):
    async def Why(self, request: Any, context: Any) -> Any:
        async def act(_: Any, __: Any) -> Any:
            return explain_pb2.WhyResponse(explanation=self._world.explanation)

        return await self._do("Why", request, context, act)

    async def WhatIf(self, request: Any, context: Any) -> Any:
        async def act(_: Any, __: Any) -> Any:
            return self._world.prospects

        return await self._do("WhatIf", request, context, act)


class _Templates(_Service, templates_pb2_grpc.TemplatesServiceServicer):
    async def ApplyTemplate(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, _: Any) -> Any:
            made = templates_pb2.Template(name="base", project=asked.draft.project, version=1)
            outcome = workloads_pb2.APPLY_OUTCOME_CREATED
            return templates_pb2.ApplyTemplateResponse(template=made, outcome=outcome)

        return await self._do("ApplyTemplate", request, context, act)

    async def ListTemplates(self, request: Any, context: Any) -> Any:
        async def act(_: Any, __: Any) -> Any:
            return templates_pb2.ListTemplatesResponse()

        return await self._do("ListTemplates", request, context, act)

    async def GetTemplate(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, _: Any) -> Any:
            found = templates_pb2.Template(name=asked.name, project=asked.project, version=3)
            return templates_pb2.GetTemplateResponse(template=found, yaml=f"metadata:\n  name: {asked.name}\n")

        return await self._do("GetTemplate", request, context, act)

    async def DeleteTemplate(self, request: Any, context: Any) -> Any:
        async def act(_: Any, __: Any) -> Any:
            return templates_pb2.DeleteTemplateResponse()

        return await self._do("DeleteTemplate", request, context, act)


class _Usage(_Service, usage_pb2_grpc.UsageServiceServicer):
    async def GetUsage(self, request: Any, context: Any) -> Any:
        async def act(_: Any, __: Any) -> Any:
            return usage_pb2.GetUsageResponse(workloads=self._world.usage)

        return await self._do("GetUsage", request, context, act)


class _Fleet(_Service, fleet_pb2_grpc.FleetServiceServicer):
    async def ListAccounts(self, request: Any, context: Any) -> Any:
        return fleet_api_pb2.ListAccountsResponse()

    async def ListClusters(self, request: Any, context: Any) -> Any:
        async def act(_: Any, __: Any) -> Any:
            return fleet_api_pb2.ListClustersResponse(clusters=self._world.clusters)

        return await self._do("ListClusters", request, context, act)

    async def RegisterCluster(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, asked_context: Any) -> Any:
            made = fleet_pb2.Cluster(id=asked.cluster, state=fleet_pb2.CLUSTER_STATE_REGISTERED)
            return fleet_api_pb2.RegisterClusterResponse(cluster=made)

        return await self._do("RegisterCluster", request, context, act)

    async def AdoptCluster(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, asked_context: Any) -> Any:
            return fleet_api_pb2.AdoptClusterResponse(declared_gone=3)

        return await self._do("AdoptCluster", request, context, act)

    async def ForceGoneNode(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, asked_context: Any) -> Any:
            return fleet_api_pb2.ForceGoneNodeResponse(declared_gone=2)

        return await self._do("ForceGoneNode", request, context, act)

    async def ListNodes(self, request: Any, context: Any) -> Any:
        async def act(_: Any, __: Any) -> Any:
            return fleet_api_pb2.ListNodesResponse(nodes=self._world.nodes)

        return await self._do("ListNodes", request, context, act)


class _DeadLetters(_Service, dead_letters_pb2_grpc.DeadLettersServiceServicer):
    async def ListDeadLetters(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, _: Any) -> Any:
            begin = int(asked.page_token or 0)
            end = begin + min(asked.page_size, 2)  # a page is smaller than what may be asked for
            every = self._world.dead_letters
            return dead_letters_pb2.ListDeadLettersResponse(
                dead_letters=every[begin:end],
                unanswered=["telemetry"],
                next_page_token=str(end) if end < len(every) else "",
                total=len(every),
            )

        return await self._do("ListDeadLetters", request, context, act)

    async def DiscardDeadLetters(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, _: Any) -> Any:
            known = {letter.id for letter in self._world.dead_letters}
            missing = [each for each in asked.ids if each not in known]
            return dead_letters_pb2.DiscardDeadLettersResponse(
                discarded=len(asked.ids) - len(missing), released=2, missing=missing
            )

        return await self._do("DiscardDeadLetters", request, context, act)

    async def ResumeConsumer(self, request: Any, context: Any) -> Any:
        async def act(asked: Any, asked_context: Any) -> Any:
            return dead_letters_pb2.ResumeConsumerResponse(topics=[asked.topic] if asked.topic else [])

        return await self._do("ResumeConsumer", request, context, act)

    async def RedriveDeadLetters(self, request: Any, context: Any) -> Any:
        async def act(_: Any, __: Any) -> Any:
            return dead_letters_pb2.RedriveDeadLettersResponse(handled=1, failed=1, reasons=["still no project x"])

        return await self._do("RedriveDeadLetters", request, context, act)


_LONGEST = 30.0
"""Seconds in which a control plane begins and ends, however busy the machine is: beyond them it never would."""


@contextmanager
def control_plane() -> Iterator[tuple[str, World]]:
    """The address of a fresh one, and what it knows. It ends with the context."""
    world, begun, loop = World(), threading.Event(), asyncio.new_event_loop()
    address: list[str] = []
    stop = asyncio.Event()

    async def serve() -> None:
        server = grpc.aio.server()
        workloads_pb2_grpc.add_WorkloadsServiceServicer_to_server(_Workloads(world), server)
        tenancy_pb2_grpc.add_TenancyServiceServicer_to_server(_Tenancy(world), server)
        explain_pb2_grpc.add_ExplainServiceServicer_to_server(_Explain(world), server)
        templates_pb2_grpc.add_TemplatesServiceServicer_to_server(_Templates(world), server)
        usage_pb2_grpc.add_UsageServiceServicer_to_server(_Usage(world), server)
        fleet_pb2_grpc.add_FleetServiceServicer_to_server(_Fleet(world), server)
        plane = TriggerPlane(world.calls, world.triggers, world.firings)
        triggers_pb2_grpc.add_TriggersServiceServicer_to_server(plane, server)
        dead_letters_pb2_grpc.add_DeadLettersServiceServicer_to_server(_DeadLetters(world), server)
        access_pb2_grpc.add_AccessServiceServicer_to_server(world.access, server)
        access_pb2_grpc.add_TokenServiceServicer_to_server(world.access, server)
        address.append(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
        await server.start()
        begun.set()
        await stop.wait()
        await server.stop(None)

    def work() -> None:
        loop.run_until_complete(serve())
        # What gRPC still has in flight (a watch whose reader went away) ends before the loop does.
        if pending := asyncio.all_tasks(loop):
            loop.run_until_complete(asyncio.wait(pending, timeout=5))

    thread = threading.Thread(target=work, name="control-plane", daemon=True)
    thread.start()
    if not begun.wait(_LONGEST):
        raise TimeoutError("the control plane of a test did not begin")
    try:
        yield address[0], world
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(_LONGEST)
        if thread.is_alive():
            raise TimeoutError("the control plane of a test did not end")
        loop.close()
