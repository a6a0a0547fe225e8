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
from tests.attacks.stage import Stage
from tests.attacks.tenants import Tenant, Window, steady
from tests.support import figures

WINDOWS: Final = 5
GROUP: Final = 4
"""Attacks that share a quiet window."""
WINDOW_SECONDS: Final = 7.0
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
    group: Sequence[Attack], stage: Stage, tenants: Sequence[Tenant], *, windows: int = WINDOWS
) -> dict[Attack, Felt]:
    """Alternates a quiet window with one window under each attack of the group, of at least 1,000 calls each.

    The attacks of a group share the quiet window of their round: keep groups small (`GROUP`), so that it is near them.
    """
    rounds = {attack: _Rounds() for attack in group}
    for _ in range(windows):
        quiet = await steady(tenants, WINDOW_SECONDS)
        for attack in group:
            rounds[attack].add(quiet, *await _under(attack, stage, tenants))
            await asyncio.sleep(_SETTLE_SECONDS)
    return {attack: found.felt() for attack, found in rounds.items()}


async def _under(attack: Attack, stage: Stage, tenants: Sequence[Tenant]) -> tuple[Window, dict[str, Any]]:
    until = time.monotonic() + _LEAD_SECONDS + WINDOW_SECONDS
    argv = [sys.executable, str(_ROOT / "tests" / "attacks" / "noise.py"), attack.name]
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, cwd=_ROOT
    )
    try:
        writer, reader = process.stdin, process.stdout
        if writer is None or reader is None:
            raise RuntimeError("the attack's process has no pipes")
        writer.write(stage.lasting(until).to_json().encode() + b"\n")
        await writer.drain()
        await asyncio.sleep(_LEAD_SECONDS)
        window = await steady(tenants, WINDOW_SECONDS)
        output = await _within(_END_SECONDS, reader)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
    lines = output.decode().splitlines()
    return window, json.loads(lines[-1]) if lines else {"held": False, "evidence": "the attack gave no verdict"}


async def _within(seconds: float, reader: asyncio.StreamReader) -> bytes:
    """All that a process prints; nothing where it goes on for longer."""
    try:
        return await asyncio.wait_for(reader.read(), seconds)
    except TimeoutError:
        return b""
