"""One chaos run while it lasts: workloads come and go as the plan says, parts are killed, a probe may watch.

Called by `local.py` and `on_kubernetes.py`, which have the stack and judge what it left.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from muster_client import Muster
from tests.ageing.releases import Code, replace
from tests.chaos import checker, killer, ledger
from tests.chaos.driver import Driver, Text
from tests.chaos.plan import ChaosPlan
from tests.chaos.probe import Probe
from tests.support.stacks import RunningStack

LIMIT_SECONDS: Final = 600.0  # beyond the last kill
_MOST_WAIT_MS: Final = 500.0
_REPLACED: Final = 180.0  # seconds within which a process is ready again, though kills go on


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run gave: the verdict and what was done. more: findings that only one back end has, by their name."""

    verdict: checker.Verdict
    hits: dict[str, int]
    seconds: float
    probed: dict[str, object] = field(default_factory=dict)
    more: dict[str, Sequence[str]] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        """Whether nothing was found, and the probe was answered in time."""
        wait = self.probed.get("verdict_wait_p99_ms", 0.0)
        in_time = isinstance(wait, float) and wait <= _MOST_WAIT_MS
        clean = self.verdict.clean and not any(self.more.values())
        return clean and in_time and not self.probed.get("log_unavailable")


@dataclass
class Upgrading:
    """An upgrade in the middle of a run."""

    code: Code
    parts: Sequence[str]
    replaced: list[str] = field(default_factory=list)

    async def run(self, stack: RunningStack, hunter: killer.Killer, after: float) -> None:
        """Wait `after` seconds, then replace each process; the moments count as kills."""
        await asyncio.sleep(after)
        say("  the upgrade begins")
        self.code.newer()
        for part in self.parts:
            await replace(stack.stack, part, within=_REPLACED, stopped=lambda: hunter.moments.append(time.monotonic()))
            self.replaced.append(part)
        say(f"  upgraded: {len(self.replaced)} processes are replaced")


async def drive(
    stack: RunningStack,
    plan: ChaosPlan,
    book: Path,
    hunter: killer.Killer,
    text: Text,
    gpus: int,
    probe: Probe | None = None,
    upgrade: Upgrading | None = None,
) -> None:
    """Plays the plan to its end, and writes what the client was told into the ledger `book`.

    text: the document of an arrival. gpus: what the project of the run deserves.
    """
    notes = ledger.Ledger(book)
    limit = LIMIT_SECONDS + max((kill.at for kill in plan.kills), default=0.0)
    async with Muster(stack.server) as muster:
        driver = Driver(muster, notes, text)
        await driver.make_project("default", gpus)
        since = asyncio.get_running_loop().time()
        following = asyncio.create_task(driver.follow(), name="follow")
        beside = [following, asyncio.create_task(progress(driver, hunter), name="progress")]
        if probe is not None:
            await driver.make_probe_project("default")
            beside.append(asyncio.create_task(probe.run(stack.submissions, driver.phases), name="probe"))
        try:
            async with asyncio.timeout(limit), asyncio.TaskGroup() as tasks:
                tasks.create_task(hunter.run(plan.kills, since), name="kills")
                if upgrade is not None:
                    middle = max((kill.at for kill in plan.kills), default=0.0) / 2
                    tasks.create_task(upgrade.run(stack, hunter, middle), name="upgrade")
                for arrival in plan.arrivals:
                    tasks.create_task(driver.run(arrival), name=arrival.name)
        except TimeoutError:
            say(f"not everything ended within {limit:g} s")
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await driver.settle()
            notes.close()


async def progress(driver: Driver, hunter: killer.Killer) -> None:
    """Says every ten seconds how far it is, for ever."""
    while True:
        await asyncio.sleep(10.0)
        ended = sum(phase in driver.final for phase in driver.phases.values())
        say(f"  {len(driver.phases)} acknowledged, {ended} ended, {hunter.hits.total()} kills")


def say(text: str) -> None:
    """A line for people; the standard output is the result's."""
    print(text, file=sys.stderr, flush=True)
