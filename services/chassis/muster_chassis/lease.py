"""Who leads: an epoch that only a takeover changes, and a lease that is renewed beside it (rule 5).

The scheduler runs `Leadership.run(lead, follow)`. Whoever leads does so under one epoch: every transaction of his
begins with `fence`, which finds no row once another has taken over, and a takeover waits for transactions that have
passed the fence. The lease only says when a takeover may be tried; the fence is what keeps two leaders apart.
A process of its own takes the lease and renews it (lease_holder.py).
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
        """The process that holds the lease. At the end of its input it gives the lease back."""
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
        """Answers the process until it has taken the lease: the term, and the moment until which it lasts."""
        while True:
            told = await _read(process)
            if "leads" in told:
                return Term(told["leads"]), told["until"]
            if "floor" in told:
                await _write(process, floor=await self._lowest())
            else:
                _log.warning("the lease cannot be asked for", error=told.get("trouble"))

    async def _lowest(self) -> int | None:
        """The floor; None where it cannot be said now, so that the takeover is tried again."""
        if self._floor is None:
            return 0
        try:
            return await self._floor()
        except _TROUBLE as error:
            _log.warning("a takeover is put off", error=repr(error))
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
        """Goes on while the process renews; raises Deposed."""
        reading = asyncio.ensure_future(_read(process))
        try:
            while True:
                await asyncio.wait({reading}, timeout=max(0.0, until - time.monotonic()))
                if not reading.done():
                    # After the loop was blocked, what the process has said meanwhile is still to be read.
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
    """The next line of the process. Raises Deposed where it has ended."""
    line = await process.stdout.readline() if process.stdout is not None else b""
    if not line:
        raise Deposed(f"the process that holds the lease has ended: {await process.wait()}")
    told: dict[str, Any] = json.loads(line)
    return told


async def _write(process: asyncio.subprocess.Process, **fields: object) -> None:
    if process.stdin is None:
        raise RuntimeError("the process that holds the lease has no input")
    with suppress(ConnectionError):  # it has ended; its reader hears that
        process.stdin.write(json.dumps(fields).encode() + b"\n")
        await process.stdin.drain()
