"""The state read from PostgreSQL: by a standby when it starts to follow, and at the start of a term without a standby.

A million workloads have to be read in half a minute and in little memory. Rows come in batches by key, so that never
all of them are in memory twice. Texts that many rows share are kept once. So are requests, which differ in hundreds of
ways and not in a million. Holds: the digest of the state that is read equals that of the state that was written.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import aclosing
from typing import Any, Final, NamedTuple

import asyncpg

from muster_scheduler.adapters import rows, workload_rows
from muster_scheduler.adapters.retired import to_workload as to_retired
from muster_scheduler.domain.asked.limits import Limits
from muster_scheduler.domain.asked.quarantine import Quarantined
from muster_scheduler.domain.asked.workloads import SECOND, Replica, Request, Workload
from muster_scheduler.domain.books.deriving import derive
from muster_scheduler.domain.books.entering import charge_claim, charge_replica, has_place, note_place
from muster_scheduler.domain.books.usual import learned
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.fleet.snapshots import IncomingInventory, SnapshotId
from muster_scheduler.domain.shares.decay import Faded
from muster_scheduler.domain.state import State

STRETCH: Final = 2_000
"""Workloads in a batch: their rows are still in the cache of the processor when they become values."""
_TURN: Final = 250  # rows after which other tasks run: they receive the next rows, and renew a lease
_SPEC: Final = Request._fields.index("spec")
_FIRST: Final = "00000000-0000-0000-0000-000000000000"
PARTS: Final = "SELECT cluster, number, start, sequence, total, digest, checksum, body FROM inventory_parts"
OBJECTS: Final = "SELECT cluster, namespace, body FROM namespace_objects"
QUARANTINE: Final = "SELECT workload::text AS workload, error, trace, at FROM quarantine"
# The run times of workloads that completed lately; older ones say little about current workloads.
COMPLETED: Final = """
SELECT id::text AS id, project, name, phase, desired, generation, attempt, body, request, added, spec
FROM retired WHERE phase = 'Completed' ORDER BY updated DESC LIMIT 5000
"""
_WORKLOADS: Final = """
SELECT id::text AS id, project, name, phase, desired, generation, attempt, body
FROM workloads WHERE id > $1::uuid ORDER BY workloads.id LIMIT $2
"""  # `ORDER BY id` would mean the text: every batch would sort the rest of the table
_REQUESTS: Final = """
SELECT workload::text AS workload, generation, body, added, spec
FROM requests WHERE workload > $1::uuid AND workload <= $2::uuid
"""
_REPLICAS: Final = """
SELECT workload::text AS workload, generation, attempt, role, rank, k, place, body
FROM replicas WHERE workload > $1::uuid AND workload <= $2::uuid
"""


async def load(connection: asyncpg.Connection, limits: Limits, now: int) -> State:
    """Read the state from the database. The silence of clusters counts from `now`, microseconds since 1970.

    All rows are of one snapshot: a standby reads while the leader writes, and half a transaction would be a state that
    never existed.
    """
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        state = await read(connection, limits, now, Kept())
    derive(state.world)
    return state


async def read(connection: asyncpg.Connection, limits: Limits, now: int, kept: Kept) -> State:
    """Read the stored part of the state, within the caller's transaction. kept: values that rows share; grows.

    The caller computes the derived part after the transaction: with a million workloads that takes seconds, and
    PostgreSQL ends a session whose transaction is idle for that long.
    """
    state = State(limits)
    world = state.world
    world.now = now
    await _load_fleet(connection, world, now)
    await _load_workloads(connection, world, kept)
    for found in map(to_quarantined, await connection.fetch(QUARANTINE)):
        if found.workload in world.workloads:  # known before the first cycle, which would fail on it again
            world.quarantined[found.workload] = found
    world.queues.usage = usage_of(await connection.fetch("SELECT project, pool, body FROM usage"))
    world.journal.clear()
    retired = map(to_retired, await connection.fetch(COMPLETED))
    world.usual = learned([*retired, *world.workloads.values()])
    return state


def to_quarantined(row: Any) -> Quarantined:
    """Return the workload of a row that is set aside, and why."""
    return Quarantined(row["workload"], row["error"], row["trace"], int(row["at"].timestamp() * SECOND))


def usage_of(found: Iterable[Any]) -> dict[tuple[str, str], Faded]:
    """Return past usage by project and pool."""
    return {(row["project"], row["pool"]): rows.to_usage(row["body"]) for row in found}


async def _load_fleet(connection: asyncpg.Connection, world: World, now: int) -> None:
    for row in await connection.fetch("SELECT id, body FROM clusters"):
        world.clusters[row["id"]] = rows.to_cluster(row["id"], row["body"], now)
    put_objects(world, await connection.fetch(OBJECTS))
    put_parts(world, await connection.fetch(PARTS), now, world.clusters)
    for row in await connection.fetch("SELECT name, body FROM projects"):
        world.queues.projects[row["name"]] = rows.to_project(row["name"], row["body"])
    for row in await connection.fetch("SELECT name, body FROM departments"):
        world.queues.departments[row["name"]] = rows.to_department(row["name"], row["body"])
    for row in await connection.fetch("SELECT id, body FROM node_pools"):
        world.pools.put(rows.to_node_pool(row["id"], row["body"]))
    nodes = await connection.fetch("SELECT cluster, name, body FROM nodes")
    world.inventory.put_nodes(rows.to_node(row["cluster"], row["name"], row["body"]) for row in nodes)


def put_objects(world: World, found: Iterable[Any]) -> None:
    """Put the objects of namespaces into their clusters."""
    for row in found:
        world.clusters[row["cluster"]].objects[row["namespace"]] = rows.to_objects(row["body"])


def put_parts(world: World, parts: Iterable[Any], now: int, clusters: Iterable[str]) -> None:
    """Restore the incomplete inventories of these clusters from their parts: their records are not read again."""
    for row in parts:
        cluster = world.clusters[row["cluster"]]
        wanted = SnapshotId(row["start"], row["sequence"], row["total"], row["digest"])
        incoming = cluster.incoming or IncomingInventory(wanted, {})
        part = rows.to_part(cluster.id, row["checksum"], row["body"])
        cluster.incoming = incoming.with_part(row["number"], part)
    for name in clusters:
        cluster = world.clusters[name]
        if cluster.incoming is not None or (cluster.full_needed and cluster.profile is not None):
            cluster.behind_since = now


async def _load_workloads(connection: asyncpg.Connection, world: World, kept: Kept) -> None:
    async with aclosing(_ahead(_stretches(connection))) as stretches:
        async for stretch in stretches:
            for number, workload in enumerate(workloads_of(kept, stretch)):
                if number % _TURN == 0:
                    await asyncio.sleep(0)
                world.workloads[workload.id] = workload
                if has_place(workload):
                    note_place(world, workload)
                for replica in workload.everyone():
                    charge_replica(world, workload, replica)
    for workload in world.workloads.values():
        charge_claim(world, workload)


class Stretch(NamedTuple):
    """A batch of workloads by id, with all their requests and replicas."""

    workloads: list[Any]
    requests: list[Any]
    replicas: list[Any]


async def _stretches(connection: asyncpg.Connection) -> AsyncIterator[Stretch]:
    """Yield all workloads by id, in batches."""
    after = _FIRST
    while workloads := await connection.fetch(_WORKLOADS, after, STRETCH):
        last = workloads[-1]["id"]
        requests = await connection.fetch(_REQUESTS, after, last)
        yield Stretch(workloads, requests, await connection.fetch(_REPLICAS, after, last))
        after = last


async def _ahead(stretches: AsyncIterator[Stretch]) -> AsyncGenerator[Stretch, None]:
    """Yield the same batches. The database reads the next one while the caller works on one."""
    coming = asyncio.ensure_future(anext(stretches, None))
    try:
        while stretch := await coming:
            coming = asyncio.ensure_future(anext(stretches, None))
            yield stretch
    finally:
        # If the caller failed or was cancelled, the query of the next batch still runs on the connection. A release
        # of the connection in that state would raise an error that hides the failure or the cancellation.
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)


class Kept:
    """Values that rows share, kept once."""

    def __init__(self) -> None:
        self._requests: dict[tuple[str, str], Request] = {}
        self.words: dict[str, str] = {}

    @property
    def size(self) -> int:
        """The number of values that are kept."""
        return len(self._requests) + len(self.words)

    def request(self, body: str, added: str, spec: bytes) -> Request:
        """Return the request of a row. It shares everything except its spec with the other rows of the same fields."""
        known = self._requests.get((body, added))
        if known is None:
            known = self._requests[body, added] = workload_rows.to_request(body, added, b"")
        return Request._make((*known[:_SPEC], spec, *known[_SPEC + 1 :]))


def workloads_of(kept: Kept, stretch: Stretch) -> Iterator[Workload]:
    """Yield the workloads of a batch with their requests and replicas; nothing is charged yet."""
    requests: dict[tuple[str, int], Request] = {}
    for row in stretch.requests:
        requests[row["workload"], row["generation"]] = kept.request(row["body"], row["added"], row["spec"])
    replicas: dict[str, list[Any]] = {}
    for row in stretch.replicas:
        replicas.setdefault(row["workload"], []).append(row)
    for row in stretch.workloads:
        workload, old = workload_rows.to_workload(row, kept.words)
        workload.request = requests.get((workload.id, row["generation"]))
        workload.old = requests.get((workload.id, old)) if old else None
        for found in replicas.get(workload.id, ()):
            _put(workload, workload_rows.to_replica(found), found["place"])
        yield workload


def _put(workload: Workload, replica: Replica, place: str) -> None:
    if place == "current":
        workload.replicas[replica.holder.role, replica.holder.rank] = replica
    elif place == "rolling":
        workload.rolling[replica.holder] = replica
    else:
        workload.leaving[replica.holder] = replica
