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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.attacks.attack import Attack
from tests.attacks.stage import Stage
from tests.attacks.tenants import Tenant, steady
from tests.support import figures

WINDOWS: Final = 5
WINDOW_SECONDS: Final = 7.0
MOST_RATIO: Final = 1.5
MOST_RISE_MS: Final = 25.0
_LEAD_SECONDS: Final = 1.0  # the attack is under way before its window begins
_SETTLE_SECONDS: Final = 2.0
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
    def kept(self) -> bool:
        """Whether the bound is kept and no call was refused."""
        rise = self.during_p99_ms - self.before_p99_ms
        return not self.refused and (self.ratio <= MOST_RATIO or rise <= MOST_RISE_MS)


async def measure(attack: Attack, stage: Stage, tenants: Sequence[Tenant], *, windows: int = WINDOWS) -> Felt:
    """Alternates quiet windows with windows under the attack, of at least 1,000 calls each."""
    before, during, refused, verdicts, calls = [], [], [], [], 0
    for _ in range(windows):
        quiet = await steady(tenants, WINDOW_SECONDS)
        before.append(figures.spread(quiet.milliseconds)["p99"])
        noisy, verdict = await _under(attack, stage, tenants)
        during.append(figures.spread(noisy.milliseconds)["p99"])
        refused += [*quiet.refused, *noisy.refused]
        verdicts.append(verdict)
        calls += len(quiet.milliseconds) + len(noisy.milliseconds)
        await asyncio.sleep(_SETTLE_SECONDS)
    return Felt(statistics.median(before), statistics.median(during), calls, tuple(refused), tuple(verdicts))


async def _under(attack: Attack, stage: Stage, tenants: Sequence[Tenant]) -> tuple[Any, dict[str, Any]]:
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
        output = await asyncio.wait_for(reader.read(), _END_SECONDS)
        await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
    lines = output.decode().splitlines()
    return window, json.loads(lines[-1]) if lines else {"held": False, "evidence": "the attack's process said nothing"}
