"""Accounts and coverage go long after the last use; no sum falls, and a workload that comes back begins an account."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from muster.events.v1.telemetry_pb2 import UsageAccounted
from muster_chassis import identity
from muster_chassis.database import Database
from muster_chassis.migrations import of_package
from muster_telemetry import app
from muster_telemetry.adapters.postgres import PostgresAccounts
from muster_telemetry.domain.accounts import GPU, SECOND, Sample
from muster_telemetry.handlers import Handlers
from tests.support.stations import settings

IDS = [f"00000000-0000-7000-8000-{number:012d}" for number in range(6)]
LONG_AGO = int((identity.now() - timedelta(days=16)).timestamp()) * SECOND
NOW = int(identity.now().timestamp()) * SECOND


def sample(workload: str, since: int, seconds: int) -> Sample:
    return Sample(workload, "team-a", "train", f"{workload}-r", (since, since + seconds * SECOND), GPU)


async def a_day_passes(here: Database) -> None:
    """Since this release has first removed rows here."""
    done = await here.pool.execute("UPDATE retention_positions SET position = position - 86400 WHERE name = 'accounts'")
    assert done == "UPDATE 1"


async def told(here: Database, workload: str) -> tuple[float, str]:
    """The last account of a workload that was told: GPU-seconds, and when it began."""
    (row,) = await here.pool.fetch(
        "SELECT headers, value FROM outbox WHERE aggregate = $1 ORDER BY id DESC LIMIT 1", workload
    )
    return UsageAccounted.FromString(row["value"]).gpu_seconds, json.loads(row["headers"])["muster_begun"]


async def test_what_is_long_without_use_goes_and_no_sum_falls(database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "_FORGET_ROWS", 2)
    migrations = of_package("telemetry", "muster_telemetry")
    url = database.url("telemetry")
    here = await Database.open(settings(url, "telemetry"), source="telemetry", migrations=migrations)
    try:
        accounts = PostgresAccounts()
        handlers = Handlers(accounts)

        async def count(*samples: Sample) -> None:
            async with here.unit() as unit:
                await handlers.on_samples(unit, samples)

        async def announce() -> None:
            async with here.unit() as unit:
                await handlers.announce(unit)

        async def there(table: str) -> int:
            found: int = await here.pool.fetchval(f"SELECT count(*) FROM {table}")  # noqa: S608 - a constant
            return found

        async def total() -> float:
            return float(await here.pool.fetchval("SELECT gpu_seconds FROM project_usage"))

        await count(*(sample(one, LONG_AGO, 10) for one in IDS[:5]), sample(IDS[5], NOW, 10))
        await here.pool.execute(
            "UPDATE coverage SET heard = heard - interval '16 days' WHERE replica <> $1", f"{IDS[5]}-r"
        )
        await app.forget_due(here, accounts)
        assert (await there("coverage"), await there("accounts")) == (1, 6), "what is not told yet stays"
        await announce()
        assert await total() == 60.0
        assert await told(here, IDS[0]) == (10.0, str(LONG_AGO))

        await app.forget_due(here, accounts)
        assert await there("accounts") == 6, "a day after an upgrade, not before"
        await a_day_passes(here)
        await app.forget_due(here, accounts)
        assert await there("accounts") == 1, "all five, two at a time"
        assert await total() == 60.0

        await count(sample(IDS[0], NOW, 7))
        await announce()
        assert await told(here, IDS[0]) == (7.0, str(NOW))
        assert await total() == 67.0
        await count(sample(IDS[0], NOW + 7 * SECOND, 3))
        await announce()
        assert await told(here, IDS[0]) == (10.0, str(NOW)), "an account keeps its beginning"
        await app.forget_due(here, accounts)
        assert await there("accounts") == 2
    finally:
        await here.close()


async def test_a_repeat_of_covered_use_begins_no_account(database: Any) -> None:
    migrations = of_package("telemetry", "muster_telemetry")
    url = database.url("telemetry")
    here = await Database.open(settings(url, "telemetry"), source="telemetry", migrations=migrations)
    try:
        accounts = PostgresAccounts()
        handlers = Handlers(accounts)
        await app.forget_due(here, accounts)
        await a_day_passes(here)
        for _ in range(2):
            async with here.unit() as unit:
                await handlers.on_samples(unit, [sample(IDS[0], LONG_AGO, 10)])
                await handlers.announce(unit)
            await app.forget_due(here, accounts)
            assert await here.pool.fetchval("SELECT count(*) FROM accounts") == 0
            assert await here.pool.fetchval("SELECT count(*) FROM coverage") == 1
        assert await here.pool.fetchval("SELECT count(*) FROM outbox") == 1
    finally:
        await here.close()
