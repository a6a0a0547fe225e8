"""Rule 5, the lease: a process of its own renews it. A leader that computes leads on, and one that is gone does not.

Taken out here: the process (it is stopped while the leader computes, as a task of the leader would be), what it sees
of the leader (one that is stopped leads until an operator comes), and the watchdog (so does one whose loop is blocked).
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from muster_chassis import lease_holder
from muster_chassis.lease import Leadership
from tests.support.leading import LEADS, program
from tests.support.stations import opened
from tests.support.waiting import until

ROOT = Path(__file__).resolve().parents[2]
LEASE = 2.0
STALL = 5.0


@asynccontextmanager
async def _leader(url: str, *, blind: bool = False, stall: float = 0.0) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that leads. blind: its holder of the lease does not see whether it is stopped. stall: as `program`."""
    process = await asyncio.create_subprocess_exec(
        *program(url, lease=LEASE, blind=blind, stall=stall), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert (await asyncio.wait_for(process.stdout.readline(), 30)).decode().strip() == LEADS
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        await process.wait()


async def _seconds_to_take_over(
    url: str, what: signal.Signals, *, blind: bool = False, stall: float = 0.0, within: float = 20
) -> float:
    """How long another candidate waits after the leader was sent a signal; `within` where it has to wait longer."""
    async with opened(url, "scheduler") as here, _leader(url, blind=blind, stall=stall) as leader:
        other = Leadership(here, "other", lease=LEASE)
        leading = asyncio.ensure_future(other.run(_forever))
        await asyncio.wait({leading}, timeout=2 * LEASE)  # a leader that lives is left alone
        assert other.term is None
        began = time.monotonic()
        leader.send_signal(what)
        try:
            await until(lambda: other.term, within=within)
        except TimeoutError:
            return within
        finally:
            leading.cancel()
            await asyncio.wait({leading})
        return time.monotonic() - began


async def _forever(_: object = None) -> None:
    await asyncio.get_running_loop().create_future()


async def test_after_kill_9_the_lease_is_free_at_once(database: Any) -> None:
    assert await _seconds_to_take_over(database.url("scheduler"), signal.SIGKILL) < LEASE


async def test_a_leader_that_is_stopped_leads_no_longer(database: Any) -> None:
    assert await _seconds_to_take_over(database.url("scheduler"), signal.SIGSTOP) < 5


async def test_if_nothing_saw_that_it_would_lead_on(database: Any) -> None:
    taken = await _seconds_to_take_over(database.url("scheduler"), signal.SIGSTOP, blind=True, within=4 * LEASE)
    assert taken == 4 * LEASE


async def test_a_leader_whose_loop_is_blocked_ends(database: Any) -> None:
    """The watchdog ends it, not its holder: the process runs on, and its lease is renewed until then."""
    taken = await _seconds_to_take_over(database.url("scheduler"), signal.SIGUSR1, stall=STALL)
    assert 0.8 * STALL < taken < STALL + LEASE


async def test_without_a_watchdog_it_would_lead_on(database: Any) -> None:
    within = STALL + 2 * LEASE
    assert await _seconds_to_take_over(database.url("scheduler"), signal.SIGUSR1, within=within) == within


async def _leaders_after_a_long_computation(database: Any, *, beside: bool) -> list[str]:
    """Who has led at the end. The leader computes for two leases; beside: while its lease is renewed."""
    led: list[str] = []
    async with opened(database.url("scheduler"), "scheduler") as here:
        first, second = Leadership(here, "first", lease=LEASE), _Elsewhere(database.url("scheduler"))

        async def compute(_: object) -> None:
            led.append("first")
            (holder,) = _children(lease_holder.__name__)
            await second.start()
            if not beside:
                os.kill(holder, signal.SIGSTOP)
            time.sleep(2 * LEASE)  # noqa: ASYNC251 - the loop is blocked, as a rebuild blocks it
            if not beside:
                os.kill(holder, signal.SIGCONT)
            await _forever()

        leading = asyncio.ensure_future(first.run(compute))
        await until(lambda: led, within=20)
        await asyncio.wait({leading}, timeout=LEASE)
        if await second.leads():
            led.append("second")
        leading.cancel()
        await asyncio.wait({leading})
        await second.end()
    return led


class _Elsewhere:
    """A candidate in another process."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *program(self._url, lease=LEASE, blind=False), cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )

    async def leads(self) -> bool:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), 0.5)
        except TimeoutError:
            return False
        return line.decode().strip() == LEADS

    async def end(self) -> None:
        assert self._process is not None
        self._process.kill()
        await self._process.wait()


def _children(module: str) -> list[int]:
    """The child processes of this one that run a module."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            arguments = (folder / "cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        if parent == os.getpid() and module in arguments:
            found.append(int(folder.name))
    return found


async def test_a_leader_that_computes_for_longer_than_its_lease_leads_on(database: Any) -> None:
    assert await _leaders_after_a_long_computation(database, beside=True) == ["first"]


async def test_if_its_own_loop_had_to_renew_another_would_lead(database: Any) -> None:
    assert (await _leaders_after_a_long_computation(database, beside=False))[:2] == ["first", "second"]
