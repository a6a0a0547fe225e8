"""/api/v1/org-unit/projects: projects with their quotas, rules and what is in use of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from google.protobuf.field_mask_pb2 import FieldMask
from starlette.requests import Request
from starlette.responses import Response

from muster.api.v1 import tenancy_pb2 as api
from muster.fleet.v1.fleet_pb2 import Account
from muster.tenancy.v1.tenancy_pb2 import Project
from muster_chassis.rpc import caller
from muster_submission.domain.access import Verb
from muster_submission.domain.fleet import ANY_CLUSTER
from muster_submission.domain.tenancy import DEFAULT_DEPARTMENT
from muster_submission.errors import NoSuchProject
from muster_submission.rest import org_lists, org_shapes, quotas
from muster_submission.rest.answers import answer, nothing
from muster_submission.rest.bodies import read_array, read_object
from muster_submission.rest.fleet_view import Fleet
from muster_submission.rest.members import Findings
from muster_submission.rest.operation import Answer, Body, Operation, path_id, refusal
from muster_submission.rest.org_lists import Listing
from muster_submission.rest.org_units import UPDATABLE, Surroundings, read_project, shown_cluster, write_project
from muster_submission.rest.parts import Parts
from muster_submission.rest.requests import idempotency_key, number_of

PATH: Final = "/api/v1/org-unit/projects"
_TAG: Final = "Projects"
_CREATION: Final = ("name", "clusterId", "parentId", "requestedNamespace", *UPDATABLE)
_ALL: Final = ("quotas", "rules", "node_types", "default_node_pools", "description")
_ID: Final = path_id("projectId", "The project's id.", form="")


class Projects:
    """The handlers."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._listing: Listing[Project] = Listing(
            [
                org_lists.text("id", "the project's id", lambda one: str(one.id)),
                org_lists.text("name", "its name", lambda one: one.name),
                org_lists.text("departmentName", "its department's name", lambda one: one.department),
                org_lists.text(
                    "clusterId", "the cluster for which it was made", lambda one: shown_cluster(one.home_cluster)
                ),
                org_lists.text("namespace", "its namespace", lambda one: one.namespace),
                org_lists.text("createdBy", "who made it", lambda one: one.created_by),
                org_lists.text("updatedBy", "who changed it last", lambda one: one.updated_by),
                org_lists.time("createdAt", "when it was made", lambda one: one.created_at.ToDatetime()),
                org_lists.time("updatedAt", "when it was changed last", lambda one: one.updated_at.ToDatetime()),
            ],
            lambda one: one.id,
        )

    def operations(self) -> list[Operation]:
        """What is served."""
        one = Answer("The project.", org_shapes.PROJECT)
        taken, busy = refusal("The name or the namespace is taken."), refusal("Workloads of it have not ended.")
        page = org_shapes.page_of("Projects", "projects", org_shapes.PROJECT)
        made = Body(org_shapes.PROJECT_CREATION)
        changed, some = Body(org_shapes.PROJECT_UPDATE), Body(org_shapes.some(org_shapes.QUOTA))
        patched = Body(org_shapes.some(org_shapes.QUOTA_CHANGE))
        at, below = f"{PATH}/{{projectId}}", f"{PATH}/{{projectId}}/resources"
        lists, counts = self._listing.parameters(), self._listing.count_parameters()
        found = {200: one}
        return [
            Operation(
                "POST", PATH, "create_project", _TAG, "Make a project", self.create, {201: one, 409: taken}, body=made
            ),
            Operation(
                "GET", PATH, "get_projects", _TAG, "The projects", self.page, {200: Answer("A page.", page)}, lists
            ),
            Operation(
                "GET",
                f"{PATH}/count",
                "count_projects",
                _TAG,
                "How many projects there are",
                self.count,
                {200: Answer("The number.", org_shapes.COUNT)},
                counts,
                since="muster",
            ),
            Operation("GET", at, "get_project", _TAG, "One project", self.get, found, [_ID]),
            Operation("PUT", at, "update_project", _TAG, "Change a project", self.update, found, [_ID], changed),
            Operation(
                "DELETE",
                at,
                "delete_project",
                _TAG,
                "Remove a project",
                self.delete,
                {204: Answer("Gone."), 409: busy},
                [_ID],
            ),
            Operation(
                "PUT",
                below,
                "update_project_resources",
                _TAG,
                "Replace a project's quotas",
                self.replace,
                found,
                [_ID],
                some,
            ),
            Operation(
                "PATCH",
                below,
                "patch_project_resources",
                _TAG,
                "Change a project's quotas",
                self.patch,
                found,
                [_ID],
                patched,
            ),
        ]

    async def create(self, request: Request) -> Response:
        """201 with the project."""
        fleet, found = Fleet(self._parts, request), Findings()
        body = found.object(await read_object(request), "", _CREATION)
        asked = read_project(body, await fleet.pools(), found)
        creation = api.CreateProjectRequest(
            name=found.text(body.get("name"), "name"),
            namespace=found.text(body.get("requestedNamespace"), "requestedNamespace"),
            department=await self._department(body.get("parentId"), found),
            home_cluster=await home_cluster(self._parts, body.get("clusterId"), found),
            description=asked.description,
            quotas=asked.quotas,
            rules=asked.rules if asked.HasField("rules") else None,
            node_types=asked.node_types if asked.HasField("node_types") else None,
            default_node_pools=asked.default_node_pools,
            idempotency_key=idempotency_key(request),
        )
        found.raise_any("the project")
        made = (await self._parts.organisation.CreateProject(creation, None)).project
        return answer(await self._shown(fleet, made), 201)

    async def page(self, request: Request) -> Response:
        """A page of what the caller may see."""
        fleet = Fleet(self._parts, request)
        page, following = self._listing.page(request, await self._visible())
        accounts = await fleet.accounts([one.name for one in page])
        shown = [await self._shown(fleet, one, accounts) for one in page]
        return answer({"projects": shown, **({} if following is None else {"next": following})})

    async def count(self, request: Request) -> Response:
        """How many of what the caller may see pass."""
        return answer({"count": self._listing.count(request, await self._visible())})

    async def get(self, request: Request) -> Response:
        """One project."""
        return answer(await self._shown(Fleet(self._parts, request), await self._project(request)))

    async def update(self, request: Request) -> Response:
        """The project as it is now: every part that is left out goes back to nothing."""
        fleet, found, project = Fleet(self._parts, request), Findings(), await self._project(request)
        body = found.object(await read_object(request), "", UPDATABLE)
        asked = read_project(body, await fleet.pools(), found)
        found.raise_any("the project")
        asked.name = project.name
        kept = () if body.get("description") is not None else ("description",)
        changed = await self._update(request, asked, [path for path in _ALL if path not in kept])
        return answer(await self._shown(fleet, changed))

    async def replace(self, request: Request) -> Response:
        """The project with these quotas and no others."""
        fleet, found, project = Fleet(self._parts, request), Findings(), await self._project(request)
        asked = Project(name=project.name)
        asked.quotas.extend(quotas.read(await read_array(request), "", await fleet.pools(), found))
        found.raise_any("the quotas")
        return answer(await self._shown(fleet, await self._update(request, asked, ["quotas"])))

    async def patch(self, request: Request) -> Response:
        """The project with these quotas changed."""
        fleet, found, project = Fleet(self._parts, request), Findings(), await self._project(request)
        asked = Project(name=project.name, version=project.version)
        asked.quotas.extend(quotas.patch(await read_array(request), "", await fleet.pools(), project.quotas, found))
        found.raise_any("the quotas")
        return answer(await self._shown(fleet, await self._update(request, asked, ["quotas"])))

    async def delete(self, request: Request) -> Response:
        """204."""
        project = await self._project(request)
        asked = api.DeleteProjectRequest(name=project.name, idempotency_key=idempotency_key(request))
        await self._parts.organisation.DeleteProject(asked, None)
        return nothing()

    async def _update(self, request: Request, asked: Project, paths: Sequence[str]) -> Project:
        change = api.UpdateProjectRequest(
            project=asked, update_mask=FieldMask(paths=paths), idempotency_key=idempotency_key(request)
        )
        changed: Project = (await self._parts.organisation.UpdateProject(change, None)).project
        return changed

    async def _project(self, request: Request) -> Project:
        """The project of the path, where the caller may see it."""
        given = request.path_params["projectId"]
        absent = NoSuchProject(f"no project has the id {given[:40]!r}; GET {PATH} lists them")
        number = number_of(given)
        found = None if number is None else await self._parts.tenancy.project_by_id(number)
        if found is None:
            raise absent
        rights = await self._parts.access.rights(caller())
        rights.require(Verb.PROJECTS_READ, project=found.name, absent=absent)
        return found

    async def _visible(self) -> list[Project]:
        seen = (await self._parts.access.rights(caller())).projects(Verb.PROJECTS_READ)
        return [one for one in await self._parts.tenancy.all_projects() if seen is None or one.name in seen]

    async def _department(self, value: Any, found: Findings) -> str:
        if value is None:
            return DEFAULT_DEPARTMENT
        number = number_of(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else None
        known = None if number is None else await self._parts.tenancy.department_by_id(number)
        if known is None:
            found.add(
                "parentId", f"no department has the id {str(value)[:40]!r}; GET /api/v1/org-unit/departments lists them"
            )
            return DEFAULT_DEPARTMENT
        return known.name

    async def _shown(self, fleet: Fleet, project: Project, accounts: Iterable[Account] | None = None) -> dict[str, Any]:
        known = await fleet.accounts([project.name]) if accounts is None else accounts
        around = Surroundings(
            await fleet.pools(project.home_cluster), [one for one in known if one.project == project.name]
        )
        return write_project(project, await self._parts.tenancy.known_department(project.department), around)


async def home_cluster(parts: Parts, value: Any, found: Findings) -> str:
    """The name of the cluster that a body names; '' for the one that means any."""
    uuid = found.text(value, "clusterId")
    if not uuid:
        found.add("clusterId", f"is missing: the id of a cluster, or {ANY_CLUSTER} for all of them")
    if not uuid or uuid == ANY_CLUSTER:
        return ""
    name = await parts.fleet.cluster_of_uuid(uuid.lower())
    if name is None:
        found.add("clusterId", f"no cluster has the id {uuid[:80]!r}; GET /api/v1/clusters lists them")
    return name or ""


def operations(parts: Parts) -> list[Operation]:
    """Projects."""
    return Projects(parts).operations()
