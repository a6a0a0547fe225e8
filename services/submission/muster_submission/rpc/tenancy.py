"""TenancyService: departments, projects and node pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from google.protobuf.message import Message

from muster.api.v1 import tenancy_pb2 as api
from muster.api.v1 import tenancy_pb2_grpc
from muster.tenancy.v1.tenancy_pb2 import Department, NodePool, Project
from muster_chassis.database import Database
from muster_chassis.rpc import caller, once
from muster_chassis.text import clean
from muster_chassis.unit import Unit
from muster_submission.adapters.fleet import PostgresFleet
from muster_submission.adapters.tenancy import PostgresTenancy
from muster_submission.audit import Entry, audit
from muster_submission.domain.access import Verb
from muster_submission.domain.cursors import page_token
from muster_submission.domain.tenancy import DEFAULT_DEPARTMENT
from muster_submission.errors import NoSuchCluster, NoSuchDepartment, NoSuchNodePool, NoSuchProject
from muster_submission.handlers.access import Access
from muster_submission.handlers.departments import Departments
from muster_submission.handlers.node_pools import NodePools
from muster_submission.handlers.tenancy import Projects
from muster_submission.rpc.known_pools import KnownPools, at_all
from muster_submission.rpc.reading import page_of

_PROJECTS = b"projects\x00"
_DEPARTMENTS = b"departments"
_POOLS = b"node-pools\x00"
_LONGEST = 200
Named = TypeVar("Named", Department, Project)


class Tenancy(tenancy_pb2_grpc.TenancyServiceServicer):
    """The servicer."""

    def __init__(
        self,
        database: Database,
        access: Access,
        books: PostgresTenancy,
        fleet: PostgresFleet,
        projects: Projects,
        departments: Departments,
        pools: NodePools,
        known: KnownPools,
    ) -> None:
        self._database = database
        self._access = access
        self._books = books
        self._fleet = fleet
        self._projects = projects
        self._departments = departments
        self._pools = pools
        self._known = known

    # -- departments

    async def CreateDepartment(self, request: api.CreateDepartmentRequest, context: Any) -> Any:
        """Makes a department."""
        (await self._access.rights(caller())).require(Verb.DEPARTMENTS_CREATE)
        await self._known.require("the department", at_all(request.department.quotas), context)

        async def work(unit: Unit) -> api.CreateDepartmentResponse:
            made = await self._departments.create(unit, request.department, by())
            await audit(unit, Entry(Verb.DEPARTMENTS_CREATE, f"department/{made.name}"))
            return api.CreateDepartmentResponse(department=made)

        return await self._once("CreateDepartment", request, api.CreateDepartmentResponse, work)

    async def GetDepartment(self, request: api.GetDepartmentRequest, context: Any) -> api.GetDepartmentResponse:
        """One department."""
        await self._in_department(Verb.DEPARTMENTS_READ, request.name)
        found = await self._books.known_department(request.name)
        if found is None:
            raise no_department(request.name)
        return api.GetDepartmentResponse(department=found)

    async def ListDepartments(self, request: api.ListDepartmentsRequest, context: Any) -> api.ListDepartmentsResponse:
        """The departments that the caller may see, by name."""
        size, after = page_of(request.page_size, request.page_token, _DEPARTMENTS)
        seen = (await self._access.rights(caller())).departments(Verb.DEPARTMENTS_READ)
        page, token = _page(await self._books.all_departments(), seen, size, after)
        return api.ListDepartmentsResponse(
            departments=page, next_page_token=page_token(token, _DEPARTMENTS) if token else ""
        )

    async def UpdateDepartment(self, request: api.UpdateDepartmentRequest, context: Any) -> Any:
        """Changes a department."""
        name = request.department.name
        await self._in_department(Verb.DEPARTMENTS_CHANGE, name)
        known = await self._books.known_department(name)
        held = known.quotas if known else ()
        await self._known.require("the department", at_all(request.department.quotas), context, held)

        async def work(unit: Unit) -> api.UpdateDepartmentResponse:
            changed = await self._departments.update(unit, request.department, request.update_mask, by())
            await audit(unit, Entry(Verb.DEPARTMENTS_CHANGE, f"department/{name}"))
            return api.UpdateDepartmentResponse(department=changed)

        return await self._once("UpdateDepartment", request, api.UpdateDepartmentResponse, work)

    async def SetDepartmentQuota(self, request: api.SetDepartmentQuotaRequest, context: Any) -> Any:
        """Sets a department's quota in one node pool."""
        await self._in_department(Verb.DEPARTMENTS_CHANGE, request.department)
        await self._known.require("the quota", [("quota", request.quota)], context)

        async def work(unit: Unit) -> api.SetDepartmentQuotaResponse:
            changed = await self._departments.set_quota(unit, request.department, request.quota, by())
            await audit(unit, Entry(Verb.DEPARTMENTS_CHANGE, f"department/{changed.name}"))
            return api.SetDepartmentQuotaResponse(department=changed)

        return await self._once("SetDepartmentQuota", request, api.SetDepartmentQuotaResponse, work)

    async def DeleteDepartment(self, request: api.DeleteDepartmentRequest, context: Any) -> Any:
        """Removes a department."""
        await self._in_department(Verb.DEPARTMENTS_DELETE, request.name)

        async def work(unit: Unit) -> api.DeleteDepartmentResponse:
            await self._departments.delete(unit, request.name)
            await audit(unit, Entry(Verb.DEPARTMENTS_DELETE, f"department/{request.name}"))
            return api.DeleteDepartmentResponse()

        return await self._once("DeleteDepartment", request, api.DeleteDepartmentResponse, work)

    # -- projects

    async def CreateProject(self, request: api.CreateProjectRequest, context: Any) -> Any:
        """Makes a project."""
        await self._in_department(Verb.PROJECTS_CREATE, request.department or DEFAULT_DEPARTMENT)
        await self._known.require("the project", at_all(request.quotas), context)

        async def work(unit: Unit) -> api.CreateProjectResponse:
            made = await self._projects.create(unit, request, by())
            await audit(unit, Entry(Verb.PROJECTS_CREATE, f"project/{made.name}", project=made.name))
            return api.CreateProjectResponse(project=made)

        return await self._once("CreateProject", request, api.CreateProjectResponse, work)

    async def GetProject(self, request: api.GetProjectRequest, context: Any) -> api.GetProjectResponse:
        """One project."""
        await self._in_project(Verb.PROJECTS_READ, request.name)
        found = await self._books.project(request.name)
        if found is None:
            raise no_project(request.name)
        return api.GetProjectResponse(project=found)

    async def ListProjects(self, request: api.ListProjectsRequest, context: Any) -> api.ListProjectsResponse:
        """The projects that the caller may see, by name."""
        bound = _PROJECTS + request.department.encode()
        size, after = page_of(request.page_size, request.page_token, bound)
        seen = (await self._access.rights(caller())).projects(Verb.PROJECTS_READ)
        found = [one for one in await self._books.all_projects() if request.department in {"", one.department}]
        page, token = _page(found, seen, size, after)
        return api.ListProjectsResponse(projects=page, next_page_token=page_token(token, bound) if token else "")

    async def UpdateProject(self, request: api.UpdateProjectRequest, context: Any) -> Any:
        """Changes a project."""
        name = request.project.name
        await self._in_project(Verb.PROJECTS_CHANGE, name)
        known = await self._books.project(name)
        held = known.quotas if known else ()
        await self._known.require("the project", at_all(request.project.quotas), context, held)

        async def work(unit: Unit) -> api.UpdateProjectResponse:
            changed = await self._projects.update(unit, request.project, request.update_mask, by())
            await audit(unit, Entry(Verb.PROJECTS_CHANGE, f"project/{name}", project=name))
            return api.UpdateProjectResponse(project=changed)

        return await self._once("UpdateProject", request, api.UpdateProjectResponse, work)

    async def SetProjectQuota(self, request: api.SetProjectQuotaRequest, context: Any) -> Any:
        """Sets a project's quota in one node pool."""
        await self._in_project(Verb.PROJECTS_CHANGE, request.project)
        await self._known.require("the quota", [("quota", request.quota)], context)

        async def work(unit: Unit) -> api.SetProjectQuotaResponse:
            changed = await self._projects.set_quota(unit, request.project, request.quota, by())
            await audit(unit, Entry(Verb.PROJECTS_CHANGE, f"project/{changed.name}", project=changed.name))
            return api.SetProjectQuotaResponse(project=changed)

        return await self._once("SetProjectQuota", request, api.SetProjectQuotaResponse, work)

    async def DeleteProject(self, request: api.DeleteProjectRequest, context: Any) -> Any:
        """Removes a project."""
        await self._in_project(Verb.PROJECTS_DELETE, request.name)

        async def work(unit: Unit) -> api.DeleteProjectResponse:
            await self._projects.delete(unit, request.name)
            await audit(unit, Entry(Verb.PROJECTS_DELETE, f"project/{request.name}", project=request.name))
            return api.DeleteProjectResponse()

        return await self._once("DeleteProject", request, api.DeleteProjectResponse, work)

    # -- node pools

    async def CreateNodePool(self, request: api.CreateNodePoolRequest, context: Any) -> Any:
        """Makes a node pool."""
        pool = request.node_pool
        await self._at_cluster(Verb.NODE_POOLS_WRITE, pool.cluster, pool.name)

        async def work(unit: Unit) -> api.CreateNodePoolResponse:
            made = await self._pools.create(unit, pool, by())
            await audit(unit, Entry(Verb.NODE_POOLS_WRITE, f"node-pool/{made.cluster}/{made.name}"))
            return api.CreateNodePoolResponse(node_pool=made)

        return await self._once("CreateNodePool", request, api.CreateNodePoolResponse, work)

    async def ListNodePools(self, request: api.ListNodePoolsRequest, context: Any) -> api.ListNodePoolsResponse:
        """The node pools that the caller may see, by cluster and name."""
        bound = _POOLS + request.cluster.encode()
        size, after = page_of(request.page_size, request.page_token, bound)
        seen = (await self._access.rights(caller())).clusters(Verb.NODE_POOLS_READ)
        found = [one for one in await self._fleet.pools() if request.cluster in {"", one.cluster}]
        found = [one for one in found if (seen is None or one.cluster in seen) and _key(one) > after]
        page = found[:size]
        token = page_token(_key(page[-1]), bound) if len(found) > size else ""
        return api.ListNodePoolsResponse(node_pools=page, next_page_token=token)

    async def UpdateNodePool(self, request: api.UpdateNodePoolRequest, context: Any) -> Any:
        """Changes a node pool."""
        pool = request.node_pool
        await self._at_cluster(Verb.NODE_POOLS_WRITE, pool.cluster, pool.name)

        async def work(unit: Unit) -> api.UpdateNodePoolResponse:
            changed = await self._pools.update(unit, pool, request.update_mask, by())
            await audit(unit, Entry(Verb.NODE_POOLS_WRITE, f"node-pool/{pool.cluster}/{pool.name}"))
            return api.UpdateNodePoolResponse(node_pool=changed)

        return await self._once("UpdateNodePool", request, api.UpdateNodePoolResponse, work)

    async def DeleteNodePool(self, request: api.DeleteNodePoolRequest, context: Any) -> Any:
        """Removes a node pool."""
        await self._at_cluster(Verb.NODE_POOLS_WRITE, request.cluster, request.name)

        async def work(unit: Unit) -> api.DeleteNodePoolResponse:
            await self._pools.delete(unit, request.cluster, request.name)
            await audit(unit, Entry(Verb.NODE_POOLS_WRITE, f"node-pool/{request.cluster}/{request.name}"))
            return api.DeleteNodePoolResponse()

        return await self._once("DeleteNodePool", request, api.DeleteNodePoolResponse, work)

    async def _once(self, method: str, request: Any, response: Any, work: Any) -> Message:
        return await once(self._database, method, request, response, work)

    async def _in_department(self, verb: Verb, name: str) -> None:
        rights = await self._access.rights(caller())
        rights.require(verb, department=name, absent=no_department(name))

    async def _in_project(self, verb: Verb, name: str) -> None:
        (await self._access.rights(caller())).require(verb, project=name, absent=no_project(name))

    async def _at_cluster(self, verb: Verb, cluster: str, pool: str) -> None:
        absent = no_pool(cluster, pool) if pool else no_cluster(cluster)
        (await self._access.rights(caller())).require(verb, cluster=cluster, absent=absent)


def by() -> str:
    """The caller as the author of a change."""
    return clean(caller().subject, _LONGEST)


def no_department(name: str) -> NoSuchDepartment:
    """What is said of a department that is not there, or hidden."""
    return NoSuchDepartment(f"department {clean(name, 80)!r} does not exist; `muster departments` lists them")


def no_project(name: str) -> NoSuchProject:
    """What is said of a project that is not there, or hidden."""
    return NoSuchProject(f"project {clean(name, 80)!r} does not exist; `muster projects` lists them")


def no_cluster(name: str) -> NoSuchCluster:
    """What is said of a cluster that is not there, or hidden."""
    return NoSuchCluster(f"no cluster {clean(name, 80)!r} is registered; `muster clusters` lists them")


def no_pool(cluster: str, name: str) -> NoSuchNodePool:
    """What is said of a node pool that is not there, or hidden."""
    return NoSuchNodePool(
        f"cluster {clean(cluster, 80)!r} has no node pool {clean(name, 80)!r}; `muster node-pools` lists them"
    )


def _key(pool: NodePool) -> str:
    return f"{pool.cluster}/{pool.name}"


def _page(found: Sequence[Named], seen: frozenset[str] | None, size: int, after: str) -> tuple[list[Named], str]:
    """A page by name, and where it ends; '' where nothing follows."""
    known = sorted(
        (one for one in found if one.name > after and (seen is None or one.name in seen)), key=lambda one: one.name
    )
    page = known[:size]
    return page, page[-1].name if len(known) > size else ""
