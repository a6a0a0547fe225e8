"""Who leads: an epoch that only a takeover changes, and a lease that is renewed beside it (rule 5).

The scheduler runs `Leadership.run(lead, follow)`. Whoever leads does so under one epoch: every transaction of his
begins with `fence`, which finds no row once another has taken over, and a takeover waits for transactions that have
passed the fence. The lease only says when a takeover may be tried; the fence is what keeps two leaders apart.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import asyncpg

from muster_chassis import logs, metrics
from muster_chassis.backoff import Backoff
from muster_chassis.connection import Connection
from muster_chassis.database import TRANSIENT, Database
from muster_chassis.unit import Unit

_log = logs.get(__name__)
LEASE_SECONDS: Final = 5.0
RENEW_SECONDS: Final = 1.0
_TRY_SECONDS: Final = 0.5
_MARGIN: Final = 0.5
_TROUBLE: Final = (*TRANSIENT, TimeoutError, asyncpg.QueryCanceledError)

LEADS = metrics.gauge(
    "muster_leader",
    unit="1 = leads",
    meaning="Whether this process leads.",
    action="The sum over all instances is 0 for longer than 10 s: look at their logs and at PostgreSQL.",
)
EPOCH = metrics.gauge(
    "muster_epoch",
    unit="epoch",
    meaning="The epoch under which this process leads or last led.",
    action="Grows often: leaders lose their lease; look at PostgreSQL and at pauses of the machine.",
)


class Deposed(Exception):
    """This process no longer leads: nothing of it may be written or sent any more."""


@dataclass(frozen=True, slots=True)
class Term:
    """One time of leading."""

    epoch: int

    async def fence(self, unit: Unit) -> None:
        """First statement of every transaction of the leader. Raises Deposed."""
        await fence(unit, self.epoch)


async def fence(unit: Unit, epoch: int, name: str = "leader") -> None:
    """Holds the epoch row until the end of this transaction, or raises Deposed: another has taken over."""
    sql = "SELECT 1 FROM lease_epoch WHERE name = $1 AND epoch = $2 FOR SHARE"
    if await unit.connection.fetchval(sql, name, epoch) is None:
        raise Deposed(f"epoch {epoch} is over")


class Leadership:
    """The contest of one process for one lease.

    holder: this process's name among the candidates; must differ between processes that live at the same time.
    floor: an epoch that the next one must exceed, asked before a takeover (the highest on the assignment topics).
    """

    def __init__(
        self,
        database: Database,
        holder: str,
        *,
        name: str = "leader",
        lease: float = LEASE_SECONDS,
        floor: Callable[[], Awaitable[int]] | None = None,
    ) -> None:
        self._database = database
        self._holder = holder
        self._name = name
        self._lease = lease
        self._floor = floor
        self._connection: Connection | None = None
        self.term: Term | None = None

    async def run(
        self,
        lead: Callable[[Term], Awaitable[None]],
        follow: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Follows until the lease is free, then leads until it is lost, for ever.

        `lead` is cancelled when the lease could not be renewed in time, and may itself raise Deposed. It gets a term
        whose epoch no one else has. Other exceptions of either end this task. On cancellation the lease is given back,
        so that a standby need not wait for it to run out.
        """
        backoff = Backoff(first=0.1, last=2.0)
        while True:
            try:
                term, deadline = await self._follow(follow)
                backoff.reset()
                await self._lead(term, deadline, lead)
            except Deposed as error:
                _log.warning("stepped down", why=str(error))
            except _TROUBLE as error:
                _log.warning("the lease cannot be asked for", error=repr(error))
                await backoff.pause()
            except BaseException:
                await self._give_back()
                raise
            finally:
                LEADS.set(0)
                self.term = None

    async def _connected(self) -> Connection:
        """The connection that asks and renews: one of its own, since the pool may be used up by the work."""
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._database.connect()
        return self._connection

    async def _follow(self, follow: Callable[[], Awaitable[None]] | None) -> tuple[Term, float]:
        follower = asyncio.ensure_future(follow()) if follow else None
        try:
            while True:
                asked = time.monotonic()
                epoch = await self._take()
                if epoch is not None:
                    return Term(epoch), asked + self._lease - _MARGIN
                if follower is None or not follower.done():
                    await asyncio.sleep(_TRY_SECONDS)
                else:
                    follower.result()
                    follower = None
        finally:
            if follower is not None:
                follower.cancel()
                await asyncio.wait({follower})
                if not follower.cancelled() and (error := follower.exception()):
                    raise error

    async def _take(self) -> int | None:
        """Tries a takeover; the new epoch, or None while another's lease runs."""
        connection = await self._connected()
        sql = "SELECT holder = $2 OR expires < clock_timestamp() FROM lease_renewal WHERE name = $1"
        free = await connection.fetchval(sql, self._name, self._holder)
        if free is False:
            return None
        floor = await self._floor() if self._floor else 0
        async with connection.transaction():
            await connection.execute(
                "INSERT INTO lease_renewal VALUES ($1, $2, 0, '-infinity') ON CONFLICT DO NOTHING",
                self._name,
                self._holder,
            )
            free = await connection.fetchval(sql + " FOR UPDATE", self._name, self._holder)
            if not free:
                return None
            # Waits for the old leader's open transactions, which hold the row FOR SHARE; their timeouts bound that.
            epoch: int = await connection.fetchval(
                "INSERT INTO lease_epoch AS e VALUES ($1, $2::bigint + 1) ON CONFLICT (name) DO UPDATE SET "
                "epoch = greatest(e.epoch, $2::bigint) + 1 RETURNING epoch",
                self._name,
                floor,
            )
            await connection.execute(
                "UPDATE lease_renewal SET holder = $2, epoch = $3, "
                "expires = clock_timestamp() + make_interval(secs => $4) WHERE name = $1",
                self._name,
                self._holder,
                epoch,
                self._lease,
            )
        return epoch

    async def _lead(
        self,
        term: Term,
        deadline: float,
        lead: Callable[[Term], Awaitable[None]],
    ) -> None:
        self.term = term
        LEADS.set(1)
        EPOCH.set(term.epoch)
        _log.info("leads", epoch=term.epoch, holder=self._holder)
        work = asyncio.ensure_future(lead(term))
        renewal = asyncio.ensure_future(self._renew(term, deadline))
        try:
            await asyncio.wait({work, renewal}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (work, renewal):
                task.cancel()
            await asyncio.wait({work, renewal})
        for task in (work, renewal):
            if not task.cancelled() and (error := task.exception()):
                raise error
        if not work.cancelled():
            raise RuntimeError("the leader's work ended by itself")

    async def _renew(self, term: Term, deadline: float) -> None:
        """Renews until it cannot; raises Deposed. Time is counted from before each question was sent."""
        while True:
            await asyncio.sleep(RENEW_SECONDS * min(1.0, self._lease / LEASE_SECONDS))
            asked = time.monotonic()
            try:
                async with asyncio.timeout(max(0.0, deadline - asked)):
                    renewed = await (await self._connected()).fetchval(
                        "UPDATE lease_renewal SET expires = clock_timestamp() + make_interval(secs => $4) "
                        "WHERE name = $1 AND holder = $2 AND epoch = $3 RETURNING true",
                        self._name,
                        self._holder,
                        term.epoch,
                        self._lease,
                    )
            except _TROUBLE as error:
                if time.monotonic() >= deadline:
                    raise Deposed(f"the lease could not be renewed: {error!r}") from error
                continue
            if not renewed:
                raise Deposed("another holds the lease")
            deadline = asked + self._lease - _MARGIN

    async def _give_back(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        with suppress(*_TROUBLE):
            async with asyncio.timeout(2):
                await connection.execute(
                    "UPDATE lease_renewal SET expires = '-infinity' WHERE name = $1 AND holder = $2",
                    self._name,
                    self._holder,
                )
                await connection.close(timeout=1)
        connection.terminate()
