"""Numbered SQL, applied once each: the schema of a service at start.

Files are `NNNN_title.sql`, counted from 1 without a gap, and never changed once applied. `apply.py` applies them.
A release runs on the schema of the release before it and of the one after it (docs/decisions/0011), so that instances
are upgraded, and put back, one after the other. A file therefore expands: it adds what the new release needs and leaves
what the old one uses. Its first line may say otherwise:

    -- contract: needs 0007     it removes what releases without 0007 use; they do not start on this schema any more
    -- concurrently             indexes only, built outside a transaction while others write; a file that drops an index
                                has `-- contract` as its second line
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

_NAME: Final = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")
_CONTRACT: Final = re.compile(r"(?:-- concurrently\n)?-- contract: needs (\d{4})\n")
_CONCURRENTLY: Final = "-- concurrently\n"
_INDEX: Final = re.compile(
    r"(?:CREATE(?: UNIQUE)? INDEX CONCURRENTLY (?P<made>\w+)\s+ON\s.+|DROP INDEX CONCURRENTLY (?P<dropped>\w+))",
    re.DOTALL,
)


class MigrationError(Exception):
    """The files and the database do not fit together; nothing was changed by the one that is named."""


@dataclass(frozen=True, slots=True)
class IndexChange:
    """One statement of a file that runs outside a transaction. name: of the index; sql: without a semicolon."""

    name: str
    sql: str
    dropped: bool


@dataclass(frozen=True)
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

    @property
    def needs(self) -> int:
        """The number of the last file of the oldest release that runs on this schema; 0: any release does."""
        found = _CONTRACT.match(self.sql)
        return int(found[1]) if found else 0

    @cached_property
    def outside(self) -> tuple[IndexChange, ...]:
        """What runs outside a transaction, one by one; (): the file is one transaction. Raises MigrationError."""
        if not self.sql.startswith(_CONCURRENTLY):
            return ()
        lines = [line for line in self.sql.splitlines() if not line.startswith("--")]
        found = []
        for sql in filter(None, (part.strip() for part in "\n".join(lines).split(";"))):
            match = _INDEX.fullmatch(sql)
            if match is None:
                raise MigrationError(
                    f"{self.room}/{self.name}: a file that begins with `{_CONCURRENTLY.strip()}` may hold CREATE INDEX "
                    f"CONCURRENTLY name ON ... and DROP INDEX CONCURRENTLY name; it has: {sql[:80]}"
                )
            found.append(IndexChange(match["made"] or match["dropped"], sql, dropped=match["made"] is None))
        return tuple(found)


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
    for migration in found:
        if migration.needs >= migration.number:
            raise MigrationError(
                f"{room}/{migration.name} needs {migration.needs:04}: the release before it could not run on its "
                "schema; expand in one release and contract in the next"
            )
    return tuple(found)


def of_package(room: str, package: str) -> tuple[Migration, ...]:
    """The migrations that the package carries in its folder `migrations`."""
    return load(room, files(package) / "migrations")
