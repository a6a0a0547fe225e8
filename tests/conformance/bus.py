"""The other side of an agent's topics, for many cases at once: writes what a scheduler would, keeps what is reported.

One task reads; cases wait for messages and are woken by each new one.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf.message import Message

from muster_chassis import topics
from tests.support.agents import REPORTED, Scheduler, connected

PATIENCE: Final = 60.0  # seconds; a case that waits longer has failed


@dataclass
class Bus(Scheduler):
    """The topics of one cluster. seen: everything that was reported, in order."""

    _of: dict[str, list[Message]] = field(default_factory=lambda: defaultdict(list))
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)
    _trouble: Exception | None = None

    async def first(self, wanted: Callable[[Any], object], *, workload: str = "", within: float = PATIENCE) -> Any:
        """The first message that is wanted, of one workload or of all. Raises TimeoutError."""
        messages = self._of[workload] if workload else self.seen
        looked_at = 0
        async with asyncio.timeout(within), self._news:
            while True:
                for message in messages[looked_at:]:
                    if wanted(message):
                        return message
                if self._trouble is not None:
                    raise AssertionError("the bus is not read any more") from self._trouble
                looked_at = len(messages)
                await self._news.wait()

    def of(self, workload: str) -> list[Message]:
        """What was reported of a workload so far."""
        return self._of[workload]

    def forget(self) -> None:
        """Only what comes from now on counts."""
        super().forget()
        self._of.clear()

    async def read(self) -> None:
        """Reads for ever. Where that fails, each case that waits hears of it."""
        try:
            await self._read()
        except Exception as error:
            async with self._news:
                self._trouble = error
                self._news.notify_all()
            raise

    async def _read(self) -> None:
        reports, ours = topics.reports(self.cluster).name, topics.assignments(self.cluster).name
        while True:
            batches = await self.consumer.getmany(timeout_ms=1000)
            found = []
            for record in (record for batch in batches.values() for record in batch):
                message = REPORTED[dict(record.headers)["ce_type"].decode()].FromString(record.value or b"")
                # Samples and dead letters of all clusters are on one topic each.
                if record.topic == reports or getattr(message, "topic", "") == ours:
                    found.append(message)
            if not found:
                continue
            async with self._news:
                for message in found:
                    self.seen.append(message)
                    self._of[getattr(message, "workload_id", "")].append(message)
                self._news.notify_all()


@asynccontextmanager
async def bus(bootstrap: str, cluster: str) -> AsyncIterator[Bus]:
    """The topics of a cluster, made and read until the block ends."""
    async with connected(bootstrap, cluster) as (producer, consumer):
        made = Bus(producer, consumer, cluster)
        reading = asyncio.create_task(made.read())
        try:
            yield made
        finally:
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading
