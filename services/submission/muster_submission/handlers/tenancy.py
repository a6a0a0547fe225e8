"""Making, changing and removing projects; every change goes out on muster.tenancy.

Called by the rpc and the REST routes, each call once under an idempotency key. Holds: what is published is what the
table has, in the same transaction.
"""

from __future__ import annotations

from typing import Final

from google.protobuf.field_mask_pb2 import FieldMask

from muster.api.v1 import tenancy_pb2 as api
from muster.events.v1 import submission_pb2 as events
from muster.tenancy.v1.tenancy_pb2 import PoolQuota, Project
from muster_chassis.topics import TENANCY
from muster_chassis.unit import Unit
from muster_submission.domain.problems import Problem
from muster_submission.domain.tenancy import (
    DEFAULT_DEPARTMENT,
    check_default_pools,
    check_limits,
    check_project,
    check_quotas,
    namespace_of,
)
from muster_submission.errors import DraftRefused, NameTaken, NoSuchProject, StillInUse
from muster_submission.handlers.changes import limits_of, put_quota, quotas_of, rules_of, take
from muster_submission.ports import Tenancy

CHANGEABLE: Final = (
    "quotas",
    "model_quotas",
    "user_limits",
    "rules",
    "node_types",
    "default_node_pools",
    "rank",
    "description",
)


class Projects:
    """Changes projects."""

    def __init__(self, tenancy: Tenancy) -> None:
        self._tenancy = tenancy

    async def create(self, unit: Unit, asked: api.CreateProjectRequest, by: str) -> Project:
        """Makes a project. Raises DraftRefused and NameTaken."""
        project = _asked(asked)
        problems = check_project(asked.name, asked.namespace, quotas_of(asked.quotas), list(asked.default_node_pools))
        problems += await self._beside_quotas(unit, project)
        if problems:
            raise DraftRefused("the project", problems)
        project.created_by = project.updated_by = by
        for stamp in (project.created_at, project.updated_at):
            stamp.FromDatetime(unit.now)
        taken = await self._tenancy.add_project(unit, project)
        if taken:
            value = project.name if taken == "name" else project.namespace
            raise NameTaken(f"a project with the {taken} {value!r} exists: choose another, or change that one")
        _tell(unit, project)
        return project

    async def update(self, unit: Unit, asked: Project, mask: FieldMask, by: str) -> Project:
        """Changes what the mask names. Raises NoSuchProject, ChangedMeanwhile and DraftRefused."""
        project = await self._locked(unit, asked.name)
        take(project, asked, mask, CHANGEABLE)
        problems = [*check_quotas(quotas_of(project.quotas)), *check_default_pools(list(project.default_node_pools))]
        problems += await self._beside_quotas(unit, project)
        if problems:
            raise DraftRefused("the project", problems)
        return await self._save(unit, project, by)

    async def set_quota(self, unit: Unit, name: str, quota: PoolQuota, by: str) -> Project:
        """Sets the quota of one node pool; it replaces the one that is there. Raises DraftRefused and NoSuchProject."""
        project = await self._locked(unit, name)
        put_quota(project, quota)
        return await self._save(unit, project, by)

    async def delete(self, unit: Unit, name: str) -> None:
        """Removes a project with its templates, triggers and access rules. Raises NoSuchProject and StillInUse.

        A submission that is under way may still land: it then waits, and says that its project does not exist.
        """
        project = await self._locked(unit, name)
        live = await self._tenancy.live_workloads(unit, name)
        if live:
            raise StillInUse(
                f"project {name} has {live} workload{'' if live == 1 else 's'} that {'has' if live == 1 else 'have'} "
                f"not ended: `muster delete` them first (`muster list --project {name}` shows them)"
            )
        for template in await self._tenancy.remove_project(unit, project):
            unit.publish(TENANCY, f"template/{template}", None)
        unit.publish(TENANCY, f"project/{name}", None)

    async def _beside_quotas(self, unit: Unit, project: Project) -> list[Problem]:
        """What is wrong with everything but names and quotas; the department has to be there."""
        # A NUL would be refused by the database, not by us.
        named = "\x00" not in project.department
        department = await self._tenancy.department(unit, project.department) if named else None
        if department is None:
            missing = Problem(
                "department", f"department {project.department!r} does not exist; {DEFAULT_DEPARTMENT} does"
            )
            return [missing, *check_limits(limits_of(project))]
        return check_limits(limits_of(project), rules_of(department.rules))

    async def _locked(self, unit: Unit, name: str) -> Project:
        project = None if "\x00" in name else await self._tenancy.lock_project(unit, name)
        if project is None:
            names = ", ".join(await self._tenancy.some_names(unit))
            raise NoSuchProject(f"project {name!r} does not exist; there {f'are {names}' if names else 'is none yet'}")
        return project

    async def _save(self, unit: Unit, project: Project, by: str) -> Project:
        project.version += 1
        project.updated_by = by
        project.updated_at.FromDatetime(unit.now)
        await self._tenancy.save_project(unit, project)
        _tell(unit, project)
        return project


def _asked(asked: api.CreateProjectRequest) -> Project:
    return Project(
        name=asked.name,
        department=asked.department or DEFAULT_DEPARTMENT,
        namespace=namespace_of(asked.name, asked.namespace),
        quotas=asked.quotas,
        default_node_pools=asked.default_node_pools,
        description=asked.description,
        model_quotas=asked.model_quotas,
        user_limits=asked.user_limits,
        rules=asked.rules if asked.HasField("rules") else None,
        node_types=asked.node_types if asked.HasField("node_types") else None,
        rank=asked.rank,
        home_cluster=asked.home_cluster,
    )


def _tell(unit: Unit, project: Project) -> None:
    unit.publish(TENANCY, f"project/{project.name}", events.ProjectChanged(project=project))
