"""/api/v1/org-unit/departments: departments with their quotas, rules and what their projects use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from google.protobuf.field_mask_pb2 import FieldMask
from starlette.requests import Request
from starlette.responses import Response

from muster.api.v1 import tenancy_pb2 as api
from muster.tenancy.v1.tenancy_pb2 import Department
from muster_chassis.rpc import caller
from muster_submission.domain.access import Verb
from muster_submission.errors import NoSuchDepartment
from muster_submission.rest import org_lists, org_shapes, quotas
from muster_submission.rest.answers import answer, nothing
from muster_submission.rest.bodies import read_array, read_object
from muster_submission.rest.fleet_view import Fleet
from muster_submission.rest.members import Findings
from muster_submission.rest.operation import Answer, Body, Operation, path_id, refusal
from muster_submission.rest.org_lists import Listing
from muster_submission.rest.org_units import Surroundings, read_department, shown_cluster, write_department
from muster_submission.rest.parts import Parts
from muster_submission.rest.requests import idempotency_key, number_of
from muster_submission.rest.routes.projects import home_cluster

PATH: Final = "/api/v1/org-unit/departments"
_TAG: Final = "Departments"
_UPDATABLE: Final = ("description", "schedulingRules", "nodeTypes", "resources")
_CREATION: Final = ("name", "clusterId", *_UPDATABLE)
_ID: Final = path_id("departmentId", "The department's id.", form="")


class Departments:
    """The handlers."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._listing: Listing[Department] = Listing(
            [
                org_lists.text("id", "the department's id", lambda one: str(one.id)),
                org_lists.text("name", "its name", lambda one: one.name),
                org_lists.text("clusterId", "the cluster for which it was made", _cluster),
                org_lists.text("createdBy", "who made it", lambda one: one.created_by),
                org_lists.text("updatedBy", "who changed it last", lambda one: one.updated_by),
                org_lists.time("createdAt", "when it was made", lambda one: one.created_at.ToDatetime()),
                org_lists.time("updatedAt", "when it was changed last", lambda one: one.updated_at.ToDatetime()),
            ],
            lambda one: one.id,
        )

    def operations(self) -> list[Operation]:
        """What is served."""
        one = Answer("The department.", org_shapes.DEPARTMENT)
        taken, busy = refusal("The name is taken."), refusal("It has projects, or is always there.")
        page = Answer("A page.", org_shapes.page_of("Departments", "departments", org_shapes.DEPARTMENT))
        count = Answer("The number.", org_shapes.COUNT)
        made, changed = Body(org_shapes.DEPARTMENT_CREATION), Body(org_shapes.DEPARTMENT_UPDATE)
        some, patched = (Body(org_shapes.some(shape)) for shape in (org_shapes.QUOTA, org_shapes.QUOTA_CHANGE))
        at, below = f"{PATH}/{{departmentId}}", f"{PATH}/{{departmentId}}/resources"
        lists, counts, found = self._listing.parameters(), self._listing.count_parameters(), {200: one}
        gone = {204: Answer("Gone."), 409: busy}
        return [
            _operation(
                "POST", PATH, "create_department", "Make a department", self.create, {201: one, 409: taken}, body=made
            ),
            _operation("GET", PATH, "get_departments", "The departments", self.page, {200: page}, lists),
            _operation(
                "GET",
                f"{PATH}/count",
                "count_departments",
                "How many there are",
                self.count,
                {200: count},
                counts,
                since="muster",
            ),
            _operation("GET", at, "get_department", "One department", self.get, found, [_ID]),
            _operation("PUT", at, "update_department", "Change a department", self.update, found, [_ID], changed),
            _operation("DELETE", at, "delete_department", "Remove a department", self.delete, gone, [_ID]),
            _operation(
                "PUT", below, "update_department_resources", "Replace its quotas", self.replace, found, [_ID], some
            ),
            _operation(
                "PATCH", below, "patch_department_resources", "Change its quotas", self.patch, found, [_ID], patched
            ),
        ]

    async def create(self, request: Request) -> Response:
        """201 with the department."""
        fleet, found = Fleet(self._parts, request), Findings()
        body = found.object(await read_object(request), "", _CREATION)
        asked = read_department(body, await fleet.pools(), found)
        asked.name = found.text(body.get("name"), "name")
        asked.home_cluster = await home_cluster(self._parts, body.get("clusterId"), found)
        found.raise_any("the department")
        creation = api.CreateDepartmentRequest(department=asked, idempotency_key=idempotency_key(request))
        made = (await self._parts.organisation.CreateDepartment(creation, None)).department
        return answer(await self._shown(fleet, made), 201)

    async def page(self, request: Request) -> Response:
        """A page of what the caller may see."""
        fleet = Fleet(self._parts, request)
        page, following = self._listing.page(request, await self._visible())
        shown = [await self._shown(fleet, one) for one in page]
        return answer({"departments": shown, **({} if following is None else {"next": following})})

    async def count(self, request: Request) -> Response:
        """How many of what the caller may see pass."""
        return answer({"count": self._listing.count(request, await self._visible())})

    async def get(self, request: Request) -> Response:
        """One department."""
        return answer(await self._shown(Fleet(self._parts, request), await self._department(request)))

    async def update(self, request: Request) -> Response:
        """The department as it is now. 2.18 knows its quotas only: other parts stay where they are left out."""
        fleet, found, department = Fleet(self._parts, request), Findings(), await self._department(request)
        body = found.object(await read_object(request), "", _UPDATABLE)
        asked = read_department(body, await fleet.pools(), found)
        asked.name = department.name
        found.raise_any("the department")
        fields = {"schedulingRules": "rules", "nodeTypes": "node_types", "description": "description"}
        paths = ["quotas", *(field for member, field in fields.items() if member in body)]
        return answer(await self._shown(fleet, await self._update(request, asked, paths)))

    async def replace(self, request: Request) -> Response:
        """The department with these quotas and no others."""
        fleet, found, department = Fleet(self._parts, request), Findings(), await self._department(request)
        asked = Department(name=department.name)
        asked.quotas.extend(quotas.read(await read_array(request), "", await fleet.pools(), found))
        found.raise_any("the quotas")
        return answer(await self._shown(fleet, await self._update(request, asked, ["quotas"])))

    async def patch(self, request: Request) -> Response:
        """The department with these quotas changed."""
        fleet, found, department = Fleet(self._parts, request), Findings(), await self._department(request)
        asked = Department(name=department.name, version=department.version)
        asked.quotas.extend(quotas.patch(await read_array(request), "", await fleet.pools(), department.quotas, found))
        found.raise_any("the quotas")
        return answer(await self._shown(fleet, await self._update(request, asked, ["quotas"])))

    async def delete(self, request: Request) -> Response:
        """204."""
        department = await self._department(request)
        asked = api.DeleteDepartmentRequest(name=department.name, idempotency_key=idempotency_key(request))
        await self._parts.organisation.DeleteDepartment(asked, None)
        return nothing()

    async def _update(self, request: Request, asked: Department, paths: Sequence[str]) -> Department:
        change = api.UpdateDepartmentRequest(
            department=asked, update_mask=FieldMask(paths=paths), idempotency_key=idempotency_key(request)
        )
        changed: Department = (await self._parts.organisation.UpdateDepartment(change, None)).department
        return changed

    async def _department(self, request: Request) -> Department:
        """The department of the path, where the caller may see it."""
        given = request.path_params["departmentId"]
        absent = NoSuchDepartment(f"no department has the id {given[:40]!r}; GET {PATH} lists them")
        number = number_of(given)
        found = None if number is None else await self._parts.tenancy.department_by_id(number)
        if found is None:
            raise absent
        rights = await self._parts.access.rights(caller())
        rights.require(Verb.DEPARTMENTS_READ, department=found.name, absent=absent)
        return found

    async def _visible(self) -> list[Department]:
        seen = (await self._parts.access.rights(caller())).departments(Verb.DEPARTMENTS_READ)
        return [one for one in await self._parts.tenancy.all_departments() if seen is None or one.name in seen]

    async def _shown(self, fleet: Fleet, department: Department) -> dict[str, Any]:
        everyone = await self._parts.tenancy.all_projects()
        inside = [one.name for one in everyone if one.department == department.name]
        accounts = await fleet.accounts(inside) if inside else []
        return write_department(department, Surroundings(await fleet.pools(department.home_cluster), accounts))


def _cluster(one: Department) -> str:
    return shown_cluster(one.home_cluster)


def _operation(  # noqa: PLR0913, PLR0917 - an operation as it is, with its tag
    method: Any,
    path: str,
    name: str,
    summary: str,
    handler: Any,
    answers: Any,
    parameters: Any = (),
    body: Body | None = None,
    since: str = "2.18",
) -> Operation:
    return Operation(method, path, name, _TAG, summary, handler, answers, parameters, body, since)


def operations(parts: Parts) -> list[Operation]:
    """Departments."""
    return Departments(parts).operations()
