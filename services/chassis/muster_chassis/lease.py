"""Leadership: an epoch that only a takeover changes, and a lease that is renewed separately (rule 5).

The scheduler runs `Leadership.run(lead, follow)`. A leader works under one epoch. Each of its transactions begins with
`fence`, which finds no row once another process has taken over. A takeover waits for transactions that have passed the
fence. The lease only decides when a takeover may be tried; the fence keeps two leaders apart.
A separate process takes and renews the lease (lease_holder.py).
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import asyncpg

from muster_chassis import logs, metrics
from muster_chassis.backoff import Backoff
from muster_chassis.database import TRANSIENT, Database
from muster_chassis.unit import Unit

_log = logs.get(__name__)
LEASE_SECONDS: Final = 5.0
_SETTLE_SECONDS: Final = 0.05
_END_SECONDS: Final = 5.0
_PROGRAM: Final = "muster_chassis.lease_holder"
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
    """The loss of leadership: this process must not write or send anything more as the leader."""


@dataclass(frozen=True, slots=True)
class Term:
    """One term of leadership."""

    epoch: int

    async def fence(self, unit: Unit) -> None:
        """Run the first statement of every transaction of the leader. Raises Deposed."""
        await fence(unit, self.epoch)


async def fence(unit: Unit, epoch: int, name: str = "leader") -> None:
    """Lock the epoch row until the end of this transaction. Raises Deposed if another process has taken over."""
    sql = "SELECT 1 FROM lease_epoch WHERE name = $1 AND epoch = $2 FOR SHARE"
    if await unit.connection.fetchval(sql, name, epoch) is None:
        raise Deposed(f"epoch {epoch} is over")


class Leadership:
    """The candidacy of one process for one lease.

    holder: the name of this process among the candidates; must differ between processes that live at the same time.
    floor: returns an epoch that the next one must exceed (the highest on the assignment topics). It is called before
    each takeover.
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
        self.term: Term | None = None

    async def run(
        self,
        lead: Callable[[Term], Awaitable[None]],
        follow: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Follow until the lease is free, then lead until it is lost, for ever.

        `lead` is cancelled when the lease could not be renewed in time, and may itself raise Deposed. It gets a term
        with a unique epoch. Other exceptions of `lead` or `follow` end this task. On cancellation the lease is given
        back, so that a standby does not have to wait until it expires.
        """
        backoff = Backoff(first=0.1, last=2.0)
        while True:
            try:
                async with self._process() as process:
                    term, until = await self._follow(process, follow)
                    backoff.reset()
                    await self._lead(process, term, until, lead)
            except Deposed as error:
                _log.warning("stepped down", why=str(error))
                await backoff.pause()
            except _TROUBLE as error:
                _log.warning("the term has ended", error=repr(error))
                await backoff.pause()
            finally:
                LEADS.set(0)
                self.term = None

    @asynccontextmanager
    async def _process(self) -> AsyncIterator[asyncio.subprocess.Process]:
        """Run the process that holds the lease. It gives the lease back at the end of its input."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", _PROGRAM, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        try:
            target = self._database.target()
            await _write(process, **target, name=self._name, holder=self._holder, lease=self._lease)
            yield process
        finally:
            if process.stdin is not None:
                process.stdin.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(_END_SECONDS):
                    await process.wait()
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def _follow(
        self, process: asyncio.subprocess.Process, follow: Callable[[], Awaitable[None]] | None
    ) -> tuple[Term, float]:
        follower = asyncio.ensure_future(follow()) if follow else None
        taken = asyncio.ensure_future(self._taken(process))
        both = {task for task in (follower, taken) if task is not None}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if follower is not None and follower.done():
                follower.result()
            return await taken
        finally:
            for task in both:
                task.cancel()
            await asyncio.wait(both)

    async def _taken(self, process: asyncio.subprocess.Process) -> tuple[Term, float]:
        """Answer the process until it has the lease. Return the term, and the time until which the lease lasts."""
        while True:
            told = await _read(process)
            if "leads" in told:
                return Term(told["leads"]), told["until"]
            if "floor" in told:
                await _write(process, floor=await self._lowest())
            else:
                _log.warning("the lease cannot be requested", error=told.get("trouble"))

    async def _lowest(self) -> int | None:
        """Return the floor; None if it cannot be read now, so that the takeover is tried again."""
        if self._floor is None:
            return 0
        try:
            return await self._floor()
        except _TROUBLE as error:
            _log.warning("a takeover is postponed", error=repr(error))
            return None

    async def _lead(
        self,
        process: asyncio.subprocess.Process,
        term: Term,
        until: float,
        lead: Callable[[Term], Awaitable[None]],
    ) -> None:
        self.term = term
        LEADS.set(1)
        EPOCH.set(term.epoch)
        _log.info("leads", epoch=term.epoch, holder=self._holder)
        work = asyncio.ensure_future(lead(term))
        held = asyncio.ensure_future(self._held(process, until))
        try:
            await asyncio.wait({work, held}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (work, held):
                task.cancel()
            await asyncio.wait({work, held})
            LEADS.set(0)
        for task in (work, held):
            if not task.cancelled() and (error := task.exception()):
                raise error
        if not work.cancelled():
            raise RuntimeError("the leader's work ended by itself")

    async def _held(self, process: asyncio.subprocess.Process, until: float) -> None:
        """Wait while the process renews the lease. Raises Deposed."""
        reading = asyncio.ensure_future(_read(process))
        try:
            while True:
                await asyncio.wait({reading}, timeout=max(0.0, until - time.monotonic()))
                if not reading.done():
                    # If the loop was blocked, the lines that the process wrote meanwhile are still unread.
                    await asyncio.wait({reading}, timeout=_SETTLE_SECONDS)
                if not reading.done():
                    raise Deposed("the lease was not renewed in time")
                told = reading.result()
                if "lost" in told:
                    raise Deposed(told["lost"])
                until = told.get("until", until)
                reading = asyncio.ensure_future(_read(process))
        finally:
            reading.cancel()


async def _read(process: asyncio.subprocess.Process) -> dict[str, Any]:
    """Return the next line of the process. Raises Deposed if the process has ended."""
    line = await process.stdout.readline() if process.stdout is not None else b""
    if not line:
        raise Deposed(f"the process that holds the lease has ended: {await process.wait()}")
    told: dict[str, Any] = json.loads(line)
    return told


async def _write(process: asyncio.subprocess.Process, **fields: object) -> None:
    if process.stdin is None:
        raise RuntimeError("the process that holds the lease has no input")
    with suppress(ConnectionError):  # the process has ended; the reader of its output raises Deposed
        process.stdin.write(json.dumps(fields).encode() + b"\n")
        await process.stdin.drain()
