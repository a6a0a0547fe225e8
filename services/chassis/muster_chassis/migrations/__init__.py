"""Numbered SQL, applied once each: the schema of a service at start.

A service calls `migrate` before anything else. Files are `NNNN_title.sql`, counted from 1 without a gap, never changed
once applied (their checksums are compared), and run each in a transaction of its own under one lock, so that two
instances that start together do not race.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

import asyncpg

from muster_chassis import logs

_log = logs.get(__name__)
_NAME: Final = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")
_TABLE: Final = """
CREATE TABLE IF NOT EXISTS migrations (
    room text NOT NULL, number integer NOT NULL, name text NOT NULL, checksum text NOT NULL,
    applied timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (room, number))
"""


class MigrationError(Exception):
    """The files and the database do not fit together; nothing was changed by the one that is named."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file of one room."""

    room: str
    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """What the database remembers of the text."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


def load(room: str, folder: Traversable) -> tuple[Migration, ...]:
    """The migrations in `folder`, in order. Raises MigrationError where a number is missing or twice there."""
    found = []
    for entry in folder.iterdir():
        match = _NAME.fullmatch(entry.name)
        if match is not None:
            found.append(Migration(room, int(match[1]), entry.name, entry.read_text(encoding="utf-8")))
        elif entry.name.endswith(".sql"):
            raise MigrationError(f"{room}/{entry.name}: expected a name such as 0001_title.sql")
    found.sort(key=lambda migration: migration.number)
    numbers = [migration.number for migration in found]
    if numbers != list(range(1, len(found) + 1)):
        raise MigrationError(f"{room}: migrations are numbered {numbers}, expected 1 to {len(found)} without a gap")
    return tuple(found)


def of_package(room: str, package: str) -> tuple[Migration, ...]:
    """The migrations that the package carries in its folder `migrations`."""
    return load(room, files(package) / "migrations")


async def migrate(connection: asyncpg.Connection, schema: str, migrations: Sequence[Migration] = ()) -> None:
    """Brings `schema` up to date: the chassis's tables, then the service's `migrations`.

    Raises MigrationError where an applied file was changed or the database is newer than the files.
    """
    wanted = [*of_package("chassis", "muster_chassis"), *migrations]
    await connection.execute("SELECT pg_advisory_lock(hashtextextended($1, 1))", schema)
    try:
        exists = await connection.fetchval("SELECT 1 FROM pg_namespace WHERE nspname = $1", schema)
        if not exists:
            await connection.execute(f'CREATE SCHEMA "{schema}"')
        await connection.execute(f'SET search_path TO "{schema}"')
        await connection.execute(_TABLE)
        rows = await connection.fetch("SELECT room, number, checksum FROM migrations")
        applied = {(row["room"], row["number"]): row["checksum"] for row in rows}
        _check_known(wanted, applied)
        for migration in wanted:
            if (migration.room, migration.number) not in applied:
                await _apply(connection, migration)
    finally:
        await connection.execute("SELECT pg_advisory_unlock(hashtextextended($1, 1))", schema)


def _check_known(wanted: Sequence[Migration], applied: dict[tuple[str, int], str]) -> None:
    known = {(migration.room, migration.number): migration for migration in wanted}
    rooms = {migration.room for migration in wanted}
    for (room, number), checksum in applied.items():
        migration = known.get((room, number))
        if migration is None and room in rooms:
            raise MigrationError(
                f"the database has migration {room}/{number:04}, these files do not: start a newer one"
            )
        if migration is not None and migration.checksum != checksum:
            raise MigrationError(f"{room}/{migration.name} was changed after it had been applied; write a new number")


async def _apply(connection: asyncpg.Connection, migration: Migration) -> None:
    async with connection.transaction():
        await connection.execute(migration.sql)
        await connection.execute(
            "INSERT INTO migrations (room, number, name, checksum) VALUES ($1, $2, $3, $4)",
            migration.room,
            migration.number,
            migration.name,
            migration.checksum,
        )
    _log.info("migration applied", room=migration.room, name=migration.name)
