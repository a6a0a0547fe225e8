"""Calls that wait for policy's verdict, in memory: they answer as soon as the event has been taken in.

The event is taken in by any instance. Its own waiters are told after the commit; those of the others by a notification,
and by a poll where that is lost. Nothing is lost when this process ends: a waiter is only ever told to look at the read
model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, Self

import asyncpg

from muster_chassis import logs
from muster_chassis.database import PASSING

_log = logs.get(__name__)
_POLL: Final = 0.25
_AWAY: Final = (*PASSING, asyncpg.PostgresError, TimeoutError)

Judged = Callable[[Sequence[str]], Awaitable[Mapping[str, int]]]
"""The highest generation of each of these workloads that has a verdict."""


class Verdicts:
    """Waiters by workload id. One question for all of them: what it costs does not grow with the notifications."""

    def __init__(self, judged: Judged) -> None:
        self._judged = judged
        self._waiting: dict[str, set[Expectation]] = {}
        self._expected = asyncio.Event()  # set while a call waits
        self._stirred = asyncio.Event()

    def tell(self, ids: Iterable[str]) -> None:
        """These workloads have been judged, and the rows say so."""
        for workload_id in ids:
            for waiter in self._waiting.get(workload_id, ()):
                waiter.judged.set()

    def look(self) -> None:
        """Another instance has taken verdicts in."""
        self._stirred.set()

    def expect(self, workload_id: str, generation: int) -> Expectation:
        """Begins to listen. Look at the row after this, and wait only where it has no verdict yet."""
        return Expectation(self, workload_id, generation)

    async def run(self) -> None:
        """Asks the rows for those that wait, when told to look and every `_POLL` seconds. An eternal task."""
        while True:
            await self._expected.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL):
                    await self._stirred.wait()
            self._stirred.clear()
            try:
                await self._ask()
            except _AWAY as error:
                _log.warning("verdicts cannot be read, they are asked for again", error=repr(error))
                await asyncio.sleep(_POLL)

    async def _ask(self) -> None:
        found = await self._judged(list(self._waiting)) if self._waiting else {}
        for workload_id, generation in found.items():
            for waiter in self._waiting.get(workload_id, ()):
                if waiter.generation <= generation:
                    waiter.judged.set()

    def add(self, waiter: Expectation) -> None:
        """Counts a waiter."""
        self._waiting.setdefault(waiter.workload_id, set()).add(waiter)
        self._expected.set()

    def remove(self, waiter: Expectation) -> None:
        """Counts it no longer."""
        waiters = self._waiting[waiter.workload_id]
        waiters.discard(waiter)
        if not waiters:
            del self._waiting[waiter.workload_id]
        if not self._waiting:
            self._expected.clear()


class Expectation:
    """One call's interest in one generation of a workload; used as a context."""

    def __init__(self, verdicts: Verdicts, workload_id: str, generation: int) -> None:
        self._verdicts = verdicts
        self.workload_id = workload_id
        self.generation = generation
        self.judged = asyncio.Event()

    def __enter__(self) -> Self:
        self._verdicts.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._verdicts.remove(self)

    async def wait(self, seconds: float) -> None:
        """Returns when the workload is judged, or after that time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.judged.wait()
