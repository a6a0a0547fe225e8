"""What a commit is worth where PostgreSQL has a synchronous standby.

A COMMIT waits for the standby. Where that wait is cut short (a timeout, a cancelled statement, an ended session),
PostgreSQL has committed on this server alone: it shows the rows to everyone and answers with success and a WARNING
(PostgreSQL, src/backend/replication/syncrep.c, SyncRepWaitForLSN). A failover then loses them.
Used by database.py and by the relay. Holds: what `confirm` returns True for, a standby has, and all that was committed
before it: a standby takes the log in order. Without a standby every commit is confirmed at once.
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
    """The warnings that PostgreSQL sends on this connection in the block."""
    found: list[str] = []

    def note(_: Any, message: Any) -> None:
        if message.severity_en == "WARNING":
            found.append(message.message)

    connection.add_log_listener(note)
    try:
        yield found
    finally:
        connection.remove_log_listener(note)


async def confirm(connection: AnyConnection) -> bool:
    """Whether a standby has all that was committed before this call.

    It commits a row of its own and waits as long as the client's timeout of a statement lets it: PostgreSQL's own
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
