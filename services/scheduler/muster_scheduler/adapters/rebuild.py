"""The state read back from PostgreSQL: at the start of a term, and by a standby now and then.

A million workloads have to be there in half a minute and in little memory: rows come in stretches by their key, so
that never all of them are held twice; texts that many rows share are kept once, and so are requests, which differ in
hundreds of ways and not in a million. Holds: the digest of what is read is that of what was written.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, Final, NamedTuple

import asyncpg

from muster_kernel.lifecycle import ACTIVE, Phase
from muster_scheduler.adapters import rows, workload_rows
from muster_scheduler.domain.asked.limits import Limits
from muster_scheduler.domain.asked.quarantine import Quarantined
from muster_scheduler.domain.asked.workloads import SECOND, Replica, Request, Workload
from muster_scheduler.domain.books.claims import promised_holder
from muster_scheduler.domain.books.deriving import derive
from muster_scheduler.domain.books.usual import learned
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.fleet.snapshots import IncomingInventory, SnapshotId
from muster_scheduler.domain.state import State

STRETCH: Final = 2_000
"""Workloads that are read at once: their rows are still near the processor when they are made into values."""
_TURN: Final = 250  # rows after which others have a turn: the next rows are received, a lease is renewed
_SPEC: Final = Request._fields.index("spec")
_FIRST: Final = "00000000-0000-0000-0000-000000000000"
_PARTS: Final = "SELECT cluster, number, start, sequence, total, digest, checksum, body FROM inventory_parts"
_WORKLOADS: Final = """
SELECT id::text AS id, project, name, phase, desired, generation, attempt, body
FROM workloads WHERE id > $1::uuid ORDER BY workloads.id LIMIT $2
"""  # `ORDER BY id` alone would be the text: every stretch would sort all that is left of the table
_REQUESTS: Final = """
SELECT workload::text AS workload, generation, body, spec
FROM requests WHERE workload > $1::uuid AND workload <= $2::uuid
"""
_REPLICAS: Final = """
SELECT workload::text AS workload, generation, attempt, role, rank, k, place, body
FROM replicas WHERE workload > $1::uuid AND workload <= $2::uuid
"""


async def load(connection: asyncpg.Connection, limits: Limits, now: int) -> State:
    """The state as the database has it. Clocks of silence start at `now`, microseconds since 1970.

    All of one moment: a standby reads while the leader writes, and half of a transaction is a state that never was.
    """
    state = State(limits)
    world = state.world
    world.now = now
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        await _load_fleet(connection, world, now)
        await _load_workloads(connection, world)
        await _load_quarantine(connection, world)
        # After the charges: what is charged here again was counted when it was charged for the first time.
        world.queues.usage = {
            (row["project"], row["pool"]): rows.to_usage(row["body"])
            for row in await connection.fetch("SELECT project, pool, body FROM usage")
        }
    world.touched.usage.clear()
    world.journal.clear()
    derive(world)
    world.usual = learned(world.workloads.values())
    return state


async def _load_quarantine(connection: asyncpg.Connection, world: World) -> None:
    """Who is set aside: known before the first cycle, which would fail on them again."""
    for row in await connection.fetch("SELECT workload::text AS workload, error, trace, at FROM quarantine"):
        if row["workload"] in world.workloads:
            at = int(row["at"].timestamp() * SECOND)
            world.quarantined[row["workload"]] = Quarantined(row["workload"], row["error"], row["trace"], at)


async def _load_fleet(connection: asyncpg.Connection, world: World, now: int) -> None:
    for row in await connection.fetch("SELECT id, body FROM clusters"):
        world.clusters[row["id"]] = rows.to_cluster(row["id"], row["body"], now)
    await _load_parts(connection, world, now)
    for row in await connection.fetch("SELECT name, body FROM projects"):
        world.queues.projects[row["name"]] = rows.to_project(row["name"], row["body"])
    for row in await connection.fetch("SELECT name, body FROM departments"):
        world.queues.departments[row["name"]] = rows.to_department(row["name"], row["body"])
    for row in await connection.fetch("SELECT id, body FROM node_pools"):
        world.pools.put(rows.to_node_pool(row["id"], row["body"]))
    nodes = await connection.fetch("SELECT cluster, name, body FROM nodes")
    world.inventory.put_nodes(rows.to_node(row["cluster"], row["name"], row["body"]) for row in nodes)


async def _load_parts(connection: asyncpg.Connection, world: World, now: int) -> None:
    """The parts of inventories that were not whole yet: the offset of their records is behind us."""
    for row in await connection.fetch(_PARTS):
        cluster = world.clusters[row["cluster"]]
        wanted = SnapshotId(row["start"], row["sequence"], row["total"], row["digest"])
        incoming = cluster.incoming or IncomingInventory(wanted, {})
        part = rows.to_part(cluster.id, row["checksum"], row["body"])
        cluster.incoming = incoming.with_part(row["number"], part)
    for cluster in world.clusters.values():
        if cluster.incoming is not None or (cluster.full_needed and cluster.profile is not None):
            cluster.behind_since = now


async def _load_workloads(connection: asyncpg.Connection, world: World) -> None:
    kept = _Kept()
    async with aclosing(_ahead(_stretches(connection))) as stretches:
        async for stretch in stretches:
            await _take_in(world, kept, stretch)
    for workload in world.workloads.values():
        _charge_claim(world, workload)


class _Stretch(NamedTuple):
    """Some workloads by id, with all requests and replicas of theirs."""

    workloads: list[Any]
    requests: list[Any]
    replicas: list[Any]


async def _stretches(connection: asyncpg.Connection) -> AsyncIterator[_Stretch]:
    """All workloads by id, a stretch at a time."""
    after = _FIRST
    while workloads := await connection.fetch(_WORKLOADS, after, STRETCH):
        last = workloads[-1]["id"]
        requests = await connection.fetch(_REQUESTS, after, last)
        yield _Stretch(workloads, requests, await connection.fetch(_REPLICAS, after, last))
        after = last


async def _ahead(stretches: AsyncIterator[_Stretch]) -> AsyncGenerator[_Stretch, None]:
    """The same; while one is worked on, the database makes the next."""
    coming = asyncio.ensure_future(anext(stretches, None))
    try:
        while stretch := await coming:
            coming = asyncio.ensure_future(anext(stretches, None))
            yield stretch
    finally:
        # Where the work on one has failed or was cancelled, the connection is still asked for the next: given back like
        # that, its complaint would take the place of what went wrong, and whoever cancelled would not be heard.
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)


class _Kept:
    """What rows have in common, kept once."""

    def __init__(self) -> None:
        self._requests: dict[str, Request] = {}
        self.words: dict[str, str] = {}

    def request(self, body: str, spec: bytes) -> Request:
        """The request of a row: all but its spec is that of every other row with the same body."""
        known = self._requests.get(body)
        if known is None:
            known = self._requests[body] = workload_rows.to_request(body, b"")
        return Request._make((*known[:_SPEC], spec, *known[_SPEC + 1 :]))


async def _take_in(world: World, kept: _Kept, stretch: _Stretch) -> None:
    requests: dict[tuple[str, int], Request] = {}
    for row in stretch.requests:
        requests[row["workload"], row["generation"]] = kept.request(row["body"], row["spec"])
    for number, row in enumerate(stretch.workloads):
        if number % _TURN == 0:
            await asyncio.sleep(0)
        workload, old = workload_rows.to_workload(row, kept.words)
        workload.request = requests.get((workload.id, row["generation"]))
        workload.old = requests.get((workload.id, old)) if old else None
        world.workloads[workload.id] = workload
        if workload.phase in ACTIVE or workload.phase is Phase.UNKNOWN:
            _note_place(world, workload)
    for number, row in enumerate(stretch.replicas):
        if number % _TURN == 0:
            await asyncio.sleep(0)
        _load_replica(world, row)


def _load_replica(world: World, row: Any) -> None:
    replica = workload_rows.to_replica(row)
    workload = world.workloads[replica.holder.workload]
    _put(workload, replica, row["place"])
    if replica.charged:
        world.inventory.charge(replica.holder, replica.node, replica.grant)
    if replica.accounted:
        surplus = workload.beyond(replica.holder.role, replica.holder.rank)
        world.account(workload, workload.pool, (replica.grant,), surplus=surplus)
    _note_place(world, workload)


def _note_place(world: World, workload: Workload) -> None:
    world.placed.setdefault((workload.cluster, workload.pool, workload.project), {})[workload.id] = None


def _put(workload: Workload, replica: Replica, place: str) -> None:
    if place == "current":
        workload.replicas[replica.holder.role, replica.holder.rank] = replica
    elif place == "rolling":
        workload.rolling[replica.holder] = replica
    else:
        workload.leaving[replica.holder] = replica


def _charge_claim(world: World, workload: Workload) -> None:
    claim = workload.claim
    if claim is None:
        return
    world.claims[workload.id] = None
    for planned in claim.planned:
        world.inventory.charge(promised_holder(workload, claim, planned), planned.node, planned.grant)
    world.account(workload, claim.pool, (planned.grant for planned in claim.planned))
