"""A program that leads and does nothing: `python -m tests.support.leading URL LEASE BLIND STALL`. It prints `leads`.

Started by tests that stop, kill or block a leader. BLIND=1: its holder of the lease does not look whether it is
stopped. STALL: seconds for which its watchdog lets the event loop be blocked; 0: it has none. SIGUSR1 blocks the loop.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from typing import Final

from muster_chassis import lease, lease_holder
from muster_chassis.watchdog import WATCHDOG

LEADS: Final = "leads"
_NAME: Final = "tests.support.leading"  # also where it is the program
_BLOCKED_SECONDS: Final = 120.0


def program(url: str, *, lease: float, blind: bool, stall: float = 0.0) -> list[str]:
    """The command that leads."""
    return [sys.executable, "-m", _NAME, url, str(lease), "1" if blind else "0", str(stall)]


async def _lead(_: object) -> None:
    print(LEADS, flush=True)
    await asyncio.get_running_loop().create_future()


async def _main(url: str, seconds: float, stall: float) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, time.sleep, _BLOCKED_SECONDS)
    from tests.support.stations import opened  # noqa: PLC0415 - a blind holder is this module too, and needs none

    async with opened(url, "scheduler") as here, asyncio.TaskGroup() as tasks:
        if stall:
            tasks.create_task(WATCHDOG.run(stall))
        await lease.Leadership(here, f"leader-{seconds}", lease=seconds).run(_lead)


def main(url: str, seconds: str, blind: str, stall: str = "0") -> int:
    """Leads, or holds the lease of a leader without looking at it."""
    if blind == "holder":
        lease_holder._STOPPED = ("none", "none")  # type: ignore[misc]
        return lease_holder.main()
    if blind == "1":
        lease._PROGRAM = _NAME  # type: ignore[misc]
    asyncio.run(_main(url, float(seconds), float(stall)))
    return 0


if __name__ == "__main__":
    sys.exit(main(*(sys.argv[1:] or ("", "0", "holder"))))
