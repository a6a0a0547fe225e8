"""Rule 11: time and locks are never poison.

A table is locked for longer than all the tries of a record take. Taken out here: the patience with statements that are
cancelled for time (they count as tries, and good records become dead letters).
"""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from muster_chassis import attempts
from muster_chassis.database import transient
from muster_chassis.health import Health
from tests.support.records import intake, record, with_ledger
from tests.support.stations import opened
from tests.support.waiting import until

_STATEMENT_SECONDS = 0.05
_BATCH = 5


async def _through_a_lock(database: Any, health: Health) -> tuple[dict[str, int], int]:
    """What was handled, and how many dead letters there are, when a table was locked while a batch came."""
    async with opened(database.url("policy"), database_statement_seconds=_STATEMENT_SECONDS) as here:
        ledger = await with_ledger(here)
        consumer = intake(here, ledger, health=health)
        locker = await asyncpg.connect(database.url("policy"))
        try:
            await locker.execute("BEGIN")
            await locker.execute("LOCK TABLE policy.ledger IN SHARE MODE")  # what CREATE INDEX takes
            work = asyncio.ensure_future(consumer.process([record(f"w{n}", 1) for n in range(_BATCH)], {}))
            await until(lambda: work.done() or bool(health.waiting))
            locked = dict(health.waiting)
            await locker.execute("ROLLBACK")
        finally:
            locker.terminate()
        await asyncio.wait_for(work, 20)
        assert work.done()
        dead = int(await here.pool.fetchval("SELECT count(*) FROM parked"))
        assert bool(locked) == (dead == 0)
        return ledger.memory, dead


async def test_a_locked_table_makes_no_dead_letters(database: Any) -> None:
    health = Health()
    memory, dead = await _through_a_lock(database, health)
    assert memory == {f"w{n}": 1 for n in range(_BATCH)}
    assert dead == 0
    assert health.waiting == {}


async def test_without_patience_good_records_become_dead_letters(
    database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "passes", transient)
    _, dead = await _through_a_lock(database, Health())
    assert dead == _BATCH


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError(),
        asyncpg.QueryCanceledError(),
        asyncpg.DeadlockDetectedError(),
        asyncpg.LockNotAvailableError(),
        asyncpg.SerializationError(),
        ConnectionResetError(),
    ],
)
def test_what_time_may_mend_is_no_fault_of_the_record(error: Exception) -> None:
    assert attempts.passes(error)


@pytest.mark.parametrize("error", [ValueError(), asyncpg.UniqueViolationError(), asyncpg.DataError(), OSError()])
def test_everything_else_counts_as_a_try(error: Exception) -> None:
    assert not attempts.passes(error)


async def test_a_batch_that_is_too_slow_is_handled_record_by_record(database: Any) -> None:
    async with opened(database.url("policy")) as here:
        ledger = await with_ledger(here)
        sizes: list[int] = []

        async def too_much_at_once(unit: Any, events: Any) -> None:
            sizes.append(len(events))
            if len(events) > 1:
                raise asyncpg.QueryCanceledError
            await ledger(unit, events)

        await intake(here, too_much_at_once).process([record("w1", 1), record("w2", 1)], {})
        assert ledger.memory == {"w1": 1, "w2": 1}
        assert sizes == [2, 2, 2, 1, 1]
