"""The background tasks of the local back end: each lives as long as the back end, whatever goes wrong in it.

Holds: a task that ends with an exception is one line in the log and begins again after a pause, since a watch that has
ended unseen would leave replicas without anyone who follows them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

_PAUSE_SECONDS: Final = 5.0

log = structlog.get_logger(__name__)


class Tasks:
    """Tasks by name."""

    def __init__(self, pause: float = _PAUSE_SECONDS) -> None:
        """pause: seconds between the failure of a task and its next beginning."""
        self._pause = pause
        self._running: dict[str, asyncio.Task[None]] = {}

    def spawn(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Begin a task that lasts until `close`."""
        self._running[name] = asyncio.create_task(self._lasting(name, work), name=name)

    async def close(self) -> None:
        """Cancel them all and wait for their end."""
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)
        self._running.clear()

    async def _lasting(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await work()
            except Exception:
                log.exception("task_failed", task=name, again_after=f"{self._pause:g} s")
            await asyncio.sleep(self._pause)
