"""TenancyService: projects and their quotas."""

from __future__ import annotations

from typing import Any

from muster.api.v1 import tenancy_pb2 as api
from muster.api.v1 import tenancy_pb2_grpc
from muster_chassis.database import Database
from muster_chassis.rpc import once
from muster_chassis.unit import Unit
from muster_submission.adapters.tenancy import PostgresTenancy
from muster_submission.domain.cursors import page_token
from muster_submission.handlers.tenancy import Projects
from muster_submission.rpc.reading import page_of

_BOUND = b"projects"


class Tenancy(tenancy_pb2_grpc.TenancyServiceServicer):
    """The servicer."""

    def __init__(self, database: Database, books: PostgresTenancy, projects: Projects) -> None:
        self._database = database
        self._books = books
        self._projects = projects

    async def CreateProject(self, request: api.CreateProjectRequest, context: Any) -> api.CreateProjectResponse:
        """Makes a project."""

        async def work(unit: Unit) -> api.CreateProjectResponse:
            return api.CreateProjectResponse(project=await self._projects.create(unit, request))

        return await once(self._database, "CreateProject", request, api.CreateProjectResponse, work)

    async def ListProjects(self, request: api.ListProjectsRequest, context: Any) -> api.ListProjectsResponse:
        """The projects, by name."""
        size, after = page_of(request.page_size, request.page_token, _BOUND)
        found = await self._books.page(size, after)
        token = page_token(found[-1].name, _BOUND) if len(found) == size else ""
        return api.ListProjectsResponse(projects=found, next_page_token=token)

    async def SetProjectQuota(self, request: api.SetProjectQuotaRequest, context: Any) -> api.SetProjectQuotaResponse:
        """Sets a project's quota in one node pool."""

        async def work(unit: Unit) -> api.SetProjectQuotaResponse:
            project = await self._projects.set_quota(unit, request.project, request.quota)
            return api.SetProjectQuotaResponse(project=project)

        return await once(self._database, "SetProjectQuota", request, api.SetProjectQuotaResponse, work)
