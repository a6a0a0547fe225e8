"""Policy's books in PostgreSQL: one statement for a whole batch, whatever its size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from muster.events.v1.submission_pb2 import WorkloadSubmitted
from muster_chassis.connection import AnyConnection
from muster_chassis.unit import Unit
from muster_policy.ports import Department, Directory, Key, Project, Submission, Told

_VERDICTS: Final = """
SELECT v.workload_id, v.generation, v.type, v.message
FROM unnest($1::uuid[], $2::bigint[]) AS w(workload_id, generation)
JOIN verdicts v ON v.workload_id = w.workload_id AND v.generation = w.generation
"""
_RECORD: Final = """
INSERT INTO verdicts (workload_id, generation, type, message, at)
SELECT w, g, t, m, $5 FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::bytea[]) AS u(w, g, t, m)
"""
_CHANGE: Final = """
INSERT INTO projects AS p (name, version, node_pools, gone, id, department, home_cluster, namespace)
SELECT n, v, string_to_array(nullif(l, ''), ','), g, i, d, h, s
FROM unnest($1::text[], $2::bigint[], $3::text[], $4::boolean[], $5::bigint[], $6::text[], $7::text[],
            $8::text[]) AS u(n, v, l, g, i, d, h, s)
ON CONFLICT (name) DO UPDATE
SET gone = excluded.gone,
    version = CASE WHEN excluded.gone THEN p.version ELSE excluded.version END,
    node_pools = CASE WHEN excluded.gone THEN p.node_pools ELSE excluded.node_pools END,
    id = CASE WHEN excluded.gone THEN p.id ELSE excluded.id END,
    department = CASE WHEN excluded.gone THEN p.department ELSE excluded.department END,
    home_cluster = CASE WHEN excluded.gone THEN p.home_cluster ELSE excluded.home_cluster END,
    namespace = CASE WHEN excluded.gone THEN p.namespace ELSE excluded.namespace END
WHERE excluded.gone OR p.gone OR excluded.version >= p.version
"""
_CHANGE_DEPARTMENTS: Final = """
INSERT INTO departments AS d (name, version, id, gone)
SELECT n, v, i, g FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::boolean[]) AS u(n, v, i, g)
ON CONFLICT (name) DO UPDATE
SET gone = excluded.gone,
    version = CASE WHEN excluded.gone THEN d.version ELSE excluded.version END,
    id = CASE WHEN excluded.gone THEN d.id ELSE excluded.id END
WHERE excluded.gone OR d.gone OR excluded.version >= d.version
"""
_PROJECTS: Final = "SELECT name, version, node_pools, gone, id, department, home_cluster, namespace FROM projects"
_WAIT: Final = """
INSERT INTO waiting (workload_id, generation, project, needs, message, trace, at)
SELECT w, g, p, n, m, t, $7
FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::bigint[], $5::bytea[], $6::text[]) AS u(w, g, p, n, m, t)
ON CONFLICT (workload_id, generation) DO NOTHING
"""
_DUE: Final = """
DELETE FROM waiting WHERE (workload_id, generation) IN (
    SELECT w.workload_id, w.generation FROM waiting w JOIN projects p ON p.name = w.project
    WHERE p.gone OR p.version >= w.needs ORDER BY w.at LIMIT $1 FOR UPDATE OF w SKIP LOCKED)
RETURNING message, trace
"""
_DELETED: Final = "DELETE FROM waiting WHERE workload_id = ANY($1::uuid[])"


class PostgresBooks:
    """The books of one instance; the tables are the service's own."""

    async def verdicts(self, unit: Unit, keys: Iterable[Key]) -> Mapping[Key, Told]:
        """The verdicts that were given before."""
        wanted = list(keys)
        rows = await unit.connection.fetch(_VERDICTS, [key[0] for key in wanted], [key[1] for key in wanted])
        keyed = [((str(row["workload_id"]), int(row["generation"])), row) for row in rows]
        return {key: Told(key, row["type"], row["message"]) for key, row in keyed}

    async def record(self, unit: Unit, told: Sequence[Told]) -> None:
        """Keeps new verdicts."""
        await unit.connection.execute(
            _RECORD,
            [each.key[0] for each in told],
            [each.key[1] for each in told],
            [each.type for each in told],
            [each.value for each in told],
            unit.now,
        )

    async def projects(self, unit: Unit, names: Iterable[str]) -> Mapping[str, Project]:
        """The copies of the projects that are known."""
        rows = await unit.connection.fetch(f"{_PROJECTS} WHERE name = ANY($1::text[])", list(names))
        return {row["name"]: _project(row) for row in rows}

    async def change(self, unit: Unit, projects: Sequence[Project]) -> None:
        """Takes newer versions of projects; an older one changes nothing."""
        newest = {project.name: project for project in projects}  # one row a statement: the last one of the batch
        rows = list(newest.values())
        await unit.connection.execute(
            _CHANGE,
            [each.name for each in rows],
            [each.version for each in rows],
            [",".join(each.node_pools) for each in rows],
            [each.gone for each in rows],
            [each.id for each in rows],
            [each.department for each in rows],
            [each.home_cluster for each in rows],
            [each.namespace for each in rows],
        )

    async def change_departments(self, unit: Unit, departments: Sequence[Department]) -> None:
        """Takes newer versions of departments; an older one changes nothing."""
        rows = list({department.name: department for department in departments}.values())
        await unit.connection.execute(
            _CHANGE_DEPARTMENTS,
            [each.name for each in rows],
            [each.version for each in rows],
            [each.id for each in rows],
            [each.gone for each in rows],
        )

    async def tenancy(self, unit: Unit) -> Directory:
        """All projects and departments that there are."""
        projects = await unit.connection.fetch(f"{_PROJECTS} WHERE NOT gone")
        departments = await unit.connection.fetch("SELECT name, version, id FROM departments WHERE NOT gone")
        return Directory(
            {row["name"]: _project(row) for row in projects},
            {row["name"]: Department(row["name"], row["version"], row["id"]) for row in departments},
        )

    async def wait(self, unit: Unit, submissions: Sequence[Submission]) -> None:
        """Keeps submissions until the copy of their project is new enough."""
        await unit.connection.execute(
            _WAIT,
            [each.key[0] for each in submissions],
            [each.key[1] for each in submissions],
            [each.submitted.project for each in submissions],
            [each.submitted.tenancy_version for each in submissions],
            [each.submitted.SerializeToString() for each in submissions],
            [each.traceparent for each in submissions],
            unit.now,
        )

    async def take_due(self, unit: Unit, limit: int) -> list[Submission]:
        """Takes out submissions whose project is new enough now, the oldest first."""
        rows = await unit.connection.fetch(_DUE, limit)
        return [Submission(WorkloadSubmitted.FromString(row["message"]), row["trace"]) for row in rows]

    async def deleted(self, unit: Unit, workloads: Sequence[str]) -> None:
        """Notes that somebody wants these workloads gone: nothing of them waits any longer."""
        unit.mark_ended(workloads)
        await unit.connection.execute(_DELETED, list(workloads))


def _project(row: Any) -> Project:
    pools = tuple(row["node_pools"] or ())
    return Project(
        row["name"],
        row["version"],
        pools,
        row["gone"],
        row["id"],
        row["department"],
        row["home_cluster"],
        row["namespace"],
    )


async def forget(connection: AnyConnection, workloads: Sequence[str]) -> None:
    """Removes the verdicts on workloads that nothing can ask about any more."""
    await connection.execute("DELETE FROM verdicts WHERE workload_id = ANY($1::uuid[])", list(workloads))
