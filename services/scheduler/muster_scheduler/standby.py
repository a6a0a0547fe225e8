"""A standby: the state of the database in memory, kept up with the commits of the leader.

Used by the composition root: `follow` while another process leads, `current` where this process has won the lease.
Holds: a state is handed out once; a state that cannot follow any more is discarded and read again.
"""

from __future__ import annotations

import asyncio
from typing import Final

from muster_chassis import heap, identity, logs, metrics
from muster_chassis.attempts import passes
from muster_chassis.backoff import Backoff
from muster_chassis.database import Database
from muster_chassis.lease import Term
from muster_chassis.watchdog import long_section
from muster_scheduler.adapters.following import Follower, Overtaken
from muster_scheduler.domain.state import State
from muster_scheduler.handlers import micros
from muster_scheduler.settings import SchedulerSettings

_log = logs.get(__name__)
REBUILD: Final = 600.0
"""Seconds for which a rebuild or a compilation may hold the loop."""
_FOLLOW: Final = 0.25
_FOLLOW_MOST: Final = 2.0
_WARM: Final = 100  # changes: a standby that is up to date finds fewer at one look

BEHIND = metrics.gauge(
    "muster_scheduler_behind",
    unit="transactions",
    meaning="What the leader had committed and a standby had not followed at its last look, four times a second.",
    action="Stays above 1,000: this standby would take over late; look at its CPU and at PostgreSQL.",
)


class Standby:
    """What a candidate knows of the state before it leads."""

    def __init__(self, database: Database, settings: SchedulerSettings) -> None:
        """Create a standby that has read nothing yet."""
        self._database = database
        self._settings = settings
        self._follower: Follower | None = None

    async def follow(self) -> None:
        """Follow the commits of the leader, so that this process can lead at once."""
        backoff, warm = Backoff(first=_FOLLOW, last=_FOLLOW_MOST), False
        while True:
            try:
                if self._follower is None:
                    warm = False
                    self._follower = await self._read()
                    heap.settle()
                async with self._database.pool.acquire() as connection:
                    with long_section(REBUILD):
                        behind = await self._follower.advance(connection, micros(identity.now()))  # type: ignore[arg-type]
                BEHIND.set(behind)
                if not warm and behind < _WARM:
                    warm = True
                    _log.info("follows", workloads=len(self._follower.state.world.workloads))
                backoff.reset()
                await asyncio.sleep(_FOLLOW)
            except Overtaken as error:
                _log.warning("the state is read again", why=str(error))
                self._forget()
            except Exception as error:
                if not passes(error):
                    raise
                _log.warning("the changes of the leader cannot be followed", error=repr(error))
                await backoff.pause()

    async def _read(self) -> Follower:
        async with self._database.pool.acquire() as connection:
            with heap.filling(), long_section(REBUILD):
                limits, now = self._settings.limits(), micros(identity.now())
                return await Follower.read(connection, limits, now)  # type: ignore[arg-type]

    async def current(self, term: Term) -> State:
        """Return the current state of the database, when no other process may write it. A followed state is reused.

        Where PostgreSQL fails meanwhile, the followed state is kept for the next attempt.
        """
        follower = self._follower
        if follower is not None:
            try:
                async with self._database.pool.acquire() as connection:
                    await follower.check_terms(connection, term.epoch)  # type: ignore[arg-type]
                    with long_section(REBUILD):
                        await follower.advance(connection, micros(identity.now()))  # type: ignore[arg-type]
            except Overtaken as error:
                _log.warning("the state is read again", why=str(error))
            else:
                self._follower = None
                # A followed state has the times at which it followed; a state that is read starts its clocks now.
                follower.state.restart_clocks(micros(identity.now()))
                return follower.state
        del follower
        self._forget()
        return (await self._read()).state

    def _forget(self) -> None:
        self._follower = None
        heap.release()
