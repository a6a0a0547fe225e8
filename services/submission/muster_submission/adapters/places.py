"""What projects and clusters are called by callers: ids, departments, UUIDs, from the memory of tenancy.

Asked once a list, before its filter and its order are read: both may name a project by its id or its department, and
the answer does so too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import asyncpg

from muster.tenancy.v1.tenancy_pb2 import Department, Project
from muster_submission.adapters.tenancy import PostgresTenancy
from muster_submission.domain.filtering import Places
from muster_submission.domain.fleet import cluster_uuid

# From one name to the next, not over all entries: there are a handful of clusters and a million rows.
_CLUSTERS: Final = """
WITH RECURSIVE c (name) AS (
    (SELECT cluster FROM workload_list WHERE {there} ORDER BY cluster LIMIT 1)
    UNION ALL
    SELECT (SELECT l.cluster FROM workload_list l WHERE {there} AND l.cluster > c.name ORDER BY l.cluster LIMIT 1)
    FROM c WHERE c.name IS NOT NULL
) SELECT name FROM c WHERE name <> '' LIMIT 10000
"""
# Deleted workloads may have run in clusters that have none now.
_NAMED: Final = f"({_CLUSTERS.format(there='NOT gone')}) UNION ({_CLUSTERS.format(there='gone')})"


@dataclass(frozen=True, slots=True)
class Directory:
    """Projects and departments by name; clusters that have or had a workload, where they were asked for."""

    projects: Mapping[str, Project]
    departments: Mapping[str, Department]
    clusters: tuple[str, ...]

    def department(self, project: str) -> Department:
        """The department of a project; an empty one where either is unknown."""
        known = self.projects.get(project)
        return self.departments.get(known.department, Department()) if known else Department()

    def places(self) -> Places:
        """What filters and orders look up."""
        return Places(
            {
                "projectId": lambda: ((name, str(one.id)) for name, one in self.projects.items()),
                "departmentName": lambda: ((name, one.department) for name, one in self.projects.items()),
                "departmentId": lambda: ((name, str(self.department(name).id)) for name in self.projects),
                "clusterId": lambda: ((name, cluster_uuid(name)) for name in self.clusters),
            }
        )


class DirectoryBooks:
    """Makes directories."""

    def __init__(self, pool: asyncpg.Pool, tenancy: PostgresTenancy) -> None:
        self._pool = pool
        self._tenancy = tenancy

    async def now(self, *, clusters: bool = True) -> Directory:
        """The directory of this moment; without `clusters` nothing is asked of the database."""
        projects, departments = await self._tenancy.memory()
        named = [row["name"] for row in await self._pool.fetch(_NAMED)] if clusters else []
        return Directory(projects, departments, tuple(named))
