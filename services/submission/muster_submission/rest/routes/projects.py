"""/api/v1/org-unit/projects: projects with their quotas, rules and what is in use of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from google.protobuf.field_mask_pb2 import FieldMask
from starlette.requests import Request

from muster.api.v1 import tenancy_pb2 as api
from muster.fleet.v1.fleet_pb2 import Account
from muster.tenancy.v1.tenancy_pb2 import PoolQuota, Project
from muster_chassis.errors import ServiceError
from muster_submission.domain.access import Verb
from muster_submission.domain.tenancy import DEFAULT_DEPARTMENT
from muster_submission.errors import NoSuchProject
from muster_submission.handlers.access import Rights
from muster_submission.rest import org_lists, org_shapes
from muster_submission.rest.fleet_view import Asking, Fleet
from muster_submission.rest.members import Findings
from muster_submission.rest.operation import Operation, Shape
from muster_submission.rest.org_lists import Column
from muster_submission.rest.org_routes import OrgUnits
from muster_submission.rest.org_units import UPDATABLE, Surroundings, read_project, write_project
from muster_submission.rest.parts import Parts
from muster_submission.rest.quotas import Pools
from muster_submission.rest.requests import idempotency_key, number_of

_PATHS: Final = ("quotas", "rules", "node_types", "default_node_pools")


class Projects(OrgUnits[Project]):
    """Projects."""

    noun = "project"
    tag = "Projects"
    path = "/api/v1/org-unit/projects"
    updatable = UPDATABLE
    shapes: ClassVar[tuple[Shape, Shape, Shape]] = (
        org_shapes.PROJECT,
        org_shapes.PROJECT_CREATION,
        org_shapes.PROJECT_UPDATE,
    )

    def more_columns(self) -> Iterable[Column[Project]]:
        """Its department and its namespace."""
        return [
            org_lists.text("departmentName", "its department's name", lambda one: one.department),
            org_lists.text("namespace", "its namespace", lambda one: one.namespace),
        ]

    async def every(self) -> Iterable[Project]:
        """All projects."""
        return await self._parts.tenancy.all_projects()

    async def by_id(self, number: int) -> Project | None:
        """The project with that number."""
        return await self._parts.tenancy.project_by_id(number)

    def seen(self, rights: Rights) -> frozenset[str] | None:
        """The projects that the caller may see."""
        return rights.projects(Verb.PROJECTS_READ)

    def require(self, rights: Rights, name: str, absent: ServiceError) -> None:
        """Raises `absent` where the caller may not see it."""
        rights.require(Verb.PROJECTS_READ, project=name, absent=absent)

    def absent(self, given: str) -> NoSuchProject:
        """There is no such project."""
        return NoSuchProject(f"no project has the id {given!r}; GET {self.path} lists them")

    def read(self, body: Mapping[str, Any], pools: Pools, found: Findings) -> tuple[Project, list[str]]:
        """What is left out goes back to nothing, but for the description, which 2.18 does not know."""
        described = ["description"] if body.get("description") is not None else []
        return read_project(body, pools, found), [*_PATHS, *described]

    async def make(self, request: Request, body: Mapping[str, Any], asked: Project, found: Findings) -> Project:
        """Makes a project."""
        creation = api.CreateProjectRequest(
            name=asked.name,
            namespace=found.text(body.get("requestedNamespace"), "requestedNamespace"),
            department=await self._department(body.get("parentId"), found),
            home_cluster=asked.home_cluster,
            description=asked.description,
            quotas=asked.quotas,
            rules=asked.rules if asked.HasField("rules") else None,
            node_types=asked.node_types if asked.HasField("node_types") else None,
            default_node_pools=asked.default_node_pools,
            idempotency_key=idempotency_key(request),
        )
        found.raise_any("the project")
        made: Project = (await self._parts.organisation.CreateProject(creation, Asking(request))).project
        return made

    def like(self, known: Project, changed: Sequence[PoolQuota], version: int = 0) -> Project:
        """That project with these quotas."""
        return Project(name=known.name, quotas=changed, version=version)

    async def change(self, request: Request, asked: Project, mask: FieldMask) -> Project:
        """Changes a project."""
        change = api.UpdateProjectRequest(project=asked, update_mask=mask, idempotency_key=idempotency_key(request))
        changed: Project = (await self._parts.organisation.UpdateProject(change, Asking(request))).project
        return changed

    async def remove(self, request: Request, name: str) -> None:
        """Removes a project."""
        asked = api.DeleteProjectRequest(name=name, idempotency_key=idempotency_key(request))
        await self._parts.organisation.DeleteProject(asked, None)

    async def accounts(self, fleet: Fleet, units: Sequence[Project]) -> Mapping[str, Sequence[Account]]:
        """One question for all of them."""
        known = await fleet.accounts([one.name for one in units])
        return {one.name: [account for account in known if account.project == one.name] for one in units}

    async def write(self, unit: Project, pools: Pools, accounts: Sequence[Account]) -> dict[str, Any]:
        """A project as 2.18 shows it."""
        department = await self._parts.tenancy.known_department(unit.department)
        return write_project(unit, department, Surroundings(pools, accounts))

    async def _department(self, value: Any, found: Findings) -> str:
        if value is None:
            return DEFAULT_DEPARTMENT
        number = number_of(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else None
        known = None if number is None else await self._parts.tenancy.department_by_id(number)
        if known is None:
            given = str(value)[:40]
            found.add("parentId", f"no department has the id {given!r}; GET /api/v1/org-unit/departments lists them")
            return DEFAULT_DEPARTMENT
        return known.name


def operations(parts: Parts) -> list[Operation]:
    """Projects."""
    return Projects(parts).operations()
