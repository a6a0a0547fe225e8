"""Departments and projects in PostgreSQL, with all of them in memory: every submission and every list asks for some.

Holds: memory is changed after the transaction that changed the tables (rule 9), and is at most half a second behind
what another instance did. Changes carry numbers in commit order, so that catching up reads only what is new.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from types import MappingProxyType
from typing import Any, Final

import asyncpg

from muster.tenancy.v1.tenancy_pb2 import Department, Project
from muster_chassis.unit import Unit

FRESH: Final = 0.5
"""Seconds for which memory counts without asking."""
_NEVER: Final = float("-inf")
_SOME: Final = 10
_LAST: Final = "SELECT last FROM tenancy_change"
_NEXT: Final = "UPDATE tenancy_change SET last = last + 1 RETURNING last"
_PROJECTS: Final = "SELECT record FROM projects WHERE change > $1 AND change <= $2"
_DEPARTMENTS: Final = "SELECT record FROM departments WHERE change > $1 AND change <= $2"
_LEFT: Final = "SELECT aggregate, version FROM tenancy_left WHERE change > $1 AND change <= $2"
_ADD_PROJECT: Final = """
INSERT INTO projects (name, id, namespace, department, version, change, cluster, created_at, updated_at, created_by,
                      updated_by, record)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8, $9, $9, $10) ON CONFLICT DO NOTHING RETURNING true
"""
_SAVE_PROJECT: Final = """
UPDATE projects SET version = $2, change = $3, updated_at = $4, updated_by = $5, record = $6 WHERE name = $1
"""
_ADD_DEPARTMENT: Final = """
INSERT INTO departments (name, id, version, change, cluster, created_at, updated_at, created_by, updated_by, record)
VALUES ($1, $2, $3, $4, $5, $6, $6, $7, $7, $8) ON CONFLICT DO NOTHING RETURNING true
"""
_SAVE_DEPARTMENT: Final = """
UPDATE departments SET version = $2, change = $3, updated_at = $4, updated_by = $5, record = $6 WHERE name = $1
"""
_LEAVE: Final = """
INSERT INTO tenancy_left AS l (aggregate, version, change) VALUES ($1, $2, $3)
ON CONFLICT (aggregate) DO UPDATE SET version = greatest(l.version, excluded.version), change = excluded.change
"""
# What belongs to a project goes with it: one that is made anew under its name would otherwise inherit it.
_GO_WITH_PROJECT: Final = (
    "DELETE FROM access_rules WHERE scope_kind = 'project' AND scope = $1",
    "DELETE FROM triggers WHERE project = $1",
    "DELETE FROM firings WHERE project = $1",
    "DELETE FROM applied WHERE project = $1",
    "DELETE FROM secrets WHERE holder IN (SELECT id FROM templates WHERE project = $1)",
)


class PostgresTenancy:
    """Tenancy on PostgreSQL."""

    def __init__(
        self, pool: asyncpg.Pool, changed: Callable[[], None] = lambda: None, *, clock: Callable[[], float] = monotonic
    ) -> None:
        """changed: called after every change, for whoever keeps something that follows from tenancy."""
        self._pool = pool
        self._changed = changed
        self._clock = clock
        self._asked = _NEVER
        self._asking = asyncio.Lock()
        self._seen = 0
        self._projects: dict[str, Project] = {}
        self._departments: dict[str, Department] = {}
        self._by_id: dict[int, str] = {}
        self._by_namespace: dict[str, str] = {}
        self._departments_by_id: dict[int, str] = {}

    # -- questions, from memory

    async def project(self, name: str) -> Project | None:
        """A project."""
        await self._follow()
        if name not in self._projects:
            await self._follow(at_once=True)
        return self._projects.get(name)

    async def project_by_id(self, number: int) -> Project | None:
        """The project of that number."""
        await self._follow(at_once=number not in self._by_id)
        return self._projects.get(self._by_id.get(number, ""))

    async def project_of_namespace(self, namespace: str) -> Project | None:
        """The project whose namespace it is."""
        await self._follow(at_once=namespace not in self._by_namespace)
        return self._projects.get(self._by_namespace.get(namespace, ""))

    async def all_projects(self) -> Sequence[Project]:
        """Every project, in no order."""
        await self._follow()
        return list(self._projects.values())

    async def memory(self) -> tuple[Mapping[str, Project], Mapping[str, Department]]:
        """All projects and departments by name, to look into and not to keep: thousands are not copied for a page."""
        await self._follow()
        return MappingProxyType(self._projects), MappingProxyType(self._departments)

    async def known_department(self, name: str) -> Department | None:
        """A department."""
        await self._follow(at_once=name not in self._departments)
        return self._departments.get(name)

    async def department_by_id(self, number: int) -> Department | None:
        """The department of that number."""
        await self._follow(at_once=number not in self._departments_by_id)
        return self._departments.get(self._departments_by_id.get(number, ""))

    async def all_departments(self) -> Sequence[Department]:
        """Every department, in no order."""
        await self._follow()
        return list(self._departments.values())

    # -- questions, from the tables

    async def some_names(self, unit: Unit | None = None) -> Sequence[str]:
        """The first names of projects."""
        rows = await (self._pool if unit is None else unit.connection).fetch(
            "SELECT name FROM projects ORDER BY name LIMIT $1", _SOME
        )
        return [row["name"] for row in rows]

    async def department(self, unit: Unit, name: str) -> Department | None:
        """A department; it cannot be removed before the transaction has ended."""
        found = await unit.connection.fetchval("SELECT record FROM departments WHERE name = $1 FOR KEY SHARE", name)
        return None if found is None else Department.FromString(found)

    async def lock_project(self, unit: Unit, name: str) -> Project | None:
        """A project, locked until the transaction ends."""
        found = await unit.connection.fetchval("SELECT record FROM projects WHERE name = $1 FOR UPDATE", name)
        return None if found is None else Project.FromString(found)

    async def lock_department(self, unit: Unit, name: str) -> Department | None:
        """A department, locked until the transaction ends."""
        found = await unit.connection.fetchval("SELECT record FROM departments WHERE name = $1 FOR UPDATE", name)
        return None if found is None else Department.FromString(found)

    async def live_workloads(self, unit: Unit, project: str) -> int:
        """How many workloads of a project have not ended."""
        return int(
            await unit.connection.fetchval("SELECT count(*) FROM workloads WHERE project = $1 AND NOT ended", project)
        )

    async def projects_in(self, unit: Unit, department: str) -> Sequence[str]:
        """The first names of the projects in a department."""
        rows = await unit.connection.fetch(
            "SELECT name FROM projects WHERE department = $1 ORDER BY name LIMIT $2", department, _SOME
        )
        return [row["name"] for row in rows]

    # -- changes

    async def add_department(self, unit: Unit, department: Department) -> bool:
        """Makes a department and gives it its number and version; False where the name is taken."""
        department.id = await unit.connection.fetchval("SELECT nextval('department_ids')")
        department.version = await self._first_version(unit, f"department/{department.name}")
        made = await unit.connection.fetchval(
            _ADD_DEPARTMENT,
            department.name,
            department.id,
            department.version,
            await unit.connection.fetchval(_NEXT),
            department.home_cluster,
            unit.now,
            department.created_by,
            department.SerializeToString(),
        )
        if made:
            self._after(unit, lambda: self._keep_department(department))
        return bool(made)

    async def add_project(self, unit: Unit, project: Project) -> str:
        """Makes a project and gives it its number and version; returns '' or what is taken: name or namespace."""
        project.id = await unit.connection.fetchval("SELECT nextval('project_ids')")
        project.version = await self._first_version(unit, f"project/{project.name}")
        made = await unit.connection.fetchval(
            _ADD_PROJECT,
            project.name,
            project.id,
            project.namespace,
            project.department,
            project.version,
            await unit.connection.fetchval(_NEXT),
            project.home_cluster,
            unit.now,
            project.created_by,
            project.SerializeToString(),
        )
        if made:
            self._after(unit, lambda: self._keep_project(project))
            return ""
        named = await unit.connection.fetchval("SELECT true FROM projects WHERE name = $1", project.name)
        return "name" if named else "namespace"

    async def save_project(self, unit: Unit, project: Project) -> None:
        """Writes a locked project."""
        await self._save(unit, _SAVE_PROJECT, project)
        self._after(unit, lambda: self._keep_project(project))

    async def save_department(self, unit: Unit, department: Department) -> None:
        """Writes a locked department."""
        await self._save(unit, _SAVE_DEPARTMENT, department)
        self._after(unit, lambda: self._keep_department(department))

    async def remove_project(self, unit: Unit, project: Project) -> Sequence[str]:
        """Removes a locked project with what belongs to it; returns the ids of the templates that went with it."""
        await unit.connection.execute("DELETE FROM projects WHERE name = $1", project.name)
        for statement in _GO_WITH_PROJECT:
            await unit.connection.execute(statement, project.name)
        gone = await unit.connection.fetch("DELETE FROM templates WHERE project = $1 RETURNING id::text", project.name)
        await self._leave(unit, f"project/{project.name}", project.version)
        self._after(unit, lambda: self._drop(f"project/{project.name}", project.version))
        return [row["id"] for row in gone]

    async def remove_department(self, unit: Unit, department: Department) -> None:
        """Removes a locked department without projects."""
        await unit.connection.execute("DELETE FROM departments WHERE name = $1", department.name)
        await unit.connection.execute(
            "DELETE FROM access_rules WHERE scope_kind = 'department' AND scope = $1", department.name
        )
        await self._leave(unit, f"department/{department.name}", department.version)
        self._after(unit, lambda: self._drop(f"department/{department.name}", department.version))

    def _after(self, unit: Unit, follow: Callable[[], None]) -> None:
        unit.after_commit(follow)
        unit.after_commit(self._changed)

    async def _save(self, unit: Unit, statement: str, one: Project | Department) -> None:
        number = await unit.connection.fetchval(_NEXT)
        await unit.connection.execute(
            statement, one.name, one.version, number, unit.now, one.updated_by, one.SerializeToString()
        )

    async def _leave(self, unit: Unit, aggregate: str, version: int) -> None:
        await unit.connection.execute(_LEAVE, aggregate, version, await unit.connection.fetchval(_NEXT))

    @staticmethod
    async def _first_version(unit: Unit, aggregate: str) -> int:
        last = await unit.connection.fetchval("SELECT version FROM tenancy_left WHERE aggregate = $1", aggregate)
        return (last or 0) + 1

    # -- memory

    async def _follow(self, *, at_once: bool = False) -> None:
        """Catches up where memory is older than FRESH, or `at_once`."""
        if not at_once and self._clock() - self._asked < FRESH:
            return
        async with self._asking:
            # The clock is read before the question: an answer that took long is as old as its question.
            asked = self._clock()
            last = await self._pool.fetchval(_LAST)
            if last > self._seen:
                await self._read(last)
            self._asked = asked

    async def _read(self, last: int) -> None:
        span = self._seen, last
        projects, departments, left = [
            await self._pool.fetch(statement, *span) for statement in (_PROJECTS, _DEPARTMENTS, _LEFT)
        ]
        for row in left:
            self._drop(row["aggregate"], row["version"])
        for row in departments:
            self._keep_department(Department.FromString(row["record"]))
        for row in projects:
            self._keep_project(Project.FromString(row["record"]))
        self._seen = last

    def _keep_project(self, project: Project) -> None:
        if _newer(self._projects.get(project.name), project.version):
            self._projects[project.name] = project
            self._by_id[project.id] = self._by_namespace[project.namespace] = project.name

    def _keep_department(self, department: Department) -> None:
        if _newer(self._departments.get(department.name), department.version):
            self._departments[department.name] = department
            self._departments_by_id[department.id] = department.name

    def _drop(self, aggregate: str, version: int) -> None:
        kind, _, name = aggregate.partition("/")
        if kind == "project" and (project := self._projects.get(name)) and project.version <= version:
            del self._projects[name], self._by_id[project.id], self._by_namespace[project.namespace]
        if kind == "department" and (department := self._departments.get(name)) and department.version <= version:
            del self._departments[name], self._departments_by_id[department.id]


def _newer(known: Any, version: int) -> bool:
    return known is None or known.version <= version
