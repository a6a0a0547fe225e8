"""A state that follows the commits of the leader, so that a standby can lead at once (rule 9).

The composition root drives it while this process follows. In each transaction the leader notes which rows it wrote
(changes.py). A follower reads these rows again, all in one snapshot, and replaces its copy of them.
Holds: a follower reads everything before it replaces anything, and awaits nothing in between, so that a cancelled
follower has the state of one moment. The digest equals that of a state that is read at the same moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import asyncpg

from muster_scheduler.adapters import rebuild, rows
from muster_scheduler.adapters.changes import Changes, merged
from muster_scheduler.adapters.rebuild import Kept, Stretch
from muster_scheduler.domain.asked.limits import Limits
from muster_scheduler.domain.books.deriving import derive
from muster_scheduler.domain.books.entering import put_in, take_out
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.state import State

_MOST_KEPT: Final = 100_000  # texts and requests that workloads share; above this number the collection starts again
_MOST_REPLACED: Final = 100_000
LAST: Final = "SELECT seq, keys FROM changes ORDER BY seq DESC LIMIT 1"
EPOCH: Final = "SELECT coalesce(max(epoch), 0) AS epoch FROM lease_epoch WHERE name = 'leader'"
_NOTED: Final = "SELECT count(*) FROM noted_epochs WHERE epoch >= $1 AND epoch < $2"
NOTE: Final = "INSERT INTO noted_epochs (epoch) VALUES ($1) ON CONFLICT DO NOTHING"
SINCE: Final = "SELECT seq, keys FROM changes WHERE seq >= $1 ORDER BY seq"
WORKLOADS: Final = """
SELECT id::text AS id, project, name, phase, desired, generation, attempt, body
FROM workloads WHERE id = ANY ($1::uuid[])
"""
REQUESTS: Final = """
SELECT workload::text AS workload, generation, body, added, spec
FROM requests WHERE workload = ANY ($1::uuid[])
"""
REPLICAS: Final = """
SELECT workload::text AS workload, generation, attempt, role, rank, k, place, body
FROM replicas WHERE workload = ANY ($1::uuid[])
"""
NODES: Final = """
SELECT cluster, name, body FROM nodes
WHERE (cluster, name) IN (SELECT * FROM unnest($1::text[], $2::text[]))
"""
OBJECTS: Final = """
SELECT cluster, namespace, body FROM namespace_objects
WHERE (cluster, namespace) IN (SELECT * FROM unnest($1::text[], $2::text[]))
"""
USAGE: Final = """
SELECT project, pool, body FROM usage
WHERE (project, pool) IN (SELECT * FROM unnest($1::text[], $2::text[]))
"""
CLUSTERS: Final = "SELECT id, body FROM clusters WHERE id = ANY ($1::text[])"
PARTS: Final = rebuild.PARTS + " WHERE cluster = ANY ($1::text[])"
PROJECTS: Final = "SELECT name, body FROM projects WHERE name = ANY ($1::text[])"
DEPARTMENTS: Final = "SELECT name, body FROM departments WHERE name = ANY ($1::text[])"
POOLS: Final = "SELECT id, body FROM node_pools WHERE id = ANY ($1::bigint[])"
QUARANTINE: Final = rebuild.QUARANTINE + " WHERE workload = ANY ($1::uuid[])"


class Overtaken(Exception):
    """A gap in the changes: those to read were removed already, so the whole state has to be read again."""


@dataclass(slots=True)
class _Read:
    """The rows of some changes, all of one snapshot."""

    stretch: Stretch
    nodes: list[Any]
    clusters: list[Any]
    objects: list[Any]
    parts: list[Any]
    projects: list[Any]
    departments: list[Any]
    pools: list[Any]
    usage: list[Any]
    quarantine: list[Any]


class Follower:
    """A state, and the last change that it has followed. epoch: the epoch that led when the state was read."""

    def __init__(self, state: State, seq: int, epoch: int, kept: Kept) -> None:
        self.state = state
        self._seq = seq
        self._epoch = epoch
        self._kept = kept
        self._replaced = 0  # workloads replaced since the derived values were computed

    @classmethod
    async def read(cls, connection: asyncpg.Connection, limits: Limits, now: int) -> Follower:
        """Read the state of the database at one moment, and the last change before it."""
        kept = Kept()
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            (last,) = await connection.fetch(LAST)
            (led,) = await connection.fetch(EPOCH)
            state = await rebuild.read(connection, limits, now, kept)
        derive(state.world)
        return cls(state, last["seq"], led["epoch"], kept)

    async def check_terms(self, connection: asyncpg.Connection, epoch: int) -> None:
        """Check that every leader before `epoch` has noted its changes. Raises Overtaken.

        A skipped epoch counts as one that has not: it is always correct to read the state again.
        """
        first = max(1, self._epoch)
        if await connection.fetchval(_NOTED, first, epoch) != max(0, epoch - first):
            raise Overtaken(f"between the epochs {first} and {epoch} a scheduler of an older release has led")

    async def advance(self, connection: asyncpg.Connection, now: int) -> int:
        """Follow what was committed meanwhile, and return the number of changes. Raises Overtaken."""
        (last,) = await connection.fetch(LAST)  # usually there is nothing new: one query, and no transaction
        if last["seq"] == self._seq:
            return 0
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            found = await connection.fetch(SINCE, self._seq)
            if not found or found[0]["seq"] != self._seq:
                raise Overtaken(f"the change {self._seq} is there no more")
            changes = merged(row["keys"] for row in found[1:])
            read = await _rows_of(connection, changes)
        self._replace(changes, read, now)
        self._seq = found[-1]["seq"]
        return len(found) - 1

    def _replace(self, changes: Changes, read: _Read, now: int) -> None:
        """Replace the changed rows in the state. This function must not await anything."""
        state, world = self.state, self.state.world
        if self._kept.size > _MOST_KEPT:
            self._kept = Kept()
        workloads = {workload.id: workload for workload in rebuild.workloads_of(self._kept, read.stretch)}
        before = {name: world.workloads[name].phase for name in changes.workloads if name in world.workloads}
        state.begin(now)
        for name in changes.workloads:
            take_out(world, name)
        _replace_settings(world, changes, read)
        _replace_fleet(world, changes, read, now)
        _replace_quarantine(world, changes, read)
        for workload in workloads.values():
            put_in(world, workload, before.get(workload.id))
        for key in changes.usage:
            world.queues.usage.pop(key, None)
        world.queues.usage.update(rebuild.usage_of(read.usage))
        self._replaced += len(changes.workloads)
        # While no cycle runs, timers and heads of classes gain entries and lose none.
        if changes.settings or self._replaced > max(_MOST_REPLACED, len(world.workloads)):
            self._replaced = 0
            derive(world)
        state.commit()


async def _rows_of(connection: asyncpg.Connection, changes: Changes) -> _Read:
    async def of(sql: str, keys: list[Any]) -> list[Any]:
        return await connection.fetch(sql, keys) if keys else []

    async def of_pairs(sql: str, keys: list[tuple[str, str]]) -> list[Any]:
        return await connection.fetch(sql, *map(list, zip(*keys, strict=True))) if keys else []

    ids, clusters = changes.workloads, changes.clusters
    stretch = Stretch(await of(WORKLOADS, ids), await of(REQUESTS, ids), await of(REPLICAS, ids))
    return _Read(
        stretch,
        await of_pairs(NODES, changes.nodes),
        await of(CLUSTERS, clusters),
        await of_pairs(OBJECTS, changes.objects),
        await of(PARTS, clusters),
        await of(PROJECTS, changes.projects),
        await of(DEPARTMENTS, changes.departments),
        await of(POOLS, changes.pools),
        await of_pairs(USAGE, changes.usage),
        await of(QUARANTINE, ids),
    )


def _replace_settings(world: World, changes: Changes, read: _Read) -> None:
    queues, pools = world.queues, world.pools
    projects = {row["name"]: rows.to_project(row["name"], row["body"]) for row in read.projects}
    departments = {row["name"]: rows.to_department(row["name"], row["body"]) for row in read.departments}
    node_pools = {row["id"]: rows.to_node_pool(row["id"], row["body"]) for row in read.pools}
    for name in changes.projects:
        if name not in projects:
            queues.remove(name)
    for project in projects.values():
        queues.put(project)
    for name in changes.departments:
        if name not in departments:
            queues.remove_department(name)
    for department in departments.values():
        queues.put_department(department)
    for number in changes.pools:
        pools.remove(number)  # under its previous name
    for pool in node_pools.values():
        pools.put(pool)


def _replace_fleet(world: World, changes: Changes, read: _Read, now: int) -> None:
    for row in read.clusters:
        made = rows.to_cluster(row["id"], row["body"], now)
        if row["id"] in world.clusters:
            made.objects = world.clusters[row["id"]].objects
        world.clusters[row["id"]] = made
    for cluster, namespace in changes.objects:
        world.clusters[cluster].objects.pop(namespace, None)
    rebuild.put_objects(world, read.objects)
    if changes.clusters:
        rebuild.put_parts(world, read.parts, now, changes.clusters)
    nodes = {node.key: node for node in (rows.to_node(row["cluster"], row["name"], row["body"]) for row in read.nodes)}
    pools = {known.pool for key in changes.nodes if (known := world.inventory.nodes.get(key)) is not None}
    for key in changes.nodes:
        if key not in nodes:
            world.inventory.forget_node(key)
    world.inventory.put_nodes(nodes.values())
    for node in nodes.values():
        world.watch_node(node)
        for workload_id in {holder.workload for holder in node.entries}:  # its time to leave may have changed
            world.watch(world.workloads[workload_id])
    for pool in sorted(pools | {node.pool for node in nodes.values()}):
        world.waiting.wake_pool(pool)


def _replace_quarantine(world: World, changes: Changes, read: _Read) -> None:
    for name in changes.workloads:  # they include every workload that was set aside or released
        world.quarantined.pop(name, None)
    there = {row["id"] for row in read.stretch.workloads}
    found = map(rebuild.to_quarantined, read.quarantine)
    world.quarantined.update({each.workload: each for each in found if each.workload in there})
