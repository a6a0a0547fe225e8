"""Several instances of one service: how many records each has handled, and events fed until all take part.

Called by the integration tests of two instances.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import httpx

from tests.support.processes import Service

_RECORDS = "muster_records_total{"
_HANDLED = 'outcome="done"'


async def handled(instance: Service) -> float:
    """Return the number of records that an instance has handled so far."""
    async with httpx.AsyncClient() as client:
        text = (await client.get(f"http://{instance.metrics}/metrics")).text
    found = [line for line in text.splitlines() if line.startswith(_RECORDS) and _HANDLED in line]
    return sum(float(line.rpartition(" ")[2]) for line in found)


async def feed_until_all_work(
    feed: Callable[[], Awaitable[None]], *instances: Service, records: int, within: float = 90.0
) -> None:
    """Feed events until each of the instances has handled so many records. Raises TimeoutError."""
    async with asyncio.timeout(within):
        while min([await handled(instance) for instance in instances]) < records:
            await feed()
            await asyncio.sleep(0.1)
