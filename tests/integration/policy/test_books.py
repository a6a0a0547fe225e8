"""One contract for the books of policy: in memory and in PostgreSQL alike."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from datetime import timedelta
from importlib.resources import files
from typing import Any

import pytest

from muster_chassis import identity
from muster_chassis.database import Database
from muster_chassis.migrations import load
from muster_chassis.retention import Retention
from muster_chassis.unit import Unit
from muster_policy import app
from muster_policy.adapters.herald import KafkaHerald
from muster_policy.adapters.policies import PostgresPolicies
from muster_policy.adapters.postgres import PostgresBooks, forget
from muster_policy.domain.standing import Shelf
from muster_policy.handlers import judging
from muster_policy.handlers.standing import Loading
from muster_policy.ports import Books, Department, Project, Told
from tests.support.policy_books import MemoryBooks, no_unit, submission
from tests.support.stations import settings


class House:
    """Books, and units to use them in."""

    def __init__(self, books: Books, database: Database | None = None) -> None:
        self.books = books
        self.database = database

    def unit(self) -> AbstractAsyncContextManager[Unit]:
        return nullcontext(no_unit()) if self.database is None else self.database.unit()


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Database]:
    migrations = load("policy", files("muster_policy") / "migrations")
    database = await Database.open(settings(url, "policy"), source="policy", migrations=migrations)
    try:
        yield database
    finally:
        await database.close()


@pytest.fixture(params=["memory", "postgres"])
async def house(request: pytest.FixtureRequest, database: Any) -> AsyncIterator[House]:
    if request.param == "memory":
        yield House(MemoryBooks())
        return
    async with opened(database.url("policy")) as here:
        yield House(PostgresBooks(), here)


async def test_verdicts_are_kept(house: House) -> None:
    first, second = submission(1).key, submission(2).key
    told = [Told(first, "t", b"a"), Told(second, "t", b"b")]
    async with house.unit() as unit:
        assert await house.books.verdicts(unit, [first]) == {}
        await house.books.record(unit, told)
        assert await house.books.verdicts(unit, [first, submission(1, generation=2).key]) == {first: told[0]}


async def test_projects_only_become_newer(house: House) -> None:
    async with house.unit() as unit:
        await house.books.change(unit, [Project("a", 2, ("x", "y")), Project("b", 1, ())])
        await house.books.change(unit, [Project("a", 1, ())])
        assert await house.books.projects(unit, ["a", "b", "c"]) == {
            "a": Project("a", 2, ("x", "y")),
            "b": Project("b", 1, ()),
        }
        await house.books.change(unit, [Project("a", 0, (), gone=True)])
        assert (await house.books.projects(unit, ["a"]))["a"] == Project("a", 2, ("x", "y"), gone=True)
        await house.books.change(unit, [Project("a", 1, ("z",))])
        assert (await house.books.projects(unit, ["a"]))["a"] == Project("a", 1, ("z",))


async def test_the_organisation_is_what_its_newest_versions_say(house: House) -> None:
    vision = Project("vision", 2, (), id=7, department="research", home_cluster="east", namespace="science")
    async with house.unit() as unit:
        await house.books.change_departments(unit, [Department("research", 3, 4), Department("sales", 1, 5)])
        await house.books.change_departments(unit, [Department("research", 2, 9), Department("sales", 0, gone=True)])
        await house.books.change(unit, [vision, Project("old", 1, ())])
        await house.books.change(unit, [Project("old", 0, (), gone=True)])
        found = await house.books.tenancy(unit)
    assert found.departments == {"research": Department("research", 3, 4)}
    assert found.projects == {"vision": vision}


async def test_what_waits_is_taken_once_when_its_project_is_there(house: House) -> None:
    late = submission(1, needs=2, trace="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    async with house.unit() as unit:
        await house.books.wait(unit, [late, submission(2, project="b"), submission(3, project="b")])
        await house.books.wait(unit, [late])
        assert await house.books.take_due(unit, 10) == []
        await house.books.change(unit, [Project("team-a", 2, ())])
        assert await house.books.take_due(unit, 10) == [late]
        assert await house.books.take_due(unit, 10) == []
        await house.books.deleted(unit, [submission(2).key[0]])
        await house.books.change(unit, [Project("b", 0, (), gone=True)])
        assert [each.key for each in await house.books.take_due(unit, 10)] == [submission(3).key]


async def test_rows_of_deleted_workloads_go_in_the_end(database: Any) -> None:
    async with opened(database.url("policy")) as here:
        books, retention = PostgresBooks(), Retention(here, forget=forget)
        async with here.unit() as unit:
            await books.record(unit, [Told(submission(n).key, "t", b"") for n in (1, 2)])
        async with here.unit() as unit:
            await books.deleted(unit, [submission(1).key[0]])
        for days, kept in ((0, 2), (13, 2), (15, 1)):
            await here.pool.execute("UPDATE ended_aggregates SET at = $1", identity.now() - timedelta(days=days))
            await retention.round()
            assert await here.pool.fetchval("SELECT count(*) FROM verdicts") == kept


async def test_all_that_waited_is_judged_in_one_round(database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "AT_ONCE", 2)
    async with opened(database.url("policy")) as here:
        books = PostgresBooks()
        async with here.unit() as unit:
            await books.wait(unit, [submission(number) for number in range(1, 6)])
            await books.wait(unit, [submission(6, needs=2)])
            await books.change(unit, [Project("team-a", 1, ())])
        loading = Loading(Shelf(), PostgresPolicies())
        await app.release_due(here, judging.Judging(loading, books, KafkaHerald()))
        assert await here.pool.fetchval("SELECT count(*) FROM waiting") == 1
        assert await here.pool.fetchval("SELECT count(*) FROM verdicts") == 5
