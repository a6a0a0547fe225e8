"""How fast the agent makes pods, beside a bare loop that posts the same objects.

Used by tests/benchmarks/agent.py, which says what is measured.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from muster_cluster_agent.adapters.kubernetes.client import Client
from tests.support.agent_bare import bare, client_of
from tests.support.agent_bench import Bench
from tests.support.processors import apart

LOAD: Final = "runai-load"
"""The namespace of the agent's pods that stay."""
_SIZES: Final = {1: 70, 2: 10, 4: 10, 8: 7, 16: 3}
"""Sizes of workloads, and how many of a hundred have them."""
_SMALL_BATCH: Final = 800
_QUIET: Final = 0.8  # of its time a processor that is quiet does nothing
_QUIET_PATIENCE: Final = 60.0  # seconds
_MORE_LOAD: Final = "runai-more"


async def ratio(at: Bench, pods: int, alternations: int) -> tuple[dict[str, Any], dict[int, int]]:
    """The figures, and the sizes of the workloads that run since."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"  ratio: seed {seed}", file=sys.stderr, flush=True)
    drawn = random.Random(seed)
    batches = [_drawn(drawn, pods // alternations) for _ in range(alternations)]
    async with client_of(at) as client:  # its connections stay open between the batches, as the agent's do
        with apart([each.pid for each in at.cluster.programs.values()]):
            mixed, sizes = await _alternate(at, client, batches, 1, LOAD)
            singles, more = await _alternate(
                at, client, [[1] * _SMALL_BATCH] * alternations, 1 + len(sizes), _MORE_LOAD
            )
        batches = [_drawn(drawn, _SMALL_BATCH) for _ in range(alternations)]
        shared, others = await _alternate(at, client, batches, 1 + len(sizes) + len(more), _MORE_LOAD)
    await at.write(at.releases([*more, *others]))  # the parts that follow are about so many pods as were asked for
    await at.until_pods(_MORE_LOAD, 0)
    return {**mixed, "seed": seed, "single": singles, "shared": shared}, sizes


def _drawn(drawn: random.Random, pods: int) -> list[int]:
    """Sizes of workloads that have so many pods together."""
    sizes: list[int] = []
    while (left := pods - sum(sizes)) > 0:
        sizes.append(min(left, *drawn.choices([*_SIZES], [*_SIZES.values()])))
    return sizes


async def _alternate(
    at: Bench, client: Client, batches: Sequence[Sequence[int]], first: int, namespace: str
) -> tuple[dict[str, Any], dict[int, int]]:
    """Each batch by the bare loop and by the agent, now the one first and now the other.

    first: the number of the first workload.
    """
    ours, plain = [], []
    every: dict[int, int] = {}
    for turn, batch in enumerate(batches, start=1):
        sizes = dict(enumerate(batch, start=first + len(every)))
        for who in ("bare", "agent") if turn % 2 else ("agent", "bare"):
            await _quiet()
            if who == "bare":
                plain.append(sum(batch) / await bare(at, client, batch, f"bare-{first}-{turn}"))
            else:
                ours.append(sum(batch) / await at.make(sizes, namespace))
                await at.bind([*sizes], namespace)
        every |= sizes
        print(f"  {turn}: bare {plain[-1]:.0f}, agent {ours[-1]:.0f} pods a second", file=sys.stderr, flush=True)
    ratios = [mine / other for mine, other in zip(ours, plain, strict=True)]
    found = {
        "pods_per_s": round(statistics.median(ours), 1),
        "bare_pods_per_s": round(statistics.median(plain), 1),
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(each, 3) for each in ratios],
    }
    return found, every


async def _quiet() -> None:
    """Wait until this machine does nothing: what one part leaves to do is not measured in the next. At most a minute.

    Nodes that play 1,000 pods that were bound, and the collector of garbage of the API server, are busy for seconds.
    """
    deadline = time.monotonic() + _QUIET_PATIENCE
    before = _idle_seconds()
    while time.monotonic() < deadline:
        await asyncio.sleep(1.0)
        now = _idle_seconds()
        if now - before >= _QUIET * (os.cpu_count() or 1):
            return
        before = now
    print(
        "  this machine was not quiet for a minute: the next part is measured all the same", file=sys.stderr, flush=True
    )


def _idle_seconds() -> float:
    """For how many seconds the processors of this machine have done nothing, together (proc(5), `uptime`)."""
    return float(Path("/proc/uptime").read_text().split()[1])
