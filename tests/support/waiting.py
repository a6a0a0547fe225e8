"""Waits for a condition instead of for a time.

Called by the tests that run real processes. Holds: a condition that has come true is seen within a poll; one that
does not come true ends the test with what was seen last.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

Seen = TypeVar("Seen")


async def eventually(
    look: Callable[[], Awaitable[Seen]],
    holds: Callable[[Seen], bool] = bool,
    *,
    within: float = 60.0,
    every: float = 0.02,
) -> Seen:
    """Looks until `holds` says yes to what was seen, and answers that.

    within, every: seconds. Raises TimeoutError with the last thing seen.
    """
    deadline = time.monotonic() + within
    while True:
        seen = await look()
        if holds(seen):
            return seen
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {within} s; last seen: {seen!r}")
        await asyncio.sleep(every)


def eventually_now(
    look: Callable[[], Seen], holds: Callable[[Seen], bool] = bool, *, within: float = 60.0, every: float = 0.02
) -> Seen:
    """The same for code without an event loop."""
    deadline = time.monotonic() + within
    while True:
        seen = look()
        if holds(seen):
            return seen
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {within} s; last seen: {seen!r}")
        time.sleep(every)


async def until(condition: Callable[[], object], *, within: float = 60.0, every: float = 0.02) -> None:
    """Lets the event loop work until `condition()` is true. Raises TimeoutError after `within` seconds."""

    async def look() -> object:
        return condition()

    await eventually(look, within=within, every=every)
