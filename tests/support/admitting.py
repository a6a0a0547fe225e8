"""Policy that admits whatever comes, for tests of what stands before it: a create then need not wait for a verdict."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tests.support.doors import Door

_NEW = "SELECT id::text AS id FROM workloads WHERE verdict = 0"
_PAUSE = 0.02  # seconds


@asynccontextmanager
async def admitting(here: Door) -> AsyncIterator[None]:
    """Admits every workload that comes up while the block lasts."""
    task = asyncio.create_task(_admit(here))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _admit(here: Door) -> None:
    seen: set[str] = set()
    while True:
        rows = await here.app.database.pool.fetch(_NEW)
        new = [row["id"] for row in rows if row["id"] not in seen]
        seen.update(new)
        await here.admit(*[await here.get(one) for one in new])
        await asyncio.sleep(_PAUSE)
