"""Watchers take turns on the event loop: a change wakes all of them at once, and each has something to send.

Used by watches. Without turns a hundred watches of one caller would hold up every other call for as long as it takes
to send the change to all of them.
Holds: one watcher goes on in an iteration of the loop; callers alternate, however many watches each has.
"""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary


class Turns:
    """The turns of one process."""

    def __init__(self) -> None:
        self._all = asyncio.Lock()
        self._callers: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, caller: str) -> asyncio.Lock:
        """What the watches of one caller share; each keeps it while it lives."""
        return self._callers.setdefault(caller, asyncio.Lock())

    async def wait(self, mine: asyncio.Lock) -> None:
        """Returns when it is this watcher's turn. mine: of its caller."""
        async with mine, self._all:  # of each caller one waits for the second lock, which is given in order
            await asyncio.sleep(0)
