"""What the watch over PostgreSQL tells health, whatever the client library raises meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from muster_chassis import database_watch
from muster_chassis.database_watch import POSTGRES, watch_postgres
from muster_chassis.health import Health
from tests.support.waiting import until

TROUBLES = [
    asyncpg.InternalClientError("cannot switch to state 15; another operation (2) is in progress"),
    asyncpg.InvalidPasswordError("password authentication failed"),
    asyncpg.InterfaceError("connection is closed"),
    ConnectionRefusedError(111, "Connection refused"),
    TimeoutError(),
]


class Server:
    """A database and its connection: it answers unless it has a trouble."""

    def __init__(self) -> None:
        self.trouble: Exception | None = None
        self.ended = 0

    async def connect(self) -> Server:
        return self

    async def execute(self, _statement: str, timeout: float) -> None:
        assert timeout > 0
        if self.trouble is not None:
            raise self.trouble

    def terminate(self) -> None:
        self.ended += 1


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: type(trouble).__name__)
async def test_every_trouble_is_told_and_ends_with_the_next_answer(
    monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    monkeypatch.setattr(database_watch, "_EVERY_SECONDS", 0.001)
    health, server = Health(grace=0.0), Server()
    database: Any = server
    task = asyncio.create_task(watch_postgres(database, health))
    server.trouble = trouble
    await until(lambda: POSTGRES in health.troubles)
    server.trouble = None
    await until(lambda: health.serving)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert server.ended >= 2, "the connection that failed, and the last one"
