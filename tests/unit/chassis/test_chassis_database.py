"""Connections of the pool that are not to be had, or do not come to rest."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import asyncpg
import pytest

from muster_chassis import database
from muster_chassis.database import Database


class _Pool:
    """A pool whose connections are never free, or never at rest; like asyncpg's it keeps to a timeout."""

    def __init__(self, *, free: bool, at_rest: bool) -> None:
        self._free, self._at_rest = free, at_rest

    async def acquire(self, *, timeout: float | None = None) -> object:
        return await self._done(self._free, timeout)

    async def release(self, connection: object, *, timeout: float | None = None) -> None:
        await self._done(self._at_rest, timeout)

    async def _done(self, done: bool, seconds: float | None) -> object:
        if not done:
            async with asyncio.timeout(seconds):
                await asyncio.Event().wait()
        return object()


def _database(monkeypatch: pytest.MonkeyPatch, *, free: bool = True, at_rest: bool = True) -> Database:
    monkeypatch.setattr(database, "_ACQUIRE_SECONDS", 0.01)
    monkeypatch.setattr(database, "_RELEASE_SECONDS", 0.01)
    return Database(cast("Any", _Pool(free=free, at_rest=at_rest)), cast("Any", None), "test", {})


async def test_a_pool_without_a_free_connection_is_said_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async with asyncio.timeout(30):
        with pytest.raises(asyncpg.PostgresConnectionError, match="does not answer"):
            async with _database(monkeypatch, free=False).acquired():
                pytest.fail("there is no connection")


async def test_a_connection_that_never_comes_to_rest_does_not_block_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async with asyncio.timeout(30):
        async with _database(monkeypatch, at_rest=False).acquired() as connection:
            assert connection is not None
