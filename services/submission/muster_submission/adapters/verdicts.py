"""Who waits for policy's verdict, in memory: calls that answer as soon as the event has been taken in.

Nothing is lost when this process ends: a waiter is only ever told to look at the read model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Self


class Verdicts:
    """Waiters by workload id."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = {}

    def tell(self, ids: Iterable[str]) -> None:
        """These workloads have been judged, and the rows say so."""
        for workload_id in ids:
            for waiter in self._waiting.get(workload_id, ()):
                waiter.set()

    def expect(self, workload_id: str) -> Expectation:
        """Begins to listen. Look at the row after this, and wait only where it has no verdict yet."""
        return Expectation(self._waiting, workload_id)


class Expectation:
    """One call's interest in one workload; used as a context."""

    def __init__(self, waiting: dict[str, set[asyncio.Event]], workload_id: str) -> None:
        self._waiting = waiting
        self._id = workload_id
        self._event = asyncio.Event()

    def __enter__(self) -> Self:
        self._waiting.setdefault(self._id, set()).add(self._event)
        return self

    def __exit__(self, *_: object) -> None:
        waiters = self._waiting[self._id]
        waiters.discard(self._event)
        if not waiters:
            del self._waiting[self._id]

    async def wait(self, seconds: float) -> None:
        """Returns when the workload is judged, or after that time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
