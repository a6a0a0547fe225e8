"""One contract for the store of policies, in memory and in PostgreSQL; and what its lock promises, in PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from muster_chassis.database import Database
from muster_chassis.unit import Unit
from muster_language import Kind
from muster_policy.adapters.policies import PostgresPolicies
from muster_policy.domain.standing import Row
from muster_policy.ports import PolicyStore, Written
from muster_policy_engine.policy import Level, Scope
from tests.integration.policy.test_books import opened
from tests.support.policy_books import MemoryPolicies, no_unit
from tests.support.waiting import eventually

NOW = datetime(2026, 11, 28, tzinfo=UTC)
FIRST = Row(
    "00000000-0000-7000-8000-000000000001", Kind.TRAINING, Scope(), "house", 1, 1, "text", "", NOW, "anna", NOW, "anna"
)
SECOND = replace(
    FIRST, id="00000000-0000-7000-8000-000000000002", kind=Kind.INFERENCE, scope=Scope(Level.PROJECT, "x"), source="git"
)


class House:
    """A store, and units to use it in."""

    def __init__(self, store: PolicyStore, database: Database | None = None) -> None:
        self.store = store
        self.database = database

    def unit(self) -> AbstractAsyncContextManager[Unit]:
        return nullcontext(no_unit()) if self.database is None else self.database.unit()


@pytest.fixture(params=["memory", "postgres"])
async def house(request: pytest.FixtureRequest, database: Any) -> AsyncIterator[House]:
    if request.param == "memory":
        yield House(MemoryPolicies())
        return
    async with opened(database.url("policy")) as here:
        yield House(PostgresPolicies(), here)


async def test_what_is_written_is_read_by_its_revision(house: House) -> None:
    changed = replace(FIRST, version=2, revision=2, document="other", updated_by="ben")
    async with house.unit() as unit:
        assert await house.store.share(unit) == 0
        await house.store.write(unit, 1, [Written(each, "anna", "grpc", "new") for each in (FIRST, SECOND)])
    async with house.unit() as unit:
        await house.store.write(unit, 2, [Written(changed, "ben", "rest", "better")])
    async with house.unit() as unit:
        assert await house.store.revision(unit) == 2
        assert {each.id: each for each in await house.store.newer(unit, 0)} == {FIRST.id: changed, SECOND.id: SECOND}
        assert await house.store.newer(unit, 1) == [changed]
        versions = await house.store.versions(unit, FIRST.id)
        assert [(each.row.version, each.row.document, each.author, each.channel, each.reason) for each in versions] == [
            (2, "other", "ben", "rest", "better"),
            (1, "text", "anna", "grpc", "new"),
        ]
        assert await house.store.versions(unit, "00000000-0000-7000-8000-000000000009") == []


async def test_a_removed_policy_is_told_and_its_place_is_free(house: House) -> None:
    gone = replace(FIRST, version=2, revision=2, gone=True)
    again = replace(FIRST, id=SECOND.id, revision=2)
    async with house.unit() as unit:
        await house.store.write(unit, 1, [Written(FIRST, "anna", "grpc", "")])
        await house.store.write(unit, 2, [Written(again, "anna", "grpc", ""), Written(gone, "anna", "grpc", "")])
        assert {each.id: each.gone for each in await house.store.newer(unit, 1)} == {FIRST.id: True, SECOND.id: False}
        newest, _ = await house.store.versions(unit, FIRST.id)
        assert newest.row.gone


async def test_a_write_waits_for_verdicts_that_began_before_and_is_passed_by_none_after(database: Any) -> None:
    async with opened(database.url("policy")) as here:
        store, order = PostgresPolicies(), list[str]()
        ready, ends = asyncio.Event(), asyncio.Event()

        async def early() -> None:
            async with here.unit() as unit:
                await store.share(unit)
                ready.set()
                await ends.wait()
                order.append("early")

        async def write() -> None:
            async with here.unit() as unit:
                await store.take(unit)
                await store.write(unit, 1, [Written(FIRST, "anna", "grpc", "")])
                order.append("write")

        async def late() -> None:
            async with here.unit() as unit:
                order.append(f"late at {await store.share(unit)}")

        first = asyncio.create_task(early())
        await ready.wait()
        writing = asyncio.create_task(write())
        await _waiting(here, 1)
        second = asyncio.create_task(late())  # a shared lock beside the first one, if locks did not queue
        await _waiting(here, 2)
        ends.set()
        await asyncio.gather(first, writing, second)
        assert order == ["early", "write", "late at 1"]


async def _waiting(here: Database, count: int) -> None:
    """Waits until so many transactions wait for an advisory lock."""
    asked = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"

    async def look() -> int:
        found: int = await here.pool.fetchval(asked)
        return found

    await eventually(look, lambda found: found >= count)


async def test_a_writer_is_not_starved_by_verdicts_that_overlap(database: Any) -> None:
    async with opened(database.url("policy")) as here:
        store, stop, verdicts = PostgresPolicies(), asyncio.Event(), 0

        async def judging() -> None:
            nonlocal verdicts
            while not stop.is_set():
                async with here.unit() as unit:
                    await store.share(unit)
                    await unit.connection.execute("SELECT pg_sleep(0.02)")
                    verdicts += 1

        tasks = [asyncio.create_task(judging()) for _ in range(3)]
        async with asyncio.timeout(20):
            for revision in range(1, 6):
                async with here.unit() as unit:
                    await store.take(unit)
                    await store.write(
                        unit, revision, [Written(replace(FIRST, version=revision, revision=revision), "a", "grpc", "")]
                    )
        stop.set()
        await asyncio.gather(*tasks)
        assert verdicts > 0
