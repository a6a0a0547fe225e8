"""/api/v1/org-unit/departments: departments with their quotas, rules and what their projects use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from google.protobuf.field_mask_pb2 import FieldMask
from starlette.requests import Request

from muster.api.v1 import tenancy_pb2 as api
from muster.fleet.v1.fleet_pb2 import Account
from muster.tenancy.v1.tenancy_pb2 import Department, PoolQuota
from muster_chassis.errors import ServiceError
from muster_submission.domain.access import Verb
from muster_submission.errors import NoSuchDepartment
from muster_submission.handlers.access import Rights
from muster_submission.rest import org_shapes
from muster_submission.rest.fleet_view import Asking, Fleet
from muster_submission.rest.members import Findings
from muster_submission.rest.operation import Operation, Shape
from muster_submission.rest.org_lists import Column
from muster_submission.rest.org_routes import OrgUnits
from muster_submission.rest.org_units import Surroundings, read_department, write_department
from muster_submission.rest.parts import Parts
from muster_submission.rest.quotas import Pools
from muster_submission.rest.requests import idempotency_key

_FIELDS: Final = {"schedulingRules": "rules", "nodeTypes": "node_types", "description": "description"}


class Departments(OrgUnits[Department]):
    """Departments."""

    noun = "department"
    tag = "Departments"
    path = "/api/v1/org-unit/departments"
    updatable = ("resources", *_FIELDS)
    shapes: ClassVar[tuple[Shape, Shape, Shape]] = (
        org_shapes.DEPARTMENT,
        org_shapes.DEPARTMENT_CREATION,
        org_shapes.DEPARTMENT_UPDATE,
    )

    def more_columns(self) -> Iterable[Column[Department]]:
        """None."""
        return []

    async def every(self) -> Iterable[Department]:
        """All departments."""
        return await self._parts.tenancy.all_departments()

    async def by_id(self, number: int) -> Department | None:
        """The department with that number."""
        return await self._parts.tenancy.department_by_id(number)

    def seen(self, rights: Rights) -> frozenset[str] | None:
        """The departments that the caller may see."""
        return rights.departments(Verb.DEPARTMENTS_READ)

    def require(self, rights: Rights, name: str, absent: ServiceError) -> None:
        """Raises `absent` where the caller may not see it."""
        rights.require(Verb.DEPARTMENTS_READ, department=name, absent=absent)

    def absent(self, given: str) -> NoSuchDepartment:
        """There is no such department."""
        return NoSuchDepartment(f"no department has the id {given!r}; GET {self.path} lists them")

    def read(self, body: Mapping[str, Any], pools: Pools, found: Findings) -> tuple[Department, list[str]]:
        """2.18 knows a department's quotas only: other parts stay where they are left out."""
        paths = ["quotas", *(field for member, field in _FIELDS.items() if member in body)]
        return read_department(body, pools, found), paths

    async def make(self, request: Request, body: Mapping[str, Any], asked: Department, found: Findings) -> Department:
        """Makes a department."""
        found.raise_any("the department")
        creation = api.CreateDepartmentRequest(department=asked, idempotency_key=idempotency_key(request))
        made: Department = (await self._parts.organisation.CreateDepartment(creation, Asking(request))).department
        return made

    def like(self, known: Department, changed: Sequence[PoolQuota], version: int = 0) -> Department:
        """That department with these quotas."""
        return Department(name=known.name, quotas=changed, version=version)

    async def change(self, request: Request, asked: Department, mask: FieldMask) -> Department:
        """Changes a department."""
        change = api.UpdateDepartmentRequest(
            department=asked, update_mask=mask, idempotency_key=idempotency_key(request)
        )
        changed: Department = (await self._parts.organisation.UpdateDepartment(change, Asking(request))).department
        return changed

    async def remove(self, request: Request, name: str) -> None:
        """Removes a department."""
        asked = api.DeleteDepartmentRequest(name=name, idempotency_key=idempotency_key(request))
        await self._parts.organisation.DeleteDepartment(asked, None)

    async def accounts(self, fleet: Fleet, units: Sequence[Department]) -> Mapping[str, Sequence[Account]]:
        """What their projects hold, in one question for all of them."""
        names = {one.name for one in units}
        inside = {
            one.name: one.department for one in await self._parts.tenancy.all_projects() if one.department in names
        }
        found: dict[str, list[Account]] = {}
        for account in await fleet.accounts(inside) if inside else ():
            found.setdefault(inside[account.project], []).append(account)
        return found

    async def write(self, unit: Department, pools: Pools, accounts: Sequence[Account]) -> dict[str, Any]:
        """A department as 2.18 shows it."""
        return write_department(unit, Surroundings(pools, accounts))


def operations(parts: Parts) -> list[Operation]:
    """Departments."""
    return Departments(parts).operations()
