"""Clusters and node pools in PostgreSQL: what the REST API knows of the fleet and the scheduler does not keep.

A cluster is noted when somebody registers it or asks for the clusters, and a pool when it is declared or seen on a
node. Holds: every cluster that is noted has a pool `default`; a number of a pool is never given twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import asyncpg

from muster.tenancy.v1.tenancy_pb2 import NodePool
from muster_chassis.unit import Unit
from muster_submission.domain.fleet import DEFAULT_POOL, cluster_uuid

_NOTE_CLUSTER: Final = """
INSERT INTO clusters (name, uuid, made_at) SELECT n, u, $3 FROM unnest($1::text[], $2::uuid[]) AS a(n, u)
ON CONFLICT (name) DO NOTHING
"""
_MISSING: Final = """
SELECT w.cluster, w.name FROM unnest($1::text[], $2::text[]) AS w(cluster, name)
JOIN clusters c ON c.name = w.cluster
LEFT JOIN node_pools p ON p.cluster = w.cluster AND p.name = w.name WHERE p.id IS NULL ORDER BY w.cluster, w.name
"""
_ADD: Final = """
INSERT INTO node_pools (id, cluster, name, label_key, label_value, version, record) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT DO NOTHING RETURNING true
"""
_SAVE: Final = """
UPDATE node_pools SET label_key = $2, label_value = $3, version = $4, record = $5 WHERE id = $1
"""
_LABELLED: Final = """
SELECT name FROM node_pools WHERE cluster = $1 AND label_key = $2 AND label_value = $3 AND id <> $4 AND label_key <> ''
"""


class PostgresFleet:
    """Clusters and node pools on PostgreSQL."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._names: dict[str, str] = {}
        self._made: dict[str, datetime] = {}

    async def cluster_of_uuid(self, uuid: str) -> str | None:
        """The name of a cluster that was noted."""
        if uuid not in self._names:
            await self._read_clusters()
        return self._names.get(uuid)

    async def made(self) -> Mapping[str, datetime]:
        """When each cluster was heard of first, by name."""
        await self._read_clusters()
        return self._made

    async def unknown(self, clusters: Iterable[str], pools: Iterable[tuple[str, str]]) -> bool:
        """Whether something of this has not been noted yet."""
        if any(name not in self._made for name in clusters):
            return True
        wanted = sorted(set(pools))
        if not wanted:
            return False
        return bool(await self._pool.fetch(_MISSING, [one for one, _ in wanted], [one for _, one in wanted]))

    async def note(self, unit: Unit, clusters: Iterable[str], pools: Iterable[tuple[str, str]] = ()) -> list[NodePool]:
        """Notes clusters with their pool `default`, and pools (cluster, name) of nodes; returns the new pools."""
        names = sorted(set(clusters))
        await unit.connection.execute(_NOTE_CLUSTER, names, [cluster_uuid(name) for name in names], unit.now)
        wanted = sorted({*((name, DEFAULT_POOL) for name in names), *pools})
        missing = await unit.connection.fetch(_MISSING, [one for one, _ in wanted], [one for _, one in wanted])
        made = [NodePool(cluster=row["cluster"], name=row["name"], created_by="muster") for row in missing]
        return [pool for pool in made if not await self.add(unit, pool)]

    async def cluster_known(self, unit: Unit, name: str) -> bool:
        """Whether a cluster was noted."""
        return bool(await unit.connection.fetchval("SELECT true FROM clusters WHERE name = $1", name))

    async def add(self, unit: Unit, pool: NodePool) -> str:
        """Makes a node pool and gives it its number; returns '' or what is taken: name or label."""
        pool.id = await unit.connection.fetchval("SELECT nextval('node_pool_ids')")
        pool.version = 1
        pool.updated_by = pool.created_by
        for stamp in (pool.created_at, pool.updated_at):
            stamp.FromDatetime(unit.now)
        made = await unit.connection.fetchval(
            _ADD, pool.id, pool.cluster, pool.name, pool.label_key, pool.label_value, 1, pool.SerializeToString()
        )
        if made:
            return ""
        return "label" if await self._label_holder(unit, pool) else "name"

    async def lock(self, unit: Unit, cluster: str, name: str) -> NodePool | None:
        """A node pool, locked until the transaction ends."""
        found = await unit.connection.fetchval(
            "SELECT record FROM node_pools WHERE cluster = $1 AND name = $2 FOR UPDATE", cluster, name
        )
        return None if found is None else NodePool.FromString(found)

    async def save(self, unit: Unit, pool: NodePool) -> bool:
        """Writes a locked pool; False where another pool of its cluster has the label."""
        if await self._label_holder(unit, pool):
            return False
        await unit.connection.execute(
            _SAVE, pool.id, pool.label_key, pool.label_value, pool.version, pool.SerializeToString()
        )
        return True

    async def remove(self, unit: Unit, pool: NodePool) -> None:
        """Removes a locked pool."""
        await unit.connection.execute("DELETE FROM node_pools WHERE id = $1", pool.id)

    async def pools(self, cluster: str = "") -> Sequence[NodePool]:
        """The pools of a cluster, or of all, by cluster and name. There are few: they are made by hand."""
        rows = await self._pool.fetch(
            "SELECT record FROM node_pools WHERE $1 = '' OR cluster = $1 ORDER BY cluster, name", cluster
        )
        return [NodePool.FromString(row["record"]) for row in rows]

    async def page(self, cluster: str, size: int, after: tuple[str, str]) -> Sequence[NodePool]:
        """Pools by cluster and name."""
        rows = await self._pool.fetch(
            "SELECT record FROM node_pools WHERE ($1 = '' OR cluster = $1) AND (cluster, name) > ($2, $3) "
            "ORDER BY cluster, name LIMIT $4",
            cluster,
            *after,
            size,
        )
        return [NodePool.FromString(row["record"]) for row in rows]

    async def by_id(self, number: int) -> NodePool | None:
        """The pool of that number."""
        found = await self._pool.fetchval("SELECT record FROM node_pools WHERE id = $1", number)
        return None if found is None else NodePool.FromString(found)

    @staticmethod
    async def _label_holder(unit: Unit, pool: NodePool) -> Any:
        return await unit.connection.fetchval(_LABELLED, pool.cluster, pool.label_key, pool.label_value, pool.id)

    async def _read_clusters(self) -> None:
        rows = await self._pool.fetch("SELECT name, uuid::text, made_at FROM clusters")
        self._names = {row["uuid"]: row["name"] for row in rows}
        self._made = {row["name"]: row["made_at"] for row in rows}
