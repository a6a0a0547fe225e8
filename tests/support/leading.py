"""A program that leads and does nothing: `python -m tests.support.leading URL LEASE BLIND`. It prints `leads`.

Started by tests that stop or kill a leader. BLIND=1: its holder of the lease does not look whether it is stopped.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Final

from muster_chassis import lease, lease_holder

LEADS: Final = "leads"
_NAME: Final = "tests.support.leading"  # also where it is the program


def program(url: str, *, lease: float, blind: bool) -> list[str]:
    """The command that leads."""
    return [sys.executable, "-m", _NAME, url, str(lease), "1" if blind else "0"]


async def _lead(_: object) -> None:
    print(LEADS, flush=True)
    await asyncio.get_running_loop().create_future()


async def _main(url: str, seconds: float) -> None:
    from tests.support.stations import opened  # noqa: PLC0415 - a blind holder is this module too, and needs none

    async with opened(url, "scheduler") as here:
        await lease.Leadership(here, f"leader-{seconds}", lease=seconds).run(_lead)


def main(url: str, seconds: str, blind: str) -> int:
    """Leads, or holds the lease of a leader without looking at it."""
    if blind == "holder":
        lease_holder._STOPPED = ("none", "none")  # type: ignore[misc]
        return lease_holder.main()
    if blind == "1":
        lease._PROGRAM = _NAME  # type: ignore[misc]
    asyncio.run(_main(url, float(seconds)))
    return 0


if __name__ == "__main__":
    sys.exit(main(*(sys.argv[1:] or ("", "0", "holder"))))
