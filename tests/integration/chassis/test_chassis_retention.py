"""What the chassis keeps, and for how long, on the real PostgreSQL: what is over goes, whatever its number."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest

from muster_chassis import identity, metrics, retention
from muster_chassis.connection import AnyConnection
from muster_chassis.database import Database
from muster_chassis.retention import OVERDUE, Retention
from muster_chassis.topics import SUBMISSIONS, Topic, assignments
from muster_chassis.unit import ASSIGNMENTS, ORDINARY
from tests.support.stations import asked, opened

EAST, WEST = assignments("east"), assignments("west")
BUS = "the-bus"


@asynccontextmanager
async def scheduler(database: Any) -> AsyncIterator[Database]:
    async with opened(database.url("scheduler"), "scheduler") as here:
        await here.pool.execute("INSERT INTO bus_identity (cluster_id, since) VALUES ($1, now())", BUS)
        yield here


async def publish(here: Database, topic: Topic, *workloads: str, at: datetime | None = None) -> None:
    async with here.unit(at) as unit:
        for workload in workloads:
            unit.publish(topic, workload, asked(workload))


async def end(here: Database, *workloads: str, days: float) -> None:
    async with here.unit(identity.now() - timedelta(days=days)) as unit:
        unit.mark_ended(workloads)


async def sent(here: Database, *, upto: int | None = None, bus: str = BUS) -> None:
    """Both lanes are published up to that row."""
    last = upto if upto is not None else await here.pool.fetchval("SELECT coalesce(max(id), 0) FROM outbox")
    for lane in (ORDINARY, ASSIGNMENTS):
        await here.pool.execute(
            "INSERT INTO relay_positions VALUES ($1, $2, $3) ON CONFLICT (lane, bus) DO UPDATE SET last = $3",
            lane,
            bus,
            last,
        )


async def outbox(here: Database) -> list[tuple[str, int]]:
    rows = await here.pool.fetch("SELECT aggregate, version FROM outbox ORDER BY id")
    return [(row["aggregate"], row["version"]) for row in rows]


async def test_more_than_a_round_of_steps_goes_at_once(database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "_AGGREGATES", 3)
    names = [f"w{n:02}" for n in range(20)]
    async with scheduler(database) as here:
        await publish(here, SUBMISSIONS, *names, "lives")
        await end(here, *names, days=8)
        await sent(here)
        await Retention(here).round()
        assert await outbox(here) == [("lives", 1)]
        assert await here.pool.fetchval("SELECT count(*) FROM aggregate_versions") == 21
        assert metrics.value(OVERDUE) == 0


async def test_an_aggregate_with_many_events_is_removed_in_parts(
    database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "_OUTBOX_ROWS", 3)
    async with scheduler(database) as here:
        for _ in range(10):
            await publish(here, SUBMISSIONS, "service", "short", "lives")
        await end(here, "service", "short", days=8)
        await sent(here)
        await Retention(here).round()
        assert {name for name, _ in await outbox(here)} == {"lives"}
        assert await here.pool.fetchval("SELECT count(*) FROM ended_aggregates WHERE outbox_removed") == 2


async def test_a_step_that_is_too_slow_delays_no_other(database: Any) -> None:
    async with scheduler(database) as here:
        await publish(here, SUBMISSIONS, "old")
        await end(here, "old", days=30)
        await here.pool.execute("UPDATE ended_aggregates SET outbox_removed = true")
        await publish(here, SUBMISSIONS, "slow")
        await end(here, "slow", days=8)
        await sent(here)
        holder = await asyncpg.connect(database.url("scheduler"))  # its transaction has no time limit
        async with holder.transaction():
            await holder.execute("SELECT FROM scheduler.outbox WHERE aggregate = 'slow' FOR UPDATE")
            await Retention(here).round()
        await holder.close()
        assert await outbox(here) == [("slow", 1)]
        assert await here.pool.fetch("SELECT aggregate FROM aggregate_versions") == [("slow",)]


async def test_what_is_not_sent_stays_and_delays_no_other(database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "_AGGREGATES", 1)
    async with scheduler(database) as here:
        await publish(here, WEST, "a", "b")
        await publish(here, EAST, "c")
        await publish(here, SUBMISSIONS, "d")
        await end(here, "a", "b", days=9)
        await end(here, "c", days=8)
        await sent(here)
        await end(here, "d", days=8)
        await here.pool.execute("INSERT INTO relay_lanes VALUES ($1, $2, $3, 0)", ASSIGNMENTS, BUS, WEST.name)
        await Retention(here).round()
        assert await outbox(here) == [("a", 1), ("b", 1)]
        assert metrics.value(OVERDUE) == pytest.approx(2 * 86_400, abs=60)
        await here.pool.execute("DELETE FROM relay_lanes")
        await Retention(here).round()
        assert await outbox(here) == []


async def test_a_row_beyond_the_position_stays(database: Any) -> None:
    async with scheduler(database) as here:
        await publish(here, SUBMISSIONS, "a", "b")
        await end(here, "a", "b", days=8)
        await sent(here, upto=1)
        await Retention(here).round()
        assert await outbox(here) == [("b", 1)]


async def test_the_position_on_another_bus_holds_nothing_up(database: Any) -> None:
    async with scheduler(database) as here:
        await publish(here, SUBMISSIONS, "a")
        await end(here, "a", days=8)
        await sent(here, upto=0, bus="an-old-bus")
        await sent(here)
        await Retention(here).round()
        assert await outbox(here) == []
        assert await here.pool.fetch("SELECT bus FROM relay_positions WHERE bus <> $1", BUS) == []


async def test_only_the_newest_assignment_is_kept(database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "_ROWS", 2)
    async with scheduler(database) as here:
        for _ in range(3):
            await publish(here, EAST, "a", "b")
            await publish(here, SUBMISSIONS, "a")
        await sent(here)
        await Retention(here).round()
        assert await outbox(here) == [("a", 1), ("a", 2), ("a", 3), ("b", 3), ("a", 3)]
        await publish(here, EAST, "a")
        await sent(here)
        await Retention(here).round()
        assert await outbox(here) == [("a", 1), ("a", 2), ("b", 3), ("a", 3), ("a", 4)]


async def test_a_newer_assignment_that_is_not_sent_replaces_nothing(database: Any) -> None:
    async with scheduler(database) as here:
        await publish(here, EAST, "a", "a")
        await sent(here, upto=1)
        await Retention(here).round()
        assert await outbox(here) == [("a", 1), ("a", 2)]
        await sent(here)
        await Retention(here).round()
        assert await outbox(here) == [("a", 2)]


async def test_rows_without_a_version_go_by_age(database: Any) -> None:
    async with scheduler(database) as here:
        for days in (8, 6):
            async with here.unit(identity.now() - timedelta(days=days)) as unit:
                unit.publish(SUBMISSIONS, f"{days} days", asked("x"), versioned=False)
        await sent(here)
        await Retention(here).round()
        assert await outbox(here) == [("6 days", 0)]


async def test_version_numbers_and_the_services_own_rows_outlive_the_events(database: Any) -> None:
    forgotten: list[str] = []

    async def forget(_: AnyConnection, aggregates: Sequence[str]) -> None:
        forgotten.extend(aggregates)

    async with scheduler(database) as here:
        await publish(here, SUBMISSIONS, "a", "b")
        await end(here, "a", days=15)
        await end(here, "b", days=13)
        await sent(here)
        await Retention(here, forget=forget).round()
        assert await outbox(here) == []
        assert forgotten == ["a"]
        rows = await here.pool.fetch("SELECT aggregate FROM aggregate_versions")
        assert [row["aggregate"] for row in rows] == ["b"]
        assert await here.pool.fetchval("SELECT array_agg(aggregate) FROM ended_aggregates") == ["b"]


async def test_what_was_published_after_the_end_is_sent_before_it_is_forgotten(database: Any) -> None:
    async with scheduler(database) as here:
        await publish(here, EAST, "a")
        await end(here, "a", days=15)
        await sent(here)
        await here.pool.execute("UPDATE ended_aggregates SET outbox_removed = true")
        await publish(here, EAST, "a")
        await Retention(here).round()
        assert ("a", 2) in await outbox(here)
        await sent(here)
        await Retention(here).round()
        assert await outbox(here) == []
        assert await here.pool.fetchval("SELECT count(*) FROM ended_aggregates") == 0


async def test_marked_again_it_is_kept_from_its_last_end_on(database: Any) -> None:
    """What was Completed long ago and is deleted now has one more event, which a lost bus must bring again."""
    async with scheduler(database) as here:
        await publish(here, SUBMISSIONS, "a")
        await end(here, "a", days=8)
        await end(here, "a", days=0)
        await end(here, "a", days=9)  # a clock that went back
        await sent(here)
        await Retention(here).round()
        assert await outbox(here) == [("a", 1)]


async def test_one_instance_works_at_a_time(database: Any) -> None:
    async with scheduler(database) as here, scheduler_again(database) as other:
        await publish(here, SUBMISSIONS, "a")
        await end(here, "a", days=8)
        await sent(here)
        async with other.pool.acquire() as busy:
            await busy.fetchval(retention._LOCK)
            await Retention(here).round()
            assert await outbox(here) == [("a", 1)]
            await busy.fetchval(retention._UNLOCK)
        await Retention(here).round()
        assert await outbox(here) == []


@asynccontextmanager
async def scheduler_again(database: Any) -> AsyncIterator[Database]:
    async with opened(database.url("scheduler"), "scheduler") as other:
        yield other
