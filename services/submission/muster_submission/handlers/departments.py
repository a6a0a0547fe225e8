"""Making, changing and removing departments; every change goes out on muster.tenancy.

Called by the rpc and the REST routes, each call once under an idempotency key, and once at start for the department
`default`, which is always there.
"""

from __future__ import annotations

from typing import Final

from google.protobuf.field_mask_pb2 import FieldMask

from muster.events.v1 import submission_pb2 as events
from muster.tenancy.v1.tenancy_pb2 import Department, PoolQuota
from muster_chassis.topics import TENANCY
from muster_chassis.unit import Unit
from muster_submission.domain.tenancy import (
    DEFAULT_DEPARTMENT,
    check_department,
    check_limits,
    check_quotas,
)
from muster_submission.errors import DraftRefused, NameTaken, NoSuchDepartment, StillInUse
from muster_submission.handlers.changes import limits_of, put_quota, quotas_of, take
from muster_submission.ports import Tenancy

CHANGEABLE: Final = ("quotas", "model_quotas", "rules", "node_types", "rank", "description")


class Departments:
    """Changes departments."""

    def __init__(self, tenancy: Tenancy) -> None:
        self._tenancy = tenancy

    async def ensure_default(self, unit: Unit) -> None:
        """Makes the department that is always there. A second call changes nothing."""
        if await self._tenancy.department(unit, DEFAULT_DEPARTMENT) is None:
            department = Department(name=DEFAULT_DEPARTMENT, created_by="muster", updated_by="muster")
            await self._make(unit, department)

    async def create(self, unit: Unit, asked: Department, by: str) -> Department:
        """Makes a department. Raises DraftRefused and NameTaken."""
        problems = [*check_department(asked.name, quotas_of(asked.quotas)), *check_limits(limits_of(asked))]
        if problems:
            raise DraftRefused("the department", problems)
        department = Department()
        department.CopyFrom(asked)
        department.created_by = department.updated_by = by
        if not await self._make(unit, department):
            raise NameTaken(f"a department {asked.name!r} exists: choose another name, or change that one")
        return department

    async def update(self, unit: Unit, asked: Department, mask: FieldMask, by: str) -> Department:
        """Changes what the mask names. Raises NoSuchDepartment, ChangedMeanwhile and DraftRefused."""
        department = await self._locked(unit, asked.name)
        take(department, asked, mask, CHANGEABLE)
        problems = [*check_quotas(quotas_of(department.quotas)), *check_limits(limits_of(department))]
        if problems:
            raise DraftRefused("the department", problems)
        return await self._save(unit, department, by)

    async def set_quota(self, unit: Unit, name: str, quota: PoolQuota, by: str) -> Department:
        """Sets the quota of one node pool; it replaces the one that is there. Raises DraftRefused, NoSuchDepartment."""
        department = await self._locked(unit, name)
        put_quota(department, quota)
        return await self._save(unit, department, by)

    async def delete(self, unit: Unit, name: str) -> None:
        """Removes a department without projects. Raises NoSuchDepartment and StillInUse."""
        department = await self._locked(unit, name)
        if name == DEFAULT_DEPARTMENT:
            raise StillInUse(f"department {name} is always there: projects go into it that name no other")
        projects = await self._tenancy.projects_in(unit, name)
        if projects:
            raise StillInUse(f"department {name} has projects ({', '.join(projects)}): delete them first")
        await self._tenancy.remove_department(unit, department)
        unit.publish(TENANCY, f"department/{name}", None)

    async def _make(self, unit: Unit, department: Department) -> bool:
        for stamp in (department.created_at, department.updated_at):
            stamp.FromDatetime(unit.now)
        made = await self._tenancy.add_department(unit, department)
        if made:
            _tell(unit, department)
        return made

    async def _locked(self, unit: Unit, name: str) -> Department:
        department = None if "\x00" in name else await self._tenancy.lock_department(unit, name)
        if department is None:
            raise NoSuchDepartment(f"department {name!r} does not exist; `muster departments` lists them")
        return department

    async def _save(self, unit: Unit, department: Department, by: str) -> Department:
        department.version += 1
        department.updated_by = by
        department.updated_at.FromDatetime(unit.now)
        await self._tenancy.save_department(unit, department)
        _tell(unit, department)
        return department


def _tell(unit: Unit, department: Department) -> None:
    unit.publish(TENANCY, f"department/{department.name}", events.DepartmentChanged(department=department))
