"""PostgreSQL: one pool a process, one transaction a unit, and an answer to every commit.

Opened by the composition root. Holds: a unit's block either ends with its transaction committed and memory told, or
with an exception and nothing written. A commit whose answer was lost is looked up by its commit row, once the
backend that ran it is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import partial
from typing import Any, Final, cast

import asyncpg

from muster_chassis import identity, logs, metrics, standby
from muster_chassis.connection import AnyConnection, Backend, Connection, backend_of, know_backend
from muster_chassis.fingerprints import Fingerprints
from muster_chassis.health import Health
from muster_chassis.migrations import Migration
from muster_chassis.migrations.apply import migrate
from muster_chassis.settings import DatabaseSettings
from muster_chassis.unit import Unit

_log = logs.get(__name__)
_OLDEST: Final = 150000
_ACQUIRE_SECONDS: Final = 60.0  # longer than any statement may take
_RELEASE_SECONDS: Final = 10.0
_RESOLVE_SECONDS: Final = 20.0
_PAUSE: Final = 0.1
_KEPT: Final = """
SELECT CASE WHEN EXISTS (SELECT 1 FROM commits WHERE id = $1) THEN true WHEN NOT pg_is_in_recovery() THEN false END
"""
"""Whether the server has a commit. NULL: it follows another server, so it may still receive it."""
_STANDBYS: Final = """
SELECT count(*) FROM pg_stat_replication r
WHERE usename IS NOT NULL AND state IS DISTINCT FROM 'backup' AND application_name <> ALL($1)
  AND NOT EXISTS (SELECT 1 FROM pg_replication_slots s WHERE s.active_pid = r.pid AND s.slot_type = 'logical')
"""
_NO_STANDBYS: Final = ("pg_basebackup", "pg_receivewal")
"""Names of programs that copy the log of a server and cannot take over from it."""

PLANNER: Final = {
    "jit": "off",
    # Statements name their index by their shape. What is left to guess is guessed for tables in memory, and never as
    # "few rows, so all of them may be fetched and sorted": where a guess of few is wrong, that reads a whole project.
    "random_page_cost": "1.1",
    "enable_bitmapscan": "off",
    "enable_incremental_sort": "off",
}
"""How the planner is told to think, on every connection of ours."""

COMMITS = metrics.counter(
    "muster_commits_total",
    unit="transactions",
    meaning="Transactions by outcome: committed, failed, or unknown until looked up.",
    action="Unknown ones that go on: look at the connection to PostgreSQL.",
    labels=("outcome",),
)
COMMIT_SECONDS = metrics.histogram(
    "muster_commit_seconds",
    unit="seconds",
    meaning="Sealing and committing a transaction, the wait for the outbox lock included.",
    action="Slow: look at the disk of PostgreSQL (fsync) and at long transactions.",
)

TRANSIENT: Final = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # a statement met a connection that PostgreSQL's death was just taking down
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.LockNotAvailableError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.InsufficientResourcesError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.IdleSessionTimeoutError,
    asyncpg.ReadOnlySQLTransactionError,
    OSError,
)
"""What PostgreSQL looks like while it is away, restarting or busy with others: it goes away by itself."""
PASSING: Final = (*TRANSIENT, asyncpg.QueryCanceledError)
"""The same for loops of our own statements, which are never too slow for another reason than a busy server."""


class DatabaseError(Exception):
    """The database is not one that Muster can work with."""


class OutcomeUnknown(Exception):
    """A commit got no answer and cannot be looked up, or no synchronous standby has it: a failover may lose it."""


def transient(error: BaseException) -> bool:
    """Whether a transaction that raised this may well succeed later, so that it is tried again without limit."""
    if isinstance(error, asyncpg.InterfaceError):
        # asyncpg raises DataError for a value that does not fit its type; that never goes away.
        return not isinstance(error, ValueError)
    if isinstance(error, OSError):
        # A handler's own trouble with a file is none of PostgreSQL's; that of a connect is told as a connection's.
        return isinstance(error, ConnectionError)
    return isinstance(error, TRANSIENT)


class Database:
    """The pool of one service. `woken` callbacks run after a commit that published something.

    fingerprints: how requests that are done once are told apart; a service that takes credentials gives it its keys.
    """

    def __init__(self, pool: asyncpg.Pool, settings: DatabaseSettings, source: str, options: dict[str, Any]) -> None:
        self.pool = pool
        self.source = source
        self.settings = settings
        self.fingerprints = Fingerprints()
        self._options = options
        self._woken: list[Callable[[], None]] = []

    @classmethod
    async def open(
        cls,
        settings: DatabaseSettings,
        *,
        source: str,
        migrations: Sequence[Migration] = (),
        health: Health | None = None,
    ) -> Database:
        """Connects, checks the server, brings the schema up to date and opens the pool.

        source: the service's name, ce_source of all that it publishes. health: shows as `schema` what a migration waits
        for. Raises DatabaseError and MigrationError.
        """
        shown = health or Health()
        connection = await asyncpg.connect(settings.database_url.get_secret_value(), timeout=10)
        try:
            await _check_server(connection)
            waits = partial(shown.bad, "schema", at_once=True)
            await migrate(connection, settings.database_schema, migrations, waits=waits)
            shown.good("schema")
        finally:
            await connection.close(timeout=5)
        options = _options(settings, source)
        pool: asyncpg.Pool = await asyncpg.create_pool(  # type: ignore[call-overload]  # the stubs want one record class
            settings.database_url.get_secret_value(),
            connection_class=Connection,
            min_size=settings.database_connections,  # all at once: an instance that started never lacks one later
            max_size=settings.database_connections,
            init=know_backend,
            reset=_check_idle,
            timeout=10,
            max_inactive_connection_lifetime=0,
            **options,
        )
        return cls(pool, settings, source, options)

    async def close(self) -> None:
        """Closes the pool, within 5 seconds."""
        try:
            async with asyncio.timeout(5):
                await self.pool.close()
        except TimeoutError:
            self.pool.terminate()

    def target(self) -> dict[str, Any]:
        """How another process connects as this one does: arguments of asyncpg.connect, as values of JSON."""
        return {
            "dsn": self.settings.database_url.get_secret_value(),
            "schema": self.settings.database_schema,
            "options": self._options,
        }

    async def connect(self) -> Connection:
        """A connection of its own, outside the pool: for locks that a session holds. The caller closes it."""
        connection: Connection = await asyncpg.connect(
            self.settings.database_url.get_secret_value(),
            connection_class=Connection,
            timeout=10,
            **self._options,
        )
        await know_backend(connection)
        return connection

    def on_published(self, wake: Callable[[], None]) -> None:
        """Calls `wake` after every commit that added outbox rows: the relay need not poll."""
        self._woken.append(wake)

    @asynccontextmanager
    async def unit(
        self, now: datetime | None = None, *, begin: Callable[[Unit], Awaitable[None]] | None = None
    ) -> AsyncIterator[Unit]:
        """One transaction. `begin` runs first in it (a leader's fence).

        Raises what the body raises, after a rollback; OutcomeUnknown where the commit got no answer, ever.
        """
        async with self.acquired() as connection:
            unit = Unit(cast("asyncpg.Connection", connection), now or identity.now(), self.source)
            await connection.execute("BEGIN")
            try:
                if begin is not None:
                    await begin(unit)
                yield unit
                with COMMIT_SECONDS.time():
                    await unit.seal()
                    await self._commit(connection, unit)
            except BaseException:
                COMMITS.labels("failed").inc()
                try:
                    await _rollback(connection)
                finally:
                    unit.rolled_back()
                raise
            # Nothing is awaited between the commit and this: a cancellation must not come between the two.
            self._follow(unit)

    @asynccontextmanager
    async def acquired(self) -> AsyncIterator[AnyConnection]:
        """A connection of the pool. Raises PostgresConnectionError where none is to be had.

        Both ends have a deadline. Without one, a given-up statement can block its caller for ever, and a consumer of
        records would stop while it still reports good health.
        """
        try:
            connection = await self.pool.acquire(timeout=_ACQUIRE_SECONDS)
        except OSError as error:  # a server that was stopped in order leaves no socket; a timeout is one too
            raise asyncpg.PostgresConnectionError(f"PostgreSQL does not answer: {error!r}") from error
        try:
            yield connection
        finally:
            try:
                await self.pool.release(connection, timeout=_RELEASE_SECONDS)
            except TimeoutError:  # asyncpg has ended the connection; what was committed on it stays
                _log.warning("a connection did not come to rest and was closed", seconds=_RELEASE_SECONDS)

    def _follow(self, unit: Unit) -> None:
        COMMITS.labels("committed").inc()
        unit.committed()
        if unit.staged:
            for wake in self._woken:
                wake()

    async def _commit(self, connection: AnyConnection, unit: Unit) -> None:
        """Commits, and finds out where the answer is lost.

        A cancellation waits for the outcome: memory that did not follow a commit would be apart from the database.
        """
        commit = asyncio.ensure_future(self._answered(connection, unit))
        cancelled: asyncio.CancelledError | None = None
        while not commit.done():
            try:
                await asyncio.wait({commit})
            except asyncio.CancelledError as error:
                cancelled = error
        commit.result()
        if cancelled is not None:
            self._follow(unit)
            raise cancelled

    async def _answered(self, connection: AnyConnection, unit: Unit) -> None:
        """Commits. Returns once it is known that it is done, and that no failover to the standby loses it."""
        backend = backend_of(connection)
        try:
            with standby.warnings(connection) as warned:
                status = await connection.execute("COMMIT")
        except Exception as error:
            if isinstance(error, asyncpg.PostgresError) and not isinstance(error, TRANSIENT):
                raise
            COMMITS.labels("unknown").inc()
            _log.warning("a commit got no answer", error=repr(error), commit=unit.commit_id)
            if not await self.resolve(unit.commit_id, backend):
                raise asyncpg.PostgresConnectionError("the connection was lost before the commit") from error
            await self._confirm(unit.commit_id)
        else:
            if status != "COMMIT":
                raise asyncpg.InFailedSQLTransactionError("a statement of the transaction had failed unseen")
            if warned:
                COMMITS.labels("unknown").inc()
                _log.warning("a commit is on no synchronous standby yet", why=warned[0], commit=unit.commit_id)
                await self._confirm(unit.commit_id)

    async def _confirm(self, commit_id: str) -> None:
        """Waits until the standby has what was committed. Raises OutcomeUnknown where it does not come in time.

        Raises PostgresConnectionError where the server lacks the commit: a standby without it has taken over.
        """
        try:
            async with asyncio.timeout(_RESOLVE_SECONDS):
                while True:
                    kept = None
                    with suppress(*PASSING, TimeoutError):
                        async with self.pool.acquire(timeout=5) as connection:
                            # A connection is to one server, so the standby that has the second commit has the first.
                            kept = await connection.fetchval(_KEPT, commit_id)
                            if kept and await standby.confirm(connection):
                                return
                    if kept is False:
                        break
                    await asyncio.sleep(_PAUSE)
        except TimeoutError as error:
            raise OutcomeUnknown(
                f"commit {commit_id} is on this server, and no synchronous standby had it within {_RESOLVE_SECONDS} s"
            ) from error
        raise asyncpg.PostgresConnectionError(f"a failover has lost commit {commit_id}")

    async def resolve(self, commit_id: str, backend: Backend, *, within: float = _RESOLVE_SECONDS) -> bool:
        """Whether the transaction with that commit row happened, asked once its backend is gone.

        Raises OutcomeUnknown where the server is another, or does not answer `within` seconds.
        """
        try:
            async with asyncio.timeout(within):
                while True:
                    with suppress(*TRANSIENT, TimeoutError):
                        async with self.pool.acquire(timeout=5) as connection:
                            answer = await _look_up(connection, commit_id, backend)
                        if answer is not None:
                            return answer
                    await asyncio.sleep(_PAUSE)
        except TimeoutError as error:
            raise OutcomeUnknown(f"commit {commit_id} could not be looked up within {within} s") from error


async def _look_up(connection: AnyConnection, commit_id: str, backend: Backend) -> bool | None:
    here = backend_of(connection)
    if here.server != backend.server:
        raise OutcomeUnknown(f"the server is {here.server}, the commit was sent to {backend.server}")
    gone = await connection.fetchval(
        "SELECT NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND backend_start::text = $2)",
        backend.pid,
        backend.started,
    )
    if await connection.fetchval("SELECT 1 FROM commits WHERE id = $1", commit_id):
        return True
    if gone:
        return False
    await connection.execute("SELECT pg_terminate_backend($1)", backend.pid)
    return None


def _options(settings: DatabaseSettings, source: str) -> dict[str, Any]:
    """How this process connects. All of its sessions have one application_name, which no other process has."""
    bound = str(int(settings.database_statement_seconds * 1000))
    return {
        "command_timeout": settings.database_statement_seconds + 1,
        "server_settings": {
            "search_path": settings.database_schema,
            "application_name": f"muster-{source}/{identity.event_id()}",
            "statement_timeout": bound,
            "idle_in_transaction_session_timeout": bound,
            **PLANNER,
        },
    }


async def _check_server(connection: asyncpg.Connection) -> None:
    number = int(await connection.fetchval("SHOW server_version_num"))
    if number < _OLDEST:
        raise DatabaseError(f"the server is PostgreSQL {number // 10000}; 15 is the oldest that Muster works with")
    standbys = await connection.fetchval(_STANDBYS, _NO_STANDBYS)
    if standbys and not await standby.is_named(connection):
        raise DatabaseError(
            f"the server has {standbys} standby(s) and synchronous_standby_names is empty: a failover would lose "
            "acknowledged work; name a synchronous standby"
        )


async def _check_idle(connection: asyncpg.Connection) -> None:
    """Replaces asyncpg's reset, a round trip for every unit: nobody here leaves settings or cursors behind."""
    if connection.is_in_transaction():
        await connection.execute("ROLLBACK")


async def _rollback(connection: AnyConnection) -> None:
    # Even to ask a connection that the pool has taken back is an InterfaceError, which must not hide the first error.
    with suppress(*TRANSIENT, asyncpg.PostgresError, TimeoutError):
        if not connection.is_closed() and connection.is_in_transaction():
            await connection.execute("ROLLBACK")
