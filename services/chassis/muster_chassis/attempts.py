"""How often a batch or a record is tried: without limit while time alone may mend it, else a few times.

Called by the intake and by what keeps its books. Time and locks are never poison (rule 11): a statement that is
cancelled because a table is locked or a server is busy says nothing about the record.
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
_TOLD_FROM: Final = 3  # failed attempts; a deadlock or two is ordinary

RETRIES = metrics.counter(
    "muster_batch_retries_total",
    unit="batches",
    meaning="Batches tried again because of something that goes away by itself: PostgreSQL away, busy or locked.",
    action="Grows without end: /healthz names what is tried; look at PostgreSQL for locks and slow statements.",
)

Told = Callable[[str], None]
"""Hears why attempts keep failing, and '' once they no longer do."""


def passes(error: BaseException) -> bool:
    """Whether time alone may mend it, so that the record is not to blame."""
    return isinstance(error, Retry | TimeoutError | asyncpg.QueryCanceledError) or transient(error)


async def patiently(
    attempt: Callable[[], Awaitable[None]], *, told: Told | None = None, slow_tries: int | None = None
) -> None:
    """Try again without limit while the trouble is one that goes away.

    told: hears why it goes on failing. slow_tries: after so many attempts that ended for time the error is raised:
    a batch may be too much for one transaction, a single record is not.
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
    """Try a few times, and without limit for what time may mend.

    Returns ('', tries), or the reason why it failed for good.
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
        except Exception as error:  # noqa: BLE001 - whatever it is, it counts as a try
            if tries >= _TRIES:
                _log.exception("a record cannot be handled")
                return f"{type(error).__name__}: {error}", tries
            await backoff.pause()
