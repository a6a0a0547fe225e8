"""How often a batch or a record is tried: without limit while the trouble goes away by itself, else a few times.

Called by the intake and by what keeps its books.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from muster_chassis import logs, metrics
from muster_chassis.backoff import Backoff
from muster_chassis.breakers import Tripped
from muster_chassis.database import OutcomeUnknown, transient
from muster_chassis.events import Reject, Retry
from muster_chassis.lease import Deposed

_log = logs.get(__name__)
_TRIES: Final = 3
_SLOW_TRIES: Final = 8  # for a statement that takes too long: a busy server is no poison, a monstrous record is

RETRIES = metrics.counter(
    "muster_batch_retries_total",
    unit="batches",
    meaning="Batches tried again because of something that goes away by itself.",
    action="Grows without end: look at PostgreSQL, and at what the handler waits for.",
)


async def patiently(attempt: Callable[[], Awaitable[None]]) -> None:
    """Tries again without limit while the trouble is one that goes away."""
    backoff = Backoff()
    while True:
        try:
            await attempt()
            return
        except Exception as error:
            if not isinstance(error, Retry) and not transient(error):
                raise
            RETRIES.inc()
            if backoff.attempts in (0, 10) or backoff.attempts % 100 == 0:
                _log.warning("a batch is tried again", error=repr(error), attempts=backoff.attempts)
            await backoff.pause()


async def bounded(attempt: Callable[[], Awaitable[None]]) -> tuple[str, int]:
    """Tries a few times. Returns ('', tries), or the reason why it failed for good."""
    backoff, tries = Backoff(first=0.02, last=2.0), 0
    while True:
        tries += 1
        try:
            await patiently(attempt)
            return "", tries
        except (Tripped, Deposed, OutcomeUnknown):
            raise
        except Reject as poison:
            return poison.reason, tries
        except Exception as error:  # noqa: BLE001 - whatever it is, it counts as a try
            if tries >= (_SLOW_TRIES if _slow(error) else _TRIES):
                _log.exception("a record cannot be handled")
                return f"{type(error).__name__}: {error}", tries
            await backoff.pause()


def _slow(error: Exception) -> bool:
    return isinstance(error, asyncio.TimeoutError) or type(error).__name__ == "QueryCanceledError"
