"""Brings the schema of a service up to date, beside instances that serve.

A service calls `migrate` before anything else. Holds: one instance applies at a time; a file is applied whole or not at
all; a statement that cannot get its lock gives up its place in the queue after two seconds, since every query behind it
would wait as long as it does, and is tried again until it gets it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

import asyncpg

from muster_chassis import logs
from muster_chassis.migrations import IndexChange, Migration, MigrationError, of_package

_log = logs.get(__name__)
_LOCK_SECONDS: Final = 2
_PAUSE: Final = 1.0  # between two tries to get a lock: others have their turn
_TURN_PAUSE: Final = 0.1
_TURN_TOLD: Final = 20  # looks for the turn of this instance before it is told that another one applies
_TABLE: Final = """
CREATE TABLE IF NOT EXISTS migrations (
    room text NOT NULL, number integer NOT NULL, name text NOT NULL, checksum text NOT NULL,
    needs integer NOT NULL DEFAULT 0, applied timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (room, number))
"""
_HAS_NEEDS: Final = """
SELECT 1 FROM information_schema.columns
WHERE table_schema = current_schema() AND table_name = 'migrations' AND column_name = 'needs'
"""
_ADD_NEEDS: Final = "ALTER TABLE migrations ADD COLUMN needs integer NOT NULL DEFAULT 0"
_KEEP: Final = "INSERT INTO migrations (room, number, name, checksum, needs) VALUES ($1, $2, $3, $4, $5)"
_IS_VALID: Final = """
SELECT i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = current_schema() AND c.relname = $1
"""
_OLDEST_OTHER: Final = """
SELECT pid, coalesce(application_name, '') AS name, extract(epoch FROM now() - xact_start)::bigint AS seconds
FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
ORDER BY xact_start LIMIT 1
"""
_WAITS: Final = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)
Told = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Applied:
    """A file that the database has. needs: as `Migration.needs`."""

    name: str
    checksum: str
    needs: int


async def migrate(
    connection: asyncpg.Connection,
    schema: str,
    migrations: Sequence[Migration] = (),
    *,
    waits: Told = lambda _: None,
) -> None:
    """Brings `schema` up to date: the chassis's tables, then the service's `migrations`.

    waits: is told what this waits for, again and again while it does. Raises MigrationError where an applied file was
    changed, or where the schema is that of a newer release and no longer has what these files stand for.
    """
    wanted = [*of_package("chassis", "muster_chassis"), *migrations]
    async with _turn(connection, schema, waits):
        if not await connection.fetchval("SELECT 1 FROM pg_namespace WHERE nspname = $1", schema):
            await connection.execute(f'CREATE SCHEMA "{schema}"')
        await connection.execute(f'SET search_path TO "{schema}"')
        await connection.execute(_TABLE)
        if not await connection.fetchval(_HAS_NEEDS):
            await _patiently(connection, partial(connection.execute, _ADD_NEEDS), "the table of migrations", waits)
        rows = await connection.fetch("SELECT room, number, name, checksum, needs FROM migrations")
        applied = {(row["room"], row["number"]): Applied(row["name"], row["checksum"], row["needs"]) for row in rows}
        _check_known(wanted, applied)
        for migration in wanted:
            if (migration.room, migration.number) not in applied:
                await _apply(connection, migration, waits)


@asynccontextmanager
async def _turn(connection: asyncpg.Connection, schema: str, waits: Told) -> AsyncIterator[None]:
    """The turn of this instance.

    It is looked for again and again: a statement that waits for it holds a snapshot, and the build of an index waits
    for the end of every snapshot, so that the two would wait for each other.
    """
    looks = 0
    while not await connection.fetchval("SELECT pg_try_advisory_lock(hashtextextended($1, 1))", schema):
        looks += 1
        if looks % _TURN_TOLD == 0:
            waits(f"another instance brings the schema {schema} up to date")
        await asyncio.sleep(_TURN_PAUSE)
    try:
        yield
    finally:
        if not connection.is_closed():
            await connection.execute("SELECT pg_advisory_unlock(hashtextextended($1, 1))", schema)


def _check_known(wanted: Sequence[Migration], applied: Mapping[tuple[str, int], Applied]) -> None:
    """Whether these files run on the schema. Raises MigrationError."""
    known = {(migration.room, migration.number): migration for migration in wanted}
    last = {migration.room: migration.number for migration in wanted}
    for (room, number), found in sorted(applied.items()):
        migration = known.get((room, number))
        if migration is None and room in last:
            if found.needs > last[room]:
                raise MigrationError(
                    f"the database has {room}/{found.name}, which removed what this release uses: it needs a release "
                    f"with migration {room}/{found.needs:04}, and this one ends with {last[room]:04}; start it or a "
                    "newer one"
                )
            _log.info("the schema is that of a newer release", room=room, name=found.name)
        if migration is not None and migration.checksum != found.checksum:
            raise MigrationError(f"{room}/{migration.name} was changed after it had been applied; write a new number")


async def _apply(connection: asyncpg.Connection, migration: Migration, waits: Told) -> None:
    title = f"migration {migration.room}/{migration.name}"
    for change in migration.outside:
        await _change(connection, change, waits)

    async def write() -> None:
        if not migration.outside:
            await connection.execute(migration.sql)
        await connection.execute(
            _KEEP, migration.room, migration.number, migration.name, migration.checksum, migration.needs
        )

    await _patiently(connection, write, title, waits)
    _log.info("migration applied", room=migration.room, name=migration.name)


async def _change(connection: asyncpg.Connection, change: IndexChange, waits: Told) -> None:
    """Build or remove one index while others write; what an interrupted build has left is removed first."""
    while True:
        valid = await connection.fetchval(_IS_VALID, change.name)
        try:
            if valid is False or (valid and change.dropped):
                await _visibly(connection, f'DROP INDEX CONCURRENTLY "{change.name}"', change.name, waits)
            if not valid and not change.dropped:
                await _visibly(connection, change.sql, change.name, waits)
        except asyncpg.UniqueViolationError as error:
            raise MigrationError(f"the index {change.name} cannot be unique: {error.detail or error}") from error
        except asyncpg.DeadlockDetectedError:
            await _pause(connection, f"the index {change.name}", waits)
        else:
            return


async def _visibly(connection: asyncpg.Connection, sql: str, index: str, waits: Told) -> None:
    """Run a statement that takes its time, because it waits for every older transaction, and tell so meanwhile."""
    statement = asyncio.ensure_future(connection.execute(sql))
    try:
        while not statement.done():
            await asyncio.wait({statement}, timeout=_LOCK_SECONDS)
            if not statement.done():
                waits(f"the index {index} is built or removed, once every older transaction has ended")
    finally:
        statement.cancel()
    statement.result()


async def _patiently(
    connection: asyncpg.Connection, write: Callable[[], Awaitable[object]], title: str, waits: Told
) -> None:
    """Do it in one transaction, again and again while it does not get its locks."""
    while True:
        try:
            async with connection.transaction():
                await connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'")
                await write()
        except _WAITS:
            await _pause(connection, title, waits)
        else:
            return


async def _pause(connection: asyncpg.Connection, title: str, waits: Told) -> None:
    other = await connection.fetchrow(_OLDEST_OTHER)
    by = f"; the oldest transaction is {other[2]} s old, of {other[1] or 'a client'} (pid {other[0]})" if other else ""
    waits(f"{title} waits for a lock{by}")
    await asyncio.sleep(_PAUSE)
