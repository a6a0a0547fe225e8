"""Confirmation that a synchronous standby of PostgreSQL has what was committed.

A COMMIT waits for the standby. If that wait is cut short (a timeout, a cancelled statement, an ended session),
PostgreSQL has committed on this server alone: it shows the rows to everyone and answers with success and a WARNING
(PostgreSQL, src/backend/replication/syncrep.c, SyncRepWaitForLSN). A failover then loses them.
database.py and the relay use it. Holds: when `confirm` returns True, a standby has everything that was committed before
the call, because a standby receives the log in order. Without a standby every commit is confirmed at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from muster_chassis import identity
from muster_chassis.connection import AnyConnection

_WRITE: Final = "INSERT INTO commits (id, at) VALUES ($1, now())"


@contextmanager
def warnings(connection: AnyConnection) -> Iterator[list[str]]:
    """Collect the warnings that PostgreSQL sends on this connection in the block."""
    found: list[str] = []

    def note(_: Any, message: Any) -> None:
        if message.severity_en == "WARNING":
            found.append(message.message)

    connection.add_log_listener(note)
    try:
        yield found
    finally:
        connection.remove_log_listener(note)


async def is_named(connection: AnyConnection) -> bool:
    """Return whether commits wait for a synchronous standby."""
    return bool(await connection.fetchval("SHOW synchronous_standby_names"))


async def confirm(connection: AnyConnection) -> bool:
    """Return whether a standby has everything that was committed before this call.

    The call commits a row of its own. It waits for at most the client's statement timeout, because PostgreSQL's own
    (statement_timeout) does not end a COMMIT.
    """
    try:
        with warnings(connection) as found:
            async with connection.transaction():
                await connection.execute("SET LOCAL synchronous_commit = on")
                await connection.execute(_WRITE, identity.event_id())
    except TimeoutError:
        return False
    return not found
