"""A large cluster on the real things: its inventory comes in parts, and a leader may end between two of them."""

from __future__ import annotations

import asyncpg

from muster_stack.fixtures import TestDatabase
from tests.integration.scheduler.test_leading import register
from tests.support.scheduling import neighbours, scheduler
from tests.support.snapshots import Reporting
from tests.support.waiting import eventually, until


async def test_a_leader_that_ends_between_two_parts_loses_none(kafka: str, database: TestDatabase) -> None:
    url = database.url("scheduler")
    first, second, third = Reporting("north", start=2, instance="agent-1").messages("n1", "n2", "n3")
    async with neighbours(kafka, "north") as others:

        async def read() -> list[int]:
            connection = await asyncpg.connect(url)
            try:
                rows = await connection.fetch("SELECT number FROM scheduler.inventory_parts ORDER BY number")
            finally:
                await connection.close()
            return [row["number"] for row in rows]

        async def both() -> bool:
            return await read() == [1, 3]

        async def none() -> bool:
            return not await read()

        async with scheduler(url, kafka) as candidate:
            await register(candidate, others)
            await others.report("north", "north", first)
            await others.report("north", "north", third)
            await eventually(both)
        async with scheduler(url, kafka):
            await others.report("north", "north", second)
            workload = await others.admit("hello")
            await until(lambda: others.last_record(workload) is not None)
            await eventually(none)
    record = others.last_record(workload)
    assert record is not None
    assert {run.node for run in record.revisions[0].runs} <= {"n1", "n2", "n3"}
