"""Measures what others feel of a noisy attack: alternating windows before it and during it, in one run.

Called by `tests/attacks/run.py` and `tests/benchmarks/isolation.py`. The attack runs in a process of its own at a
lower priority: an attacker's client usually has a machine of its own, and what its arithmetic takes from two shared
cores says nothing about the service.
Holds: a bound is kept where the median ratio of p99 is at most 1.5, or where the median p99 rises by at most 25 ms.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.attacks.attack import Attack, Verdict
from tests.attacks.noise import READY
from tests.attacks.stage import Stage
from tests.attacks.tenants import RATE, Tenant, Window, steady
from tests.support import figures

WINDOWS: Final = 5
GROUP: Final = 4
"""Attacks that share a quiet window."""
WINDOW_SECONDS: Final = 17.5
MOST_RATIO: Final = 1.5
MOST_RISE_MS: Final = 25.0
_LEAD_SECONDS: Final = 1.0  # the attack is under way before its window begins
_SETTLE_SECONDS: Final = 1.0
_END_SECONDS: Final = 30.0
_ROOT: Final = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Felt:
    """What others felt: medians of the windows' p99 in milliseconds, and the refusals of their calls."""

    before_p99_ms: float
    during_p99_ms: float
    calls: int
    refused: tuple[str, ...]
    verdicts: tuple[dict[str, Any], ...]

    @property
    def ratio(self) -> float:
        """How many times longer the 99th percentile is during the attack."""
        return round(self.during_p99_ms / self.before_p99_ms, 2)

    @property
    def verdict(self) -> Verdict:
        """The first verdict that is not held, else the last."""
        chosen = next((each for each in self.verdicts if not each["held"]), self.verdicts[-1])
        return Verdict(held=bool(chosen["held"]), evidence=str(chosen["evidence"]))

    @property
    def kept(self) -> bool:
        """Whether the bound is kept and no call was refused."""
        rise = self.during_p99_ms - self.before_p99_ms
        return not self.refused and (self.ratio <= MOST_RATIO or rise <= MOST_RISE_MS)


@dataclass(slots=True)
class _Rounds:
    """What the windows of one attack gave, round by round."""

    before: list[float] = field(default_factory=list)
    during: list[float] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    verdicts: list[dict[str, Any]] = field(default_factory=list)
    calls: int = 0

    def add(self, quiet: Window, noisy: Window, verdict: dict[str, Any]) -> None:
        self.before.append(figures.spread(quiet.milliseconds)["p99"])
        self.during.append(figures.spread(noisy.milliseconds)["p99"])
        self.refused += [*quiet.refused, *noisy.refused]
        self.verdicts.append(verdict)
        self.calls += len(quiet.milliseconds) + len(noisy.milliseconds)

    def felt(self) -> Felt:
        before, during = statistics.median(self.before), statistics.median(self.during)
        return Felt(before, during, self.calls, tuple(self.refused), tuple(self.verdicts))


async def measure(
    group: Sequence[Attack], stage: Stage, tenants: Sequence[Tenant], *, windows: int = WINDOWS, rate: float = RATE
) -> dict[Attack, Felt]:
    """Alternates a quiet window with one window under each attack of the group, of at least 1,000 calls each.

    The attacks of a group share the quiet window of their round: keep groups small (`GROUP`), so that it is near them.
    """
    rounds = {attack: _Rounds() for attack in group}
    noises = {attack: Noise(attack.name) for attack in group}
    try:
        for _ in range(windows):
            for noise in noises.values():
                await noise.start()
            quiet = await steady(tenants, WINDOW_SECONDS, rate)
            for attack, noise in noises.items():
                await noise.begin(stage.lasting(time.monotonic() + _LEAD_SECONDS + WINDOW_SECONDS))
                await asyncio.sleep(_LEAD_SECONDS)
                noisy = await steady(tenants, WINDOW_SECONDS, rate)
                rounds[attack].add(quiet, noisy, await noise.verdict())
                await asyncio.sleep(_SETTLE_SECONDS)
    finally:
        for noise in noises.values():
            await noise.end()
    return {attack: found.felt() for attack, found in rounds.items()}


class Noise:
    """The process of one attack: it is ready before a window begins, so that the whole window is under the attack."""

    def __init__(self, name: str) -> None:
        """Starts nothing yet."""
        self._name = name
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Starts the process unless it runs. Raises TimeoutError where it does not become ready."""
        if self._process is not None:
            return
        argv = [sys.executable, str(_ROOT / "tests" / "attacks" / "noise.py"), self._name]
        self._process = await asyncio.create_subprocess_exec(
            *argv, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, cwd=_ROOT
        )
        if await self._line() != READY:
            raise TimeoutError(f"the process of {self._name} did not become ready in {_END_SECONDS:g} s")

    async def begin(self, stage: Stage) -> None:
        """Lets it attack until the stage's `until`."""
        if self._process is None or self._process.stdin is None:
            raise RuntimeError(f"the process of {self._name} has not been started")
        self._process.stdin.write(stage.to_json().encode() + b"\n")
        await self._process.stdin.drain()

    async def verdict(self) -> dict[str, Any]:
        """Its verdict; not held where none comes, and then the process is ended."""
        line = await self._line()
        if not line:
            await self.end()
            return {"held": False, "evidence": f"the attack gave no verdict within {_END_SECONDS:g} s"}
        found: dict[str, Any] = json.loads(line)
        return found

    async def end(self) -> None:
        """Ends the process."""
        process, self._process = self._process, None
        if process is not None:
            if process.returncode is None:
                process.kill()
            await process.wait()

    async def _line(self) -> str:
        if self._process is None or self._process.stdout is None:
            return ""
        try:
            return (await asyncio.wait_for(self._process.stdout.readline(), _END_SECONDS)).decode().strip()
        except TimeoutError:
            return ""
