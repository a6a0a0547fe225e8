"""What a statement may be run on: a connection of its own, or the pool's stand-in for one; and who serves it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import asyncpg
from asyncpg.pool import PoolConnectionProxy

_CLOSE_SECONDS: Final = 2.0
_WHO: Final = """
SELECT pg_backend_pid() AS pid,
       (SELECT backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()) AS started,
       (SELECT system_identifier::text FROM pg_control_system()) AS server
"""


@dataclass(frozen=True, slots=True)
class Backend:
    """The server process behind a connection, as pg_stat_activity knows it."""

    pid: int
    started: str
    server: str


class Connection(asyncpg.Connection):
    """A connection that knows its backend."""

    backend: Backend


AnyConnection = asyncpg.Connection | PoolConnectionProxy


async def know_backend(connection: Connection) -> None:
    """Ask a new connection who serves it."""
    (row,) = await connection.fetch(_WHO)
    connection.backend = Backend(row["pid"], row["started"], row["server"])


async def release(connection: Connection) -> None:
    """Close a connection within 2 s, or give it up: whatever it holds is free on the server then.

    InternalClientError: a cancellation has cut one of its statements short.
    """
    try:
        if not connection.is_closed():
            with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError):
                await connection.close(timeout=_CLOSE_SECONDS)
    finally:
        connection.terminate()


def affected(status: str) -> int:
    """Return the number of rows in the status of a statement, such as "DELETE 3"."""
    return int(status.rpartition(" ")[2])


def backend_of(connection: Any) -> Backend:
    """Return who serves a connection of ours."""
    # The pool hands out a proxy; the attribute lives on the connection behind it.
    found: Backend = getattr(connection, "_con", connection).backend
    return found
