"""Tells health whether PostgreSQL answers: `/healthz` and the gRPC health service show it as `postgres`."""

from __future__ import annotations

import asyncio
from typing import Final

import asyncpg

from muster_chassis.connection import Connection
from muster_chassis.database import TRANSIENT, Database
from muster_chassis.health import Health

POSTGRES: Final = "postgres"
"""The name of the condition."""
_EVERY_SECONDS: Final = 2.0
_ANSWER_SECONDS: Final = 5.0


async def watch_postgres(database: Database, health: Health) -> None:
    """Ask PostgreSQL every two seconds whether it answers. An eternal task.

    It has a connection of its own, because a pool that is busy says nothing about the server.
    """
    connection: Connection | None = None
    try:
        while True:
            try:
                connection = connection or await database.connect()
                await connection.execute("SELECT 1", timeout=_ANSWER_SECONDS)
            except (*TRANSIENT, asyncpg.PostgresError) as error:
                health.bad(POSTGRES, f"PostgreSQL does not answer: {error!r}")
                if connection is not None:
                    connection.terminate()
                connection = None
            else:
                health.good(POSTGRES)
            await asyncio.sleep(_EVERY_SECONDS)
    finally:
        if connection is not None:
            connection.terminate()
