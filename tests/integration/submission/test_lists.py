"""Lists on a real server: each index there as the domain names it and walked where it says, every answer the right one.

The rows are made by one statement; what is under test reads them. The oracle is the plainest SQL for the question.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest_asyncio

from muster_chassis.database import PLANNER
from muster_chassis.migrations import of_package
from muster_chassis.migrations.apply import migrate
from muster_submission.adapters import list_sql
from muster_submission.adapters.list_sql import Statement
from muster_submission.adapters.lists import Lists
from muster_submission.adapters.places import DirectoryBooks
from muster_submission.adapters.tenancy import PostgresTenancy
from muster_submission.domain.fields import FIELDS
from muster_submission.domain.filtering import Places, read
from muster_submission.domain.fleet import cluster_uuid
from muster_submission.domain.listing import (
    INDEXES,
    Few,
    Order,
    Question,
    Scan,
    Walk,
    certain,
    keys,
    order_of,
    question,
    ways,
)
from muster_submission.domain.terms import Points, Term, impossible

ROWS = 20_000
MADE = """
INSERT INTO workload_list (id, created_at, moved_at, finished_at, deleted_at, gpus, pods, kind, phase, gone, project,
                           name, submitted_by, cluster, node_pool)
SELECT (lpad(to_hex(1700000000000 + n * 1000), 12, '0') || '70008000' || lpad(to_hex(n), 12, '0'))::uuid,
       to_timestamp(1700000000 + n), now(),
       CASE WHEN n % 10 > 2 THEN to_timestamp(1700000000 + n + 3600) ELSE '-infinity' END,
       CASE WHEN n % 10 = 9 THEN to_timestamp(1700000000 + n + 7200) ELSE '-infinity' END,
       7000 * (n % 5), n % 3, 1 + n % 4,
       CASE WHEN n % 10 = 0 THEN 4 WHEN n % 10 = 1 THEN 2 WHEN n % 10 = 2 THEN 9 WHEN n % 10 = 3 THEN 13 ELSE 12 END,
       n % 10 = 9,
       CASE WHEN n % 2000 = 7 THEN 'tiny' WHEN n % 2 = 0 THEN 'big' ELSE 'project-' || n % 60 END,
       'run-' || md5(n::text), 'user-' || n % 50 || '@example.com', 'cluster-' || n % 3,
       CASE WHEN n % 3 = 0 THEN 'a100' ELSE 'default' END
FROM generate_series(1, $1) n
"""
SCOPE = Points("project", frozenset(f"project-{number}" for number in range(1, 60, 2)))
DEPARTMENTS = (
    ("big", "vision"),
    *((f"project-{number}", ("speech", "Zoo", "vision", "übung")[number % 4]) for number in range(50)),
)
CLUSTERS = (("cluster-0", "f1"), ("cluster-1", "0a"))
CALLED = [
    Order("project", called=DEPARTMENTS),
    Order("project", called=DEPARTMENTS[:3]),
    Order("cluster", called=CLUSTERS),
]
CONDITIONS = [
    "name=^run-00",
    "name=@abc",
    "name!=x",
    "name==run-ghost",
    "phase==Running",
    "phase!=Completed",
    "type==Training",
    "type=@ing",
    "projectName==tiny",
    "projectName==big",
    "projectName=^project-1",
    "submittedBy==user-7@example.com",
    "submittedBy=$9@example.com",
    "nodepool!=a100",
    "createdAt>=2023-11-15T00:00:00Z",
    "createdAt<=2023-11-15T00:00:00Z",
    "completedAt>=2023-11-15T00:00:00Z",
    "allocatedGPU>=2",
    "allocatedGPU==3",
]


@pytest_asyncio.fixture
async def pool(database: Any) -> AsyncIterator[asyncpg.Pool]:
    """A pool on submission's tables, with rows in the list."""
    connection = await asyncpg.connect(database.url("submission"))
    await migrate(connection, "submission", of_package("submission", "muster_submission"))
    await connection.execute(MADE, ROWS)
    await connection.execute("ANALYZE workload_list")
    await connection.close()
    async with asyncpg.create_pool(
        database.url("submission"), min_size=1, max_size=4, server_settings=PLANNER
    ) as opened:
        yield opened


async def oracle(pool: asyncpg.Pool, asked: Question) -> tuple[list[str], int]:
    """The answer and the count by the plainest statement."""
    made = Statement()
    there = f"l.gone = {asked.gone} AND {made.tests(asked)}"
    direction = "DESC" if asked.order.descending else "ASC"
    order = ", ".join(f"l.{column} {direction}" for column in dict.fromkeys((asked.order.column, "id")))
    shown = f"l.id::text AS id, l.{asked.order.column} AS shown"
    statement = f"SELECT {shown} FROM workload_list l WHERE {there} ORDER BY {order}"  # noqa: S608 - of this file
    rows = await pool.fetch(statement, *made.values)
    if asked.order.called is not None:
        names = dict(asked.order.called)
        rows = sorted(rows, key=lambda row: (names.get(row["shown"], ""), row["id"]), reverse=asked.order.descending)
    return [row["id"] for row in rows][asked.offset : asked.offset + asked.limit], len(rows)


async def test_the_indexes_are_those_that_the_domain_names(pool: asyncpg.Pool) -> None:
    rows = await pool.fetch("SELECT indexdef FROM pg_indexes WHERE tablename = 'workload_list'")
    there: dict[bool, set[tuple[str, ...]]] = {False: set(), True: set()}
    for (definition,) in rows:
        columns, _, where = definition.partition(" USING btree (")[2].partition(")")
        if where:
            there["NOT" not in where].add(tuple(columns.split(", ")))
    assert there == {gone: set(some) for gone, some in INDEXES.items()}


async def test_random_questions_have_the_right_answers(pool: asyncpg.Pool) -> None:
    drawn = random.Random(20261121)
    lists = Lists(pool)
    columns = sorted({field.column for field in FIELDS if field.sortable} - {"created_at"})
    orders = [*(Order(column) for column in columns), *CALLED]
    for _ in range(250):
        terms: tuple[Term, ...] = read(drawn.sample(CONDITIONS, drawn.choice([0, 1, 1, 2, 3])), Places())
        asked = question(
            (*terms, *([SCOPE] if drawn.random() < 0.4 else [])),
            replace(drawn.choice(orders), descending=drawn.random() < 0.5),
            gone=drawn.random() < 0.2,
            offset=drawn.choice([0, 0, 0, 7, 500, 5000, 17_990]),
            limit=drawn.choice([1, 50, 500]),
        )
        right, count = await oracle(pool, asked)
        assert list(await lists.ids(asked)) == right, asked
        assert await lists.count(asked) == count, asked


async def test_the_end_of_a_long_list_is_counted_off_from_there(pool: asyncpg.Pool) -> None:
    await pool.execute(MADE.replace("to_hex(1700000000000 + n * 1000)", "to_hex(1800000000000 + n * 1000)"), 10_000)
    lists = Lists(pool)
    asked = question((), Order("name", descending=False), offset=26_970, limit=50)
    right, count = await oracle(pool, asked)
    assert count == 27_000
    assert len(right) == 30
    assert list(await lists.ids(asked)) == right
    assert await lists.ids(replace(asked, offset=10**9)) == []
    middle = replace(asked, offset=21_000)
    assert list(await lists.ids(middle)) == (await oracle(pool, middle))[0]


PAIRS: list[tuple[list[str], bool, Order, str]] = [
    ([], False, Order(), "list_id"),
    ([], False, Order("name"), "list_name"),
    ([], False, Order("finished_at"), "list_finished"),
    ([], False, Order("gpus"), "list_gpus"),
    (["projectName==big"], False, Order(), "list_project"),
    (["projectName==big"], False, Order("name"), "list_project_name"),
    (["phase==Completed"], False, Order(), "list_phase"),
    (["projectName==big", "phase==Completed"], False, Order(), "list_project_phase"),
    (["nodepool==default"], False, Order(), "list_pool"),
    (["cluster"], False, Order(), "list_cluster"),
    (["projectName==tiny"], False, Order("gpus"), "list_project"),
    (["name==run-ghost"], False, Order(), "list_name"),
    (["submittedBy==user-7@example.com"], False, Order("name"), "list_submitter"),
    ([], True, Order(), "list_project"),
    ([], True, Order("name"), "list_project_name"),
    (["projectName==big"], False, CALLED[0], "list_project"),
    (["projectName==tiny"], False, CALLED[1], "list_project"),
    (["name==run-ghost"], True, CALLED[0], "list_name"),
]


async def test_each_pair_walks_the_index_that_was_made_for_it(pool: asyncpg.Pool) -> None:
    lists = Lists(pool)
    for conditions, scoped, order, index in PAIRS:
        terms = (
            (Points("cluster", frozenset({"cluster-1"})),) if conditions == ["cluster"] else read(conditions, Places())
        )
        asked = question((*terms, *([SCOPE] if scoped else [])), order)
        way = certain(asked) or ways(asked, await lists._probed(asked))[0]
        assert isinstance(way, Few | Walk)
        statement = list_sql.few(asked, way.key) if isinstance(way, Few) else list_sql.walk(asked, way)
        plan = "\n".join(row[0] for row in await pool.fetch(f"EXPLAIN {statement.text}", *statement.values))
        assert any(said in plan for said in (f"using {index} on", f"Backward using {index} on")), plan
        assert "Seq Scan" not in plan


async def test_an_order_by_what_values_are_called_is_one_pass(pool: asyncpg.Pool) -> None:
    for order in CALLED:
        asked = question((), order)
        assert ways(asked, {}) == [Scan()]
        statement = list_sql.scan(asked)
        plan = "\n".join(row[0] for row in await pool.fetch(f"EXPLAIN {statement.text}", *statement.values))
        assert plan.count("on workload_list") == 1, plan
        assert "Index Scan" not in plan, plan  # it would fetch the rows one by one, in the index's order


async def test_clusters_of_deleted_workloads_alone_are_known(pool: asyncpg.Pool) -> None:
    await pool.execute("UPDATE workload_list SET cluster = 'cluster-past' WHERE gone AND cluster = 'cluster-2'")
    await pool.execute("UPDATE workload_list SET cluster = '' WHERE NOT gone AND cluster = 'cluster-0'")
    directory = await DirectoryBooks(pool, PostgresTenancy(pool)).now()
    assert sorted(directory.clusters) == ["cluster-0", "cluster-1", "cluster-2", "cluster-past"]
    asked = question((), order_of("clusterId", "asc", directory.places()), gone=True, limit=ROWS)
    numbers = [cluster_uuid(name) for name in await _clusters(pool, await Lists(pool).ids(asked))]
    assert len(numbers) == ROWS // 10
    assert numbers == sorted(numbers)
    past = question(read([f"clusterId=={cluster_uuid('cluster-past')}"], directory.places()), Order(), gone=True)
    assert len(await Lists(pool).ids(past)) == 50


async def _clusters(pool: asyncpg.Pool, ids: Sequence[str]) -> list[str]:
    rows = await pool.fetch("SELECT id::text AS id, cluster FROM workload_list WHERE id = ANY ($1)", ids)
    found = {row["id"]: row["cluster"] for row in rows}
    return [found[one] for one in ids]


async def test_what_cannot_be_and_what_a_moment_is(pool: asyncpg.Pool) -> None:
    lists = Lists(pool)
    asked = question((*read(["projectName==tiny"], Places()), SCOPE), Order())
    assert impossible(asked.terms)
    assert (await lists.ids(asked), await lists.count(asked), await lists.pods(asked)) == ([], 0, 0)
    moment = datetime.fromtimestamp(1700000000 + 5000, UTC).isoformat()
    asked = question(read([f"createdAt=={moment}"], Places()), Order(), gone=False)
    assert {key.column for key in keys(asked)} == {"id"}
    assert len(await Lists(pool).ids(asked)) == 1
