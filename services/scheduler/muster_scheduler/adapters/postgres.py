"""The writer of the state to PostgreSQL: it writes sets of rows, in the transaction that decided them.

The handlers call it inside their unit. Holds: a transaction writes everything that it touched, in at most one statement
per table, so that a batch of hundreds of workloads costs only a few round trips. `rebuild.load` returns a state with
the digest of the state that was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from msgspec.structs import astuple

from muster_chassis.unit import Unit
from muster_kernel.lifecycle import FINAL
from muster_scheduler.adapters import changes, retired, rows, workload_rows
from muster_scheduler.domain.asked.requests import Holder
from muster_scheduler.domain.asked.workloads import Workload
from muster_scheduler.domain.books.touched import Touched
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.state import Plan
from muster_scheduler.ports import Unpublishable

_Value = TypeVar("_Value")
_Row = TypeVar("_Row")

_WORKLOADS: Final = """
INSERT INTO workloads (id, project, name, phase, desired, generation, attempt, updated, body)
SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::int[],
                     array_fill($8::timestamptz, ARRAY[cardinality($1)]), $9::text[])
ON CONFLICT (id) DO UPDATE SET project = excluded.project, name = excluded.name, phase = excluded.phase,
    desired = excluded.desired, generation = excluded.generation, attempt = excluded.attempt,
    updated = excluded.updated, body = excluded.body
"""
_RETIRE: Final = """
WITH over AS (SELECT * FROM unnest($1::uuid[], $2::timestamptz[]) AS o(id, delete_at)),
gone AS (DELETE FROM workloads w USING over WHERE w.id = over.id RETURNING w.*),
asked AS (DELETE FROM requests r USING over WHERE r.workload = over.id RETURNING r.*)
INSERT INTO retired
    (id, project, name, phase, desired, generation, attempt, updated, body, request, added, spec, delete_at,
     archived)
SELECT g.id, g.project, g.name, g.phase, g.desired, g.generation, g.attempt, g.updated, g.body, a.body,
       coalesce(a.added, ''), a.spec, o.delete_at, g.archived
FROM gone g JOIN over o ON o.id = g.id LEFT JOIN asked a ON a.workload = g.id AND a.generation = g.generation
ON CONFLICT (id) DO UPDATE SET phase = excluded.phase, desired = excluded.desired, generation = excluded.generation,
    attempt = excluded.attempt, updated = excluded.updated, body = excluded.body, delete_at = excluded.delete_at,
    archived = excluded.archived
"""  # a row is in both tables if a release without `retired` led meanwhile, and deleted the workload
_REQUESTS: Final = """
INSERT INTO requests (workload, generation, body, added, spec)
SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::bytea[])
ON CONFLICT (workload, generation) DO UPDATE SET body = excluded.body, added = excluded.added
"""
_REPLICAS: Final = """
INSERT INTO replicas (workload, generation, attempt, role, rank, k, place, body)
SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::int[], $4::text[], $5::int[], $6::int[], $7::text[], $8::text[])
ON CONFLICT (workload, generation, attempt, role, rank, k) DO UPDATE SET place = excluded.place, body = excluded.body
"""
_REPLICAS_OVER: Final = """
DELETE FROM replicas r USING unnest($1::uuid[], $2::bigint[], $3::int[], $4::text[], $5::int[], $6::int[])
    AS o(workload, generation, attempt, role, rank, k)
WHERE r.workload = o.workload AND r.generation = o.generation AND r.attempt = o.attempt
  AND r.role = o.role AND r.rank = o.rank AND r.k = o.k
"""
_CLUSTERS: Final = """
INSERT INTO clusters (id, body) SELECT * FROM unnest($1::text[], $2::text[])
ON CONFLICT (id) DO UPDATE SET body = excluded.body
"""
_NODES: Final = """
INSERT INTO nodes (cluster, name, body) SELECT * FROM unnest($1::text[], $2::text[], $3::text[])
ON CONFLICT (cluster, name) DO UPDATE SET body = excluded.body
"""
_NODES_OVER: Final = """
DELETE FROM nodes n USING unnest($1::text[], $2::text[]) AS o(cluster, name)
WHERE n.cluster = o.cluster AND n.name = o.name
"""
_OBJECTS: Final = """
INSERT INTO namespace_objects (cluster, namespace, body) SELECT * FROM unnest($1::text[], $2::text[], $3::text[])
ON CONFLICT (cluster, namespace) DO UPDATE SET body = excluded.body
"""
_OBJECTS_OVER: Final = """
DELETE FROM namespace_objects n USING unnest($1::text[], $2::text[]) AS o(cluster, namespace)
WHERE n.cluster = o.cluster AND n.namespace = o.namespace
"""
_PARTS: Final = """
INSERT INTO inventory_parts (cluster, number, start, sequence, total, digest, checksum, body)
SELECT * FROM unnest($1::text[], $2::int[], $3::bigint[], $4::bigint[], $5::int[], $6::bytea[], $7::bytea[], $8::text[])
ON CONFLICT (cluster, number) DO UPDATE SET start = excluded.start, sequence = excluded.sequence,
    total = excluded.total, digest = excluded.digest, checksum = excluded.checksum, body = excluded.body
"""
_PARTS_OVER: Final = "DELETE FROM inventory_parts WHERE cluster = ANY($1::text[])"
_PROJECTS_OVER: Final = "DELETE FROM projects WHERE name = ANY($1::text[])"
_DEPARTMENTS_OVER: Final = "DELETE FROM departments WHERE name = ANY($1::text[])"
_DEPARTMENTS: Final = """
INSERT INTO departments (name, body) SELECT * FROM unnest($1::text[], $2::text[])
ON CONFLICT (name) DO UPDATE SET body = excluded.body
"""
_POOLS_OVER: Final = "DELETE FROM node_pools WHERE id = ANY($1::bigint[])"
_POOLS: Final = """
INSERT INTO node_pools (id, body) SELECT * FROM unnest($1::bigint[], $2::text[])
ON CONFLICT (id) DO UPDATE SET body = excluded.body
"""
_USAGE_OVER: Final = """
DELETE FROM usage u USING unnest($1::text[], $2::text[]) AS o(project, pool)
WHERE u.project = o.project AND u.pool = o.pool
"""
_USAGE: Final = """
INSERT INTO usage (project, pool, body) SELECT * FROM unnest($1::text[], $2::text[], $3::text[])
ON CONFLICT (project, pool) DO UPDATE SET body = excluded.body
"""
_QUARANTINED: Final = """
INSERT INTO quarantine (workload, error, trace, at)
SELECT w, e, t, to_timestamp(a / 1000000.0)
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bigint[]) AS u(w, e, t, a)
ON CONFLICT (workload) DO UPDATE SET error = excluded.error, trace = excluded.trace, at = excluded.at
"""
_RELEASED: Final = "DELETE FROM quarantine WHERE workload = ANY($1::uuid[])"
_PROJECTS: Final = """
INSERT INTO projects (name, body) SELECT * FROM unnest($1::text[], $2::text[])
ON CONFLICT (name) DO UPDATE SET body = excluded.body
"""


class PostgresStore:
    """The store of the leader."""

    async def write(self, unit: Unit, plan: Plan, world: World) -> None:  # noqa: C901 - one branch a table
        """Write everything that the open transaction touched."""
        touched = plan.touched
        await self._clusters(unit, touched, world)
        if touched.objects:
            await self._objects(unit, touched, world)
        if touched.projects:
            await self._projects(unit, touched, world)
        if touched.usage:
            await self._usage(unit, touched, world)
        if touched.departments:
            await self._departments(unit, touched, world)
        if touched.pools:
            await self._pools(unit, touched, world)
        if touched.nodes:
            await self._nodes(unit, touched, world)
        if changed := touched.all_workloads():
            await self._workloads(unit, changed, touched.requests, world)
        if touched.retired:
            over = [(name, retired.moment(delete_at)) for name, delete_at in touched.retired.items()]
            await unit.connection.execute(_RETIRE, *_columns(over))
        if touched.archived:
            await retired.archive(unit, touched.archived)
        if touched.quarantined:
            await self._quarantined(unit, touched, world)
        if replicas := touched.all_replicas():
            await self._replicas(unit, replicas, world)
        if keys := changes.of_touched(touched):
            await unit.connection.execute(changes.WRITE, unit.now, keys)

    async def revive(self, unit: Unit, workload_ids: Sequence[str]) -> list[Workload]:
        """Return those of these workloads that are retired; this transaction removes their rows from `retired`."""
        return await retired.revive(unit, workload_ids)

    async def _clusters(self, unit: Unit, touched: Touched, world: World) -> None:
        """Write clusters and the parts of incomplete inventories; delete the parts of inventories that are complete."""
        if touched.clusters:
            pairs = [(c, rows.of_cluster(world.clusters[c])) for c in touched.clusters]
            await unit.connection.execute(_CLUSTERS, *_columns(pairs))
        if touched.parts_over:
            await unit.connection.execute(_PARTS_OVER, list(touched.parts_over))
        arrived = ((name, number, world.clusters[name].incoming) for name, number in touched.parts)
        kept = [
            (name, number, *incoming.id, part.checksum, rows.of_part(part))
            for name, number, incoming in arrived
            if incoming is not None and (part := incoming.parts.get(number)) is not None
        ]
        if kept:
            await unit.connection.execute(_PARTS, *_columns(kept))

    async def _objects(self, unit: Unit, touched: Touched, world: World) -> None:
        there = {key: world.clusters[key[0]].objects.get(key[1]) for key in touched.objects}
        kept = [(*key, rows.of_objects(objects)) for key, objects in there.items() if objects is not None]
        if kept:
            await unit.connection.execute(_OBJECTS, *_columns(kept))
        over = [key for key, objects in there.items() if objects is None]
        if over:
            await unit.connection.execute(_OBJECTS_OVER, *_columns(over))

    async def _quarantined(self, unit: Unit, touched: Touched, world: World) -> None:
        kept = [world.quarantined[name] for name in touched.quarantined if name in world.quarantined]
        released = [name for name in touched.quarantined if name not in world.quarantined]
        if kept:
            await unit.connection.execute(_QUARANTINED, *_columns(kept))
        if released:
            await unit.connection.execute(_RELEASED, released)

    async def _projects(self, unit: Unit, touched: Touched, world: World) -> None:
        known = world.queues.projects
        kept = [(name, rows.of_project(known[name])) for name in touched.projects if name in known]
        if kept:
            await unit.connection.execute(_PROJECTS, *_columns(kept))
        over = [name for name in touched.projects if name not in known]
        if over:
            await unit.connection.execute(_PROJECTS_OVER, over)

    async def _usage(self, unit: Unit, touched: Touched, world: World) -> None:
        known = world.queues.usage
        kept = [(*key, rows.of_usage(known[key])) for key in touched.usage if key in known]
        if kept:
            await unit.connection.execute(_USAGE, *_columns(kept))
        over = [key for key in touched.usage if key not in known]
        if over:
            await unit.connection.execute(_USAGE_OVER, *_columns(over))

    async def _departments(self, unit: Unit, touched: Touched, world: World) -> None:
        known = world.queues.departments
        kept = [(name, rows.of_department(known[name])) for name in touched.departments if name in known]
        if kept:
            await unit.connection.execute(_DEPARTMENTS, *_columns(kept))
        over = [name for name in touched.departments if name not in known]
        if over:
            await unit.connection.execute(_DEPARTMENTS_OVER, over)

    async def _pools(self, unit: Unit, touched: Touched, world: World) -> None:
        known = world.pools.known
        kept = [(number, rows.of_node_pool(known[number])) for number in touched.pools if number in known]
        if kept:
            await unit.connection.execute(_POOLS, *_columns(kept))
        over = [number for number in touched.pools if number not in known]
        if over:
            await unit.connection.execute(_POOLS_OVER, over)

    async def _nodes(self, unit: Unit, touched: Touched, world: World) -> None:
        nodes = world.inventory.nodes
        kept = [(*key, rows.of_node(nodes[key])) for key in touched.nodes if key in nodes]
        if kept:
            await unit.connection.execute(_NODES, *_columns(kept))
        over = [key for key in touched.nodes if key not in nodes]
        if over:
            await unit.connection.execute(_NODES_OVER, *_columns(over))

    async def _workloads(self, unit: Unit, touched: Iterable[str], requests: Iterable[str], world: World) -> None:
        changed = [world.workloads[workload_id] for workload_id in touched if workload_id in world.workloads]
        if not changed:
            return
        unit.mark_ended(w.id for w in changed if w.phase in FINAL)
        lines = [(w.id, w.project, w.name, w.phase.value, w.desired.value, w.generation, w.attempt) for w in changed]
        bodies = [_encoded(w.id, workload_rows.of_workload, w) for w in changed]
        await unit.connection.execute(_WORKLOADS, *_columns(lines), unit.now, bodies)
        asked = [
            (w.id, w.request)
            for w in (world.workloads[i] for i in requests if i in world.workloads)
            if w.request is not None
        ]
        if asked:
            generations = [(i, r.generation, *_encoded(i, workload_rows.of_request, r), r.spec) for i, r in asked]
            await unit.connection.execute(_REQUESTS, *_columns(generations))

    async def _replicas(self, unit: Unit, touched: Iterable[Holder], world: World) -> None:
        kept: list[tuple[object, ...]] = []
        over: list[Holder] = []
        for holder in touched:
            workload = world.workloads[holder.workload]
            replica = workload.find(holder)
            if replica is None:
                over.append(holder)
            else:
                body = _encoded(workload.id, workload_rows.of_replica, replica)
                kept.append((*astuple(holder), place_of(workload, holder), body))
        if kept:
            await unit.connection.execute(_REPLICAS, *_columns(kept))
        if over:
            await unit.connection.execute(_REPLICAS_OVER, *_columns(map(astuple, over)))


def _encoded(workload: str, encode: Callable[[_Value], _Row], value: _Value) -> _Row:
    """Return the row of a value of a workload. Raises Unpublishable, so that only this workload is set aside."""
    try:
        return encode(value)
    except Exception as error:
        raise Unpublishable(workload, f"its row cannot be encoded: {type(error).__name__}: {error}") from error


def place_of(workload: Workload, holder: Holder) -> str:
    """Return which of the workload's sets has the replica."""
    if holder in workload.leaving:
        return "leaving"
    return "rolling" if holder in workload.rolling else "current"


def _columns(lines: Any) -> list[list[Any]]:
    return [list(column) for column in zip(*lines, strict=True)]
