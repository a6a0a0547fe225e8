"""pytest fixtures: the real Kafka and the real PostgreSQL that Muster's tests run on.

Loaded by tests/conftest.py with `pytest_plugins = ["muster_stack.fixtures"]`. Both servers come from a given address
(`MUSTER_TEST_KAFKA=host:port`, `MUSTER_TEST_DATABASE_URL=postgresql://superuser:..@/..`), else the embedded ones are
started once for the run. A given Kafka has to be for tests alone: they delete all of its topics.

    kafka_bootstrap   the shared broker's address; topics of other tests may exist there
    kafka             the same, but empty: every topic is deleted, those with Kafka's groups and transactions too
    own_kafka         a broker for this test alone, which it may kill, stop and wipe
    database          a new database with the services' roles and schemas: `database.url("scheduler")`
    own_postgres      a server for this test alone, which it may kill and start again
    running_stack     the whole stack, shared by a file's tests: `.status()`, `.kill(..)`, `.layout`;
                      embedded.temporary_stack makes one of a test's own

Holds: a test sees no row, topic or committed offset of another one.
"""

from __future__ import annotations

import asyncio
import gc
import os
import secrets
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlsplit, urlunsplit

import asyncpg
import pytest
import pytest_asyncio
from aiokafka.admin import AIOKafkaAdminClient

from muster_stack.embedded import EmbeddedKafka, EmbeddedPostgres, temporary_stack
from muster_stack.keeper.control import Stack
from muster_stack.postgres import ADMIN, SERVICES, schemas

_DEADLINE: Final = 20.0  # seconds until a deleted topic is gone
_SHARED_PASSWORD: Final = "muster-tests"  # noqa: S105 - for roles on a given test server


@dataclass(frozen=True, slots=True)
class TestDatabase:
    """One database of a test. `template` is the superuser's address; the services' differ in role and password."""

    __test__ = False  # pytest takes any class called Test.. for one

    name: str
    template: str
    passwords: Callable[[str], str]

    def url(self, service: str) -> str:
        """The address for `submission`, `policy`, `scheduler` or `telemetry`; its schema has the same name."""
        parts = urlsplit(self.template)
        host = parts.netloc.rpartition("@")[2]
        account = f"{service}:{quote(self.passwords(service), safe='')}"
        return urlunsplit(parts._replace(netloc=f"{account}@{host}"))


@dataclass(frozen=True, slots=True)
class TestServer:
    """The server that all tests share: `admin` is the superuser's address of its maintenance database."""

    __test__ = False

    admin: str
    passwords: Callable[[str], str]

    def address(self, database: str) -> str:
        """The superuser's address of another database."""
        return urlunsplit(urlsplit(self.admin)._replace(path=f"/{database}"))


@pytest.fixture(scope="session")
def kafka_bootstrap() -> Iterator[str]:
    """The address of the broker of the whole run."""
    if given := os.environ.get("MUSTER_TEST_KAFKA"):
        yield given
        return
    with EmbeddedKafka() as server:
        yield server.bootstrap


@pytest_asyncio.fixture
async def kafka(kafka_bootstrap: str, _no_connections_of_others: None) -> str:
    """The shared broker's address, with nothing on it.

    A new broker for each test took five seconds on a busy machine, and would meet every test with cold code.
    """
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka_bootstrap)
    await admin.start()
    try:
        await _forget_everything(admin)
    finally:
        await admin.close()
    return kafka_bootstrap


@pytest.fixture
def _no_connections_of_others() -> None:
    """Lets go of what earlier tests left unclosed, quietly.

    aiokafka drops connections to a broker that was killed without closing them. They are found by whichever test the
    garbage collector happens to run in, and would fail that one.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


async def _forget_everything(admin: AIOKafkaAdminClient) -> None:
    """Deletes all topics.

    Kafka keeps groups and transactions in topics of its own and forgets them with these. Otherwise it would hand a
    static member of an earlier test's group its old partitions.
    """
    if present := await admin.list_topics():
        await admin.delete_topics(present)

    async def nothing_left() -> bool:
        return not await admin.list_topics()

    await _eventually(nothing_left, "the topics of earlier tests are gone")


async def _eventually(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    deadline = time.monotonic() + _DEADLINE
    while not await condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {_DEADLINE:g} s: {what}")
        await asyncio.sleep(0.02)


@pytest.fixture
def own_kafka(_no_connections_of_others: None) -> Iterator[EmbeddedKafka]:
    """A running broker for this test alone."""
    with EmbeddedKafka() as server:
        yield server


@pytest.fixture
def own_postgres() -> Iterator[EmbeddedPostgres]:
    """A running server for this test alone, with a database `muster`."""
    with EmbeddedPostgres() as server:
        yield server


@pytest.fixture(scope="module")
def running_stack() -> Iterator[Stack]:
    """The whole embedded stack with its two default clusters, ready."""
    with temporary_stack() as stack:
        yield stack


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[TestServer]:
    """The server that all tests share, with the services' roles."""
    if given := os.environ.get("MUSTER_TEST_DATABASE_URL"):
        asyncio.run(_make_roles(given))
        yield TestServer(given, lambda _: _SHARED_PASSWORD)
        return
    with EmbeddedPostgres() as server:
        yield TestServer(server.server.url(ADMIN, "postgres"), server.server.password)


async def _make_roles(admin: str) -> None:
    connection = await asyncpg.connect(admin)
    try:
        present = {row["rolname"] for row in await connection.fetch("SELECT rolname FROM pg_roles")}
        for role in SERVICES:
            if role not in present:
                await connection.execute(f"CREATE ROLE {role} LOGIN")
            await connection.execute(f"ALTER ROLE {role} PASSWORD '{_SHARED_PASSWORD}'")
            await connection.execute(f"ALTER ROLE {role} SET search_path = {role}")
    finally:
        await connection.close()


@pytest_asyncio.fixture
async def database(postgres_server: TestServer) -> AsyncIterator[TestDatabase]:
    """A database of this test alone; it is dropped afterwards, open connections or not."""
    name = f"test_{secrets.token_hex(6)}"
    admin = await asyncpg.connect(postgres_server.admin)
    try:
        await admin.execute(f"CREATE DATABASE {name}")
        address = postgres_server.address(name)
        inside = await asyncpg.connect(address)
        await inside.execute(schemas(name))
        await inside.close()
        yield TestDatabase(name, address, postgres_server.passwords)
        await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        await admin.close()
