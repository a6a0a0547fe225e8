"""Departments and projects in PostgreSQL, with a memory of the projects: every submission asks for one.

Holds: memory is changed after the transaction that changed the table (rule 9). A project that another instance made is
found in the table; one that it changed is known here with an older version, which policy takes just as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import asyncpg

from muster.tenancy.v1.tenancy_pb2 import Department, Project
from muster_chassis.unit import Unit

_ADD: Final = """
INSERT INTO projects (name, namespace, version, record) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING RETURNING true
"""
_SAVE: Final = "UPDATE projects SET namespace = $2, version = $3, record = $4 WHERE name = $1"
_SOME: Final = 10


class PostgresTenancy:
    """Tenancy on PostgreSQL."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._projects: dict[str, Project] = {}

    async def project(self, name: str) -> Project | None:
        """A project; from memory where it is known."""
        known = self._projects.get(name)
        if known is not None or "\x00" in name:
            return known
        return self._remembered(await self._pool.fetchval("SELECT record FROM projects WHERE name = $1", name))

    async def project_of_namespace(self, namespace: str) -> Project | None:
        """The project whose namespace it is."""
        if "\x00" in namespace:
            return None
        found = await self._pool.fetchval("SELECT record FROM projects WHERE namespace = $1", namespace)
        return self._remembered(found)

    async def some_names(self, unit: Unit | None = None) -> Sequence[str]:
        """The first names of projects."""
        rows = await (self._pool if unit is None else unit.connection).fetch(
            "SELECT name FROM projects ORDER BY name LIMIT $1", _SOME
        )
        return [row["name"] for row in rows]

    async def page(self, size: int, after: str) -> Sequence[Project]:
        """Projects by name."""
        rows = await self._pool.fetch("SELECT record FROM projects WHERE name > $1 ORDER BY name LIMIT $2", after, size)
        return [Project.FromString(row["record"]) for row in rows]

    async def department(self, unit: Unit, name: str) -> Department | None:
        """A department."""
        found = await unit.connection.fetchval("SELECT record FROM departments WHERE name = $1", name)
        return None if found is None else Department.FromString(found)

    async def add_department(self, unit: Unit, department: Department) -> bool:
        """Makes a department; False where it is there already."""
        made = await unit.connection.fetchval(
            "INSERT INTO departments (name, record) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING true",
            department.name,
            department.SerializeToString(),
        )
        return bool(made)

    async def add_project(self, unit: Unit, project: Project) -> str:
        """Makes a project; returns '' or what is taken: name or namespace."""
        record = project.SerializeToString()
        if await unit.connection.fetchval(_ADD, project.name, project.namespace, project.version, record):
            unit.after_commit(lambda: self._keep(project))
            return ""
        named = await unit.connection.fetchval("SELECT true FROM projects WHERE name = $1", project.name)
        return "name" if named else "namespace"

    async def lock_project(self, unit: Unit, name: str) -> Project | None:
        """A project, locked until the transaction ends."""
        found = await unit.connection.fetchval("SELECT record FROM projects WHERE name = $1 FOR UPDATE", name)
        return None if found is None else Project.FromString(found)

    async def save_project(self, unit: Unit, project: Project) -> None:
        """Writes a locked project."""
        await unit.connection.execute(
            _SAVE, project.name, project.namespace, project.version, project.SerializeToString()
        )
        unit.after_commit(lambda: self._keep(project))

    def _keep(self, project: Project) -> None:
        known = self._projects.get(project.name)
        if known is None or known.version <= project.version:
            self._projects[project.name] = project

    def _remembered(self, record: bytes | None) -> Project | None:
        if record is None:
            return None
        project = Project.FromString(record)
        self._keep(project)
        return project
