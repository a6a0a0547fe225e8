"""Making departments and projects, and setting quotas; every change goes out on muster.tenancy.

Called by the rpc under an idempotency key, and once at start for the department `default`.
"""

from __future__ import annotations

from collections.abc import Sequence

from google.protobuf.message import Message

from muster.api.v1 import tenancy_pb2 as api
from muster.events.v1 import submission_pb2 as events
from muster.tenancy.v1.tenancy_pb2 import Department, PoolQuota, Project
from muster_chassis.topics import TENANCY
from muster_chassis.unit import Unit
from muster_submission.domain.problems import Problem
from muster_submission.domain.tenancy import DEFAULT_DEPARTMENT, Quota, check_project, check_quota, namespace_of
from muster_submission.errors import DraftRefused, NameTaken, NoSuchProject
from muster_submission.ports import Tenancy


class Projects:
    """Changes departments and projects."""

    def __init__(self, tenancy: Tenancy) -> None:
        self._tenancy = tenancy

    async def ensure_default_department(self, unit: Unit) -> None:
        """Makes the department that is always there. A second call changes nothing."""
        department = Department(name=DEFAULT_DEPARTMENT)
        department.created_at.FromDatetime(unit.now)
        if await self._tenancy.add_department(unit, department):
            _tell(unit, f"department/{department.name}", events.DepartmentChanged(department=department))

    async def create(self, unit: Unit, asked: api.CreateProjectRequest) -> Project:
        """Makes a project. Raises DraftRefused and NameTaken."""
        problems = check_project(asked.name, asked.namespace, _quotas(asked.quotas), list(asked.default_node_pools))
        department = asked.department or DEFAULT_DEPARTMENT
        if not problems and await self._tenancy.department(unit, department) is None:
            problems.append(
                Problem("department", f"department {department!r} does not exist; {DEFAULT_DEPARTMENT} does")
            )
        if problems:
            raise DraftRefused("the project", problems)
        project = Project(
            name=asked.name,
            department=department,
            namespace=namespace_of(asked.name, asked.namespace),
            quotas=asked.quotas,
            default_node_pools=asked.default_node_pools,
            version=1,
        )
        project.created_at.FromDatetime(unit.now)
        taken = await self._tenancy.add_project(unit, project)
        if taken:
            value = project.name if taken == "name" else project.namespace
            raise NameTaken(f"a project with the {taken} {value!r} exists: choose another, or change that one")
        _tell(unit, f"project/{project.name}", events.ProjectChanged(project=project))
        return project

    async def set_quota(self, unit: Unit, name: str, quota: PoolQuota) -> Project:
        """Sets the quota of one node pool; it replaces the one that is there. Raises DraftRefused and NoSuchProject."""
        problems = check_quota("quota", _quota(quota))
        if problems:
            raise DraftRefused("the quota", problems)
        project = None if "\x00" in name else await self._tenancy.lock_project(unit, name)
        if project is None:
            names = ", ".join(await self._tenancy.some_names(unit))
            raise NoSuchProject(f"project {name!r} does not exist; there {f'are {names}' if names else 'is none yet'}")
        for known in project.quotas:
            if known.node_pool == quota.node_pool:
                known.CopyFrom(quota)
                break
        else:
            project.quotas.append(quota)
        project.version += 1
        await self._tenancy.save_project(unit, project)
        _tell(unit, f"project/{project.name}", events.ProjectChanged(project=project))
        return project


def _tell(unit: Unit, aggregate: str, message: Message) -> None:
    unit.publish(TENANCY, aggregate, message)


def _quotas(quotas: Sequence[PoolQuota]) -> list[Quota]:
    return [_quota(one) for one in quotas]


def _quota(one: PoolQuota) -> Quota:
    limit = one.gpu_limit if one.HasField("gpu_limit") else None
    return Quota(one.node_pool, one.gpu_deserved, limit, one.over_quota_weight_milli)
