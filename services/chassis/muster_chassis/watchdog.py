"""End a process whose event loop is blocked, and say where it is blocked.

`runtime.run` arms it for every service. The clock is faulthandler's thread in C: it needs neither the loop nor the
interpreter's lock, so that not even one long call in C silences it. When the loop has not turned for `limit` seconds,
the stack of every thread goes to the standard error, which is the service's log, and the process ends with exit code 1:
its keeper starts it again like any that crashed. Nothing acknowledged is lost by that (rule 12).
Holds: there is one clock in a process; what has to hold the loop for longer says so by `long_section`.
"""

from __future__ import annotations

import asyncio
import faulthandler
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_TURNS: Final = 10  # times that the clock is set back within its limit


class Watchdog:
    """The clock of one process. It starts with `run`."""

    def __init__(self) -> None:
        self._limit = 0.0
        self._sections: dict[int, float] = {}
        self._numbers = itertools.count()

    async def run(self, limit: float) -> None:
        """Reset the clock as long as the loop turns. limit: seconds for which the loop may be blocked."""
        self._limit = limit
        try:
            while True:
                self._arm()
                await asyncio.sleep(limit / _TURNS)
        finally:
            self._limit = 0.0
            faulthandler.cancel_dump_traceback_later()

    @contextmanager
    def long_section(self, seconds: float) -> Iterator[None]:
        """While it is open the loop may be blocked for `seconds`: a rebuild, a compilation."""
        number = next(self._numbers)
        self._sections[number] = seconds
        self._arm()
        try:
            yield
        finally:
            del self._sections[number]
            self._arm()

    def _arm(self) -> None:
        if self._limit:
            faulthandler.dump_traceback_later(max(self._limit, *self._sections.values(), 0.0), exit=True)


WATCHDOG: Final = Watchdog()
"""This process's: faulthandler has one clock."""
long_section: Final = WATCHDOG.long_section
