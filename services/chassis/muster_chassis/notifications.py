"""What other instances of a service have committed: LISTEN and NOTIFY on a connection of its own.

Wired by the composition roots of services that may run several times. A notification only names what to read again;
truth is in the tables. It is sent after the commit and not in it: a transaction that notifies holds one lock of the
whole database until its commit is on disk, so that all services would commit one after the other. Holds: any number
of commits within `_SPACING` are one NOTIFY; a subscriber is also called after each connect, because what was sent
meanwhile is lost; and it polls as well, because an instance may die between its commit and its NOTIFY.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from muster_chassis import logs
from muster_chassis.backoff import Backoff
from muster_chassis.connection import Connection, release
from muster_chassis.database import PASSING, Database, transient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_log = logs.get(__name__)
OUTBOX: Final = "outbox"
"""Outbox rows were committed: the relay has something to send."""
_SPACING: Final = 0.01  # seconds between two NOTIFY of one instance
_ALIVE_SECONDS: Final = 5.0  # a quiet connection is asked this often whether its server is still there
_MOST_PAUSE: Final = 1.0
_NOTIFY: Final = "SELECT pg_notify($1, kind) FROM unnest($2::text[]) AS kind"


class Notifications:
    """The notifications between the instances of one service; its schema names the channel.

    Every role of the database may send on it. A notification without a cause costs one look.
    """

    def __init__(self, database: Database) -> None:
        """Tells the others of every commit that adds outbox rows."""
        self._database = database
        self._channel = database.settings.database_schema
        self._subscribers: dict[str, list[Callable[[], None]]] = {}
        self._unsent: set[str] = set()
        self._stirred = asyncio.Event()
        self._backend = 0
        database.on_published(lambda: self.send(OUTBOX))

    def subscribe(self, kind: str, action: Callable[[], None]) -> None:
        """Calls `action` when another instance has sent this kind, and after every connect."""
        self._subscribers.setdefault(kind, []).append(action)

    def send(self, kind: str) -> None:
        """Tells the other instances, soon. Called after a commit."""
        self._unsent.add(kind)
        self._stirred.set()

    async def run(self) -> None:
        """Listens and sends for ever; PostgreSQL may come and go. An eternal task."""
        backoff = Backoff(last=_MOST_PAUSE)
        while True:
            try:
                async with self._connected() as connection:
                    backoff.reset()
                    await self._converse(connection)
            except (*PASSING, TimeoutError) as error:
                if isinstance(error, asyncpg.InterfaceError) and not transient(error):
                    raise
                _log.warning("other instances are not heard, polls go on", error=repr(error))
                await backoff.pause()

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Connection]:
        connection = await self._database.connect()
        try:
            self._backend = connection.backend.pid
            connection.add_termination_listener(lambda _: self._stirred.set())
            await connection.add_listener(self._channel, self._hear)
            for kind in self._subscribers:
                self._call(kind)  # only now: a commit before LISTEN is read, one after it is heard
            yield connection
        finally:
            await release(connection)

    async def _converse(self, connection: Connection) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_ALIVE_SECONDS):
                    await self._stirred.wait()
            self._stirred.clear()
            sent, self._unsent = self._unsent, set()
            try:
                # Without an unsent kind this is the question whether the server is still there.
                await connection.execute(_NOTIFY, self._channel, sorted(sent))
            except BaseException:
                self._unsent |= sent
                raise
            await asyncio.sleep(_SPACING)

    def _hear(self, _connection: Any, sender: int, _channel: str, payload: object) -> None:
        if sender != self._backend:  # our own commits have told our own parts already
            self._call(str(payload))

    def _call(self, kind: str) -> None:
        for action in self._subscribers.get(kind, ()):
            action()
