"""A schema is brought up to date beside instances that serve, and an older release runs on a newer schema."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from muster_chassis.database import Database
from muster_chassis.health import Health
from muster_chassis.migrations import Migration, MigrationError
from muster_chassis.migrations.apply import migrate
from tests.support.stations import settings
from tests.support.waiting import until

ONE = Migration("policy", 1, "0001_things.sql", "CREATE TABLE things (id integer, name text);")
EXPANDS = Migration("policy", 2, "0002_colour.sql", "ALTER TABLE things ADD COLUMN colour text;")
CONTRACTS = Migration("policy", 3, "0003_no_name.sql", "-- contract: needs 0002\nALTER TABLE things DROP COLUMN name;")
INDEX = Migration(
    "policy", 2, "0002_by_name.sql", "-- concurrently\nCREATE UNIQUE INDEX CONCURRENTLY by_name ON things (name);"
)
GONE = Migration("policy", 3, "0003_no_index.sql", "-- concurrently\nDROP INDEX CONCURRENTLY by_name;")


@asynccontextmanager
async def connected(database: Any) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database.url("policy"), server_settings={"search_path": "policy"})
    try:
        yield connection
    finally:
        await connection.close(timeout=5)


async def applied(database: Any, *files: Migration, told: list[str] | None = None) -> None:
    """What one instance with these files does at its start."""
    async with connected(database) as connection:
        await migrate(connection, "policy", files, waits=(told if told is not None else []).append)


async def columns(database: Any) -> Sequence[str]:
    async with connected(database) as connection:
        rows = await connection.fetch(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = 'policy' AND table_name = 'things'"
        )
        return sorted(row[0] for row in rows)


async def valid(database: Any) -> bool | None:
    async with connected(database) as connection:
        found: bool | None = await connection.fetchval(
            "SELECT i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relname = 'by_name'"
        )
        return found


async def test_an_older_release_runs_on_a_schema_that_was_expanded(database: Any) -> None:
    await applied(database, ONE, EXPANDS)
    await applied(database, ONE)
    assert await columns(database) == ["colour", "id", "name"]


async def test_a_release_whose_columns_were_removed_does_not_start(database: Any) -> None:
    await applied(database, ONE, EXPANDS, CONTRACTS)
    with pytest.raises(MigrationError, match=r"0003_no_name.sql.* needs a release with migration policy/0002, .* 0001"):
        await applied(database, ONE)
    await applied(database, ONE, EXPANDS)  # the release before the one that contracted


async def test_a_file_that_was_changed_is_refused(database: Any) -> None:
    await applied(database, ONE)
    with pytest.raises(MigrationError, match=r"0001_things\.sql was changed"):
        await applied(database, Migration("policy", 1, ONE.name, ONE.sql + "-- more"))


async def test_a_migration_that_waits_for_a_lock_lets_others_read(database: Any) -> None:
    await applied(database, ONE)
    told: list[str] = []
    async with connected(database) as holder, connected(database) as reader:
        transaction = holder.transaction()
        await transaction.start()
        await holder.execute("SELECT * FROM things")
        starting = asyncio.create_task(applied(database, ONE, EXPANDS, told=told))
        await until(lambda: told)
        # It gave up its place in the queue, so that a reader waits for two seconds at most, not for the holder's end.
        assert await reader.fetch("SELECT * FROM things", timeout=10) == []
        assert not starting.done()
        assert "policy/0002_colour.sql waits for a lock" in told[0]
        assert f"pid {holder.get_server_pid()}" in told[0]
        await transaction.rollback()
        await starting
    assert "colour" in await columns(database)


async def test_two_instances_that_start_together_build_an_index_once(database: Any) -> None:
    await applied(database, ONE)
    async with asyncio.timeout(30):  # with a lock that is waited for in a statement, the build waits for the waiting
        await asyncio.gather(*(applied(database, ONE, INDEX) for _ in range(3)))
    assert await valid(database) is True
    await applied(database, ONE, INDEX, GONE)
    assert await valid(database) is None


async def test_an_index_that_waits_for_older_transactions_says_so(database: Any) -> None:
    await applied(database, ONE)
    told: list[str] = []
    async with connected(database) as holder:
        async with holder.transaction():
            await holder.execute("INSERT INTO things VALUES (1, 'a')")
            starting = asyncio.create_task(applied(database, ONE, INDEX, told=told))
            await until(lambda: told)
            assert told[0] == "the index by_name is built or removed, once every older transaction has ended"
            assert not starting.done()
        await starting
    assert await valid(database) is True


async def test_an_index_that_was_left_unfinished_is_built_again(database: Any) -> None:
    await applied(database, ONE)
    async with connected(database) as connection:
        await connection.execute("INSERT INTO things VALUES (1, 'a'), (2, 'a')")
        with pytest.raises(MigrationError, match=r"by_name cannot be unique.*\(name\)=\(a\)"):
            await applied(database, ONE, INDEX)
        assert await valid(database) is False
        await connection.execute("UPDATE things SET name = 'b' WHERE id = 2")
    await applied(database, ONE, INDEX)
    assert await valid(database) is True


async def test_what_a_migration_waits_for_is_a_condition(database: Any) -> None:
    health = Health()
    given = settings(database.url("policy"), "policy")
    first = await Database.open(given, source="policy", migrations=[ONE], health=health)
    await first.close()
    async with connected(database) as holder, holder.transaction():
        await holder.execute("SELECT * FROM things")
        opening = asyncio.create_task(Database.open(given, source="policy", migrations=[ONE, EXPANDS], health=health))
        await until(lambda: health.troubles)
        assert "0002_colour.sql waits for a lock" in health.troubles["schema"]
    second = await opening
    await second.close()
    assert health.serving
