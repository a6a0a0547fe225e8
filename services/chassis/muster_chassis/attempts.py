"""Retries of a batch or a record: without limit while time alone may fix the error, otherwise a few times.

The intake, the consumer and the periodic tasks of services use it. Timeouts and locks are never a reason to reject a
record (rule 11): a statement that is cancelled because a table is locked or a server is busy says nothing about it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import asyncpg

from muster_chassis import logs, metrics
from muster_chassis.backoff import Backoff
from muster_chassis.breakers import Tripped
from muster_chassis.database import OutcomeUnknown, transient
from muster_chassis.events import Reject, Retry
from muster_chassis.lease import Deposed

_log = logs.get(__name__)
_TRIES: Final = 3
_TOLD_FROM: Final = 3  # failed attempts; one or two deadlocks are ordinary

RETRIES = metrics.counter(
    "muster_batch_retries_total",
    unit="batches",
    meaning="Batches tried again because of something that goes away by itself: PostgreSQL away, busy or locked.",
    action="Grows without end: /healthz names what is tried; look at PostgreSQL for locks and slow statements.",
)

Told = Callable[[str], None]
"""A function that receives the reason why attempts keep failing, and '' once they succeed."""


def passes(error: BaseException) -> bool:
    """Return whether time alone may fix the error, so that the record is not its cause."""
    return isinstance(error, Retry | TimeoutError | asyncpg.QueryCanceledError) or transient(error)


async def patiently(
    attempt: Callable[[], Awaitable[None]], *, told: Told | None = None, slow_tries: int | None = None
) -> None:
    """Try again without limit while the error may go away by itself.

    told: receives the reason while attempts fail. slow_tries: raise the error after this number of attempts that timed
    out or were cancelled. A batch may be too much for one transaction; a single record is not.
    """
    backoff, slow = Backoff(), 0
    while True:
        try:
            await attempt()
        except Exception as error:
            slow += isinstance(error, TimeoutError | asyncpg.QueryCanceledError)
            if not passes(error) or slow == slow_tries:
                raise
            RETRIES.inc()
            if backoff.attempts in (0, 10) or backoff.attempts % 100 == 0:
                _log.warning("a batch is tried again", error=repr(error), attempts=backoff.attempts)
            await backoff.pause()
            if told is not None and backoff.attempts >= _TOLD_FROM:
                told(f"tried {backoff.attempts} times, tried again until it works: {error!r}")
        else:
            if told is not None:
                told("")
            return


async def bounded(attempt: Callable[[], Awaitable[None]], *, told: Told | None = None) -> tuple[str, int]:
    """Try a few times, and without limit for errors that time may fix.

    Returns (reason, tries); the reason is '' on success, otherwise why it failed for good.
    """
    backoff, tries = Backoff(first=0.02, last=2.0), 0
    while True:
        tries += 1
        try:
            await patiently(attempt, told=told)
            return "", tries
        except (Tripped, Deposed, OutcomeUnknown):
            raise
        except Reject as poison:
            return poison.reason, tries
        except Exception as error:  # noqa: BLE001 - every other exception counts as a try
            if tries >= _TRIES:
                _log.exception("a record cannot be handled")
                return f"{type(error).__name__}: {error}", tries
            await backoff.pause()
