"""A fleet that is nearly full and a queue of a million, written as the scheduler's own rows: the load of scale.py.

Nodes of eight cards in 20 pools; of every five nodes three are full and two have one card free, so that workloads of 1,
2, 4 and 8 cards hold 95 of 100. What waits wants more cards than any node has free until something ends.
Holds: rows are those that the store writes for such values; ids sort by number; the same size gives the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import asyncpg
from msgspec.structs import astuple

from muster_kernel.lifecycle import DesiredPhase, Phase
from muster_kernel.quantities import GPU
from muster_kernel.reasons import WaitingReason
from muster_scheduler.adapters import rows, workload_rows
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.courses import turned
from muster_scheduler.domain.asked.quotas import Quota
from muster_scheduler.domain.asked.requests import Grant, Holder, Kind, Shape, Share
from muster_scheduler.domain.asked.workloads import News, Replica, ReplicaState, Request, Workload
from muster_scheduler.domain.books.queues import Department, Project
from muster_scheduler.domain.fleet.clusters import Cluster, Profile
from muster_scheduler.domain.fleet.nodes import Node
from tests.support.fleets import GIB, START, devices, portion, request, role, whole, workload_id

CARDS: Final = 8
_PATTERNS: Final = ((8,), (4, 4), (2, 2, 2, 1), (1,) * 7, (4, 2, 2))  # cards held by each workload of a node: 38 of 40
_HALVES: Final = ((12, 2), (12, 2), (12, 1), (12, 2), (12, 1))  # or workloads of half a card, and of a whole one
_QUEUED: Final = """
INSERT INTO workloads (id, project, name, phase, desired, generation, attempt, updated, body)
SELECT ('00000000-0000-7000-8000-' || lpad(to_hex($1 + n), 12, '0'))::uuid, t.project, 'w' || n, $2, $3, 1, 1, now(),
       replace(t.workload, '$5', ($4::bigint + n)::text)
FROM generate_series(0, $6::bigint - 1) n JOIN templates t ON t.k = n % (SELECT count(*) FROM templates)
"""
_REQUEST_COLUMNS: Final = ("workload", "generation", "body", "added", "spec")
_ASKED: Final = """
INSERT INTO requests (workload, generation, body, added, spec)
SELECT ('00000000-0000-7000-8000-' || lpad(to_hex($1 + n), 12, '0'))::uuid, 1, t.request, t.added, $2
FROM generate_series(0, $3::bigint - 1) n JOIN templates t ON t.k = n % (SELECT count(*) FROM templates)
"""
_COLUMNS: Final = ("id", "project", "name", "phase", "desired", "generation", "attempt", "updated", "body")
"""Columns of a workload's row that are written here; the others have a default."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much there is."""

    gpus: int
    queued: int
    projects: int
    classes: int = 500
    pools: int = 20
    departments: int = 50
    clusters: int = 4
    halves: bool = False  # most of what runs has half a card: 13.6 replicas a node instead of 3.4

    @property
    def nodes(self) -> int:
        """Nodes of eight cards."""
        return self.gpus // CARDS

    def pool(self, number: int) -> str:
        """A pool's name."""
        return f"pool-{number % self.pools}"

    def cluster(self, number: int) -> str:
        """The cluster that has that pool."""
        return f"c{number % self.pools % self.clusters}"


def nodes(size: Size) -> Iterator[Node]:
    """All nodes, idle."""
    for number in range(size.nodes):
        cluster, name = size.cluster(number), f"n{number:05d}"
        cards = devices(f"{cluster}-{name}", CARDS)
        for card in cards:
            card.tally()
        yield Node(
            cluster, name, size.pool(number), uid=f"u-{name}", boot="b", cpu=128_000, memory=1024 * GIB, devices=cards
        )


def running(size: Size) -> Iterator[tuple[Workload, Replica]]:
    """Workloads of one replica that hold 95 of 100 cards."""
    if size.halves:
        yield from _running_halves(size)
        return
    made = 0
    for number, node in enumerate(nodes(size)):
        slot = 0
        for width in _PATTERNS[(number + number // size.pools) % len(_PATTERNS)]:  # each pattern in every pool
            cards = node.devices[slot : slot + width]
            slot += width
            made += 1
            shares = tuple(Share(card.uuid, Kind.WHOLE, 1000, card.memory) for card in cards)
            yield _held(size, made, node, Grant(1000, GIB, shares, 0, width * GPU))


def _running_halves(size: Size) -> Iterator[tuple[Workload, Replica]]:
    made = 0
    for number, node in enumerate(nodes(size)):
        halves, wholes = _HALVES[(number + number // size.pools) % len(_HALVES)]
        for half in range(halves):
            card, made = node.devices[half // 2], made + 1
            share = Share(card.uuid, Kind.PORTION, 500, card.memory // 2)
            grant = Grant(1000, GIB, (share,), 0, GPU // 2)
            yield _held(size, made, node, grant, portion(500))
        for card in node.devices[halves // 2 : halves // 2 + wholes]:
            made += 1
            yield _held(size, made, node, Grant(1000, GIB, (Share(card.uuid, Kind.WHOLE, 1000, card.memory),), 0, GPU))


def _held(size: Size, number: int, node: Node, grant: Grant, shape: Shape | None = None) -> tuple[Workload, Replica]:
    asked = request(role(shape or whole(len(grant.shares))), pools=(node.pool,))
    workload = _workload(size, number, asked, START + number)
    workload.phase, workload.cluster, workload.pool = Phase.RUNNING, node.cluster, node.pool
    workload.course = turned(workload.course, {"placed": START + number, "first_placed": START + number})
    holder = Holder(workload.id, 1, 1, "worker", 0, 0)
    return workload, Replica(holder, node.key, grant, state=ReplicaState.READY, news=News(started=START + number))


def _workload(size: Size, number: int, asked: Request, submitted: int) -> Workload:
    project = number % size.projects
    return Workload(
        workload_id(number),
        project=f"project-{project}",
        department=f"department-{project % size.departments}",
        namespace=f"runai-project-{project}",
        name=f"w{number}",
        owner=f"user-{number % 5000}",
        request=asked,
        submitted=submitted,
        queued=submitted,
        told=WaitingReason.NO_CAPACITY,
        told_at=START,
        phase=Phase.PENDING,
    )


def asked_of(size: Size, number: int) -> Request:
    """One of the classes: 2 to 8 whole cards and some CPU, in one pool and another as second choice."""
    cls = number % size.classes
    shape = whole((2, 4, 8)[cls % 3], cpu=1000 + 50 * (cls // 3), memory=(4 + cls % 7) * GIB)
    first = number % size.pools
    return request(role(shape), pools=(size.pool(first), size.pool(first + size.clusters)))


def projects(size: Size) -> Iterator[Project]:
    """All projects, with as much of each pool as they may expect."""
    share = max(1, size.gpus // size.projects // size.pools) * GPU
    for number in range(size.projects):
        quotas = {size.pool(pool): Quota(share, None, 1) for pool in range(size.pools)}
        yield Project(f"project-{number}", f"department-{number % size.departments}", quotas, 1)


def departments(size: Size) -> Iterator[Department]:
    """All departments; each deserves what its projects deserve."""
    return (Department(f"department-{number}", version=1) for number in range(size.departments))


async def write(connection: asyncpg.Connection, size: Size, spec: bytes) -> int:
    """Writes everything; the number of the first workload that is free afterwards."""
    await connection.execute("SET synchronous_commit = off")
    await _write_fleet(connection, size)
    first = await _write_running(connection, size, spec)
    await _write_queue(connection, size, spec, first)
    await connection.execute("CHECKPOINT")
    await connection.execute("ANALYZE")
    return first + size.queued


async def _write_fleet(connection: asyncpg.Connection, size: Size) -> None:
    clusters = [
        Cluster(f"c{number}", instance=f"agent-c{number}", profile=Profile()) for number in range(size.clusters)
    ]
    for cluster in clusters:
        cluster.full_needed, cluster.inventory_sequence = False, 1
    await connection.executemany(
        "INSERT INTO clusters (id, body) VALUES ($1, $2)", [(each.id, rows.of_cluster(each)) for each in clusters]
    )
    records = [(node.cluster, node.name, rows.of_node(node)) for node in nodes(size)]
    await connection.copy_records_to_table("nodes", records=records)
    made = [(project.name, rows.of_project(project)) for project in projects(size)]
    await connection.copy_records_to_table("projects", records=made)
    above = [(department.name, rows.of_department(department)) for department in departments(size)]
    await connection.copy_records_to_table("departments", records=above)


async def _write_running(connection: asyncpg.Connection, size: Size, spec: bytes) -> int:
    workloads: list[tuple[Any, ...]] = []
    requests: list[tuple[Any, ...]] = []
    replicas: list[tuple[Any, ...]] = []
    now = await connection.fetchval("SELECT now()")
    for workload, replica in running(size):
        line = (workload.id, workload.project, workload.name, workload.phase.value, workload.desired.value, 1, 1, now)
        workloads.append((*line, workload_rows.of_workload(workload)))
        assert workload.request is not None
        requests.append((workload.id, 1, *workload_rows.of_request(workload.request), spec))
        replicas.append((*astuple(replica.holder), "current", workload_rows.of_replica(replica)))
    await connection.copy_records_to_table("workloads", records=workloads, columns=_COLUMNS)
    await connection.copy_records_to_table("requests", records=requests, columns=_REQUEST_COLUMNS)
    await connection.copy_records_to_table("replicas", records=replicas)
    return len(workloads) + 1


async def _write_queue(connection: asyncpg.Connection, size: Size, spec: bytes, first: int) -> None:
    mark = 4_242_424_242_424_242  # stands for the time of submission in a template
    templates = []
    for number in range(max(size.projects, size.classes) * 5):
        workload = _workload(size, number, asked_of(size, number), mark)
        assert workload.request is not None
        bodies = workload_rows.of_workload(workload), *workload_rows.of_request(workload.request)
        templates.append((number, workload.project, *bodies))
    await connection.execute(
        "CREATE TEMP TABLE templates (k bigint, project text, workload text, request text, added text)"
    )
    await connection.copy_records_to_table("templates", records=templates)
    queued = _QUEUED.replace("'$5'", f"'{mark}'").replace("$6", "$5")
    phases = (Phase.PENDING.value, DesiredPhase.RUNNING.value)
    await connection.execute(queued, first, *phases, START, size.queued, timeout=900)
    await connection.execute(_ASKED, first, spec, size.queued, timeout=900)


def submission(size: Size, number: int, now: int) -> events.Admitted:
    """One more workload of the same kinds."""
    made = _workload(size, number, asked_of(size, number), now)
    assert made.request is not None
    return events.Admitted(
        made.id, made.project, made.department, made.namespace, made.name, made.owner, now, True, made.request
    )


def settled(workload: Workload, replica: Replica, order: events.Order, *, over: bool) -> events.ReplicaReported:
    """A replica says that it is ready, or that it has ended well, or because it was told to, and is gone."""
    holder = replica.holder
    state = (ReplicaState.SUCCEEDED if workload.active else None) if over else ReplicaState.READY
    code = 0 if state is ReplicaState.SUCCEEDED else None
    status = events.Status(holder.role, holder.rank, holder.k, replica.node[1], state, over, code)
    cluster = workload.cluster
    return events.ReplicaReported(cluster, order, workload.id, holder.generation, holder.attempt, status)
