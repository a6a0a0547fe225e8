"""A copy of a test's database, as a backup that is restored has it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import asyncpg


@asynccontextmanager
async def copied(database: Any, server: Any) -> AsyncIterator[Any]:
    """Make a copy of a database, dropped at the end of the block. No connection to it may be open at the start."""
    name = f"{database.name}_restored"
    outside = await asyncpg.connect(server.admin)
    try:
        await outside.execute(f"CREATE DATABASE {name} TEMPLATE {database.name}")
        yield replace(database, name=name, template=server.address(name))
        await outside.execute(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        await outside.close()
