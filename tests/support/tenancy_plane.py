"""Departments, projects and node pools of a test's control plane.

Mounted by control_plane. Holds: what was made is read again under its name, a version higher after each change.
"""

from __future__ import annotations

from typing import Any

import grpc

from muster.api.v1 import tenancy_pb2, tenancy_pb2_grpc
from muster.tenancy.v1 import tenancy_pb2 as books_pb2
from tests.support.plane_world import PlaneService


class TenancyPlane(PlaneService, tenancy_pb2_grpc.TenancyServiceServicer):
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
