"""A producer of CloudEvents on muster.triggers, as a platform outside of Muster has one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaProducer


@asynccontextmanager
async def producer(bootstrap: str) -> AsyncIterator[AIOKafkaProducer]:
    """A started producer, closed afterwards."""
    made = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all")
    await made.start()
    try:
        yield made
    finally:
        await made.stop()
