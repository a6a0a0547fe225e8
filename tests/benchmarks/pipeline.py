"""How fast the whole road is: `uv run python tests/benchmarks/pipeline.py --json`.

Latency: on a stack of its own, workloads come at an even pace; from the client's send to the first instruction of the
user's command, a tiny one that stamps the monotonic clock (so its interpreter's start is in the figure). Sustained: on
another stack, whose agents hold assignments without starting them, SubmitWorkloads of 100 come at an even pace; what
counts is the time of WorkloadPlaced on Kafka, read after the load so that reading costs the system nothing.

The last line is one JSON object: rate (latency part, workloads a second), submit_to_start_ms {p50, p99, max, count},
sustained_per_s (placements a second within the window), offered_per_s, backlog_end and backlog_half (acknowledged and
not placed at the window's end and at its half), latency_stages_ms and stages_ms (p50 from one step of the road to the
next, in the latency and the sustained part), cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from muster_client import Muster
from muster_client.quotas import pool_quota
from tests.support import decisions, figures
from tests.support.stacks import running_stack

PROJECT = "bench"
BULK = 100
SETTLE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Sent:
    """A submission and the client's clock right before it."""

    name: str
    workload: str
    monotonic_ns: int


def main() -> int:
    """Runs both parts and prints the object."""
    given = _arguments()
    result: dict[str, object] = {"cores": os.cpu_count()}
    if "latency" in given.parts:
        result |= {"rate": given.rate, **asyncio.run(latency(given.rate, given.seconds))}
    if "sustained" in given.parts:
        result |= {"offered_per_s": given.offered, **asyncio.run(sustained(given.offered, given.seconds))}
    if not given.json:
        print("\n".join(f"{name:22} {value}" for name, value in result.items()))
    print(json.dumps(result))
    return 0


async def latency(rate: float, seconds: float) -> dict[str, object]:
    """submit_to_start_ms at `rate` workloads a second for `seconds`."""
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        stamps = _stamps(Path(folder))
        with running_stack(Path(folder) / "stack", {"bench": _cluster(nodes=4, stamps=stamps)}) as stack:
            async with Muster(stack.server) as muster:
                await muster.projects.create(PROJECT, quotas=[pool_quota("default", 32)])
                await _warm_up(muster, stamps)
                began = time.time()
                sent = await _paced(muster, stamps, rate, int(rate * seconds))
                started = await _stamped(stamps, {at.name for at in sent})
            roads = await decisions.roads(stack.kafka, began, "bench")
    waits = [(started[at.name] - at.monotonic_ns) / 1e6 for at in sent]
    wall = time.time() - time.monotonic()
    for at in sent:
        roads[at.workload] |= {
            decisions.SENT: wall + at.monotonic_ns / 1e9,
            decisions.STARTED: wall + started[at.name] / 1e9,
        }
    return {"submit_to_start_ms": figures.spread(waits), "latency_stages_ms": decisions.stages(roads)}


def _stamps(folder: Path) -> Path:
    """A folder that confined replicas reach, whichever user they are, and write to."""
    folder.chmod(0o711)
    stamps = folder / "stamps"
    stamps.mkdir()
    stamps.chmod(0o1777)
    return stamps


async def _warm_up(muster: Muster, stamps: Path) -> None:
    """The first runs import, connect and join groups: that is start-up, not the road."""
    sent = await _paced(muster, stamps, 5.0, 10, prefix="warm")
    await _stamped(stamps, {at.name for at in sent})


async def _paced(muster: Muster, stamps: Path, rate: float, count: int, prefix: str = "run") -> list[Sent]:
    """Submits `count` at `rate` a second, none waiting for another."""
    began = time.monotonic()

    async def one(number: int) -> Sent:
        await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
        name = f"{prefix}-{number}"
        document = _stamping(name, stamps / name)
        at = time.monotonic_ns()
        workload = await muster.submit(document, project=PROJECT)
        return Sent(name, workload.id, at)

    return list(await asyncio.gather(*(one(number) for number in range(count))))


async def _stamped(stamps: Path, names: set[str]) -> dict[str, int]:
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        found = _read(stamps, names)
        if len(found) == len(names) and all(found.values()):
            return {name: int(text) for name, text in found.items()}
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(names) - len(found)} of {len(names)} commands never started")
        await asyncio.sleep(0.1)


def _read(stamps: Path, names: set[str]) -> dict[str, str]:
    return {path.name: path.read_text() for path in stamps.iterdir() if path.name in names}


async def sustained(offered: float, seconds: float) -> dict[str, object]:
    """Placements a second while `offered` workloads a second come in bulk calls of 100 for `seconds`."""
    nodes = int(offered * seconds * 1.5 / 4 / 8) + 1  # a quarter GPU each, 8 devices a node, half as much room again
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        clusters = {"bench": _cluster(nodes=nodes)}
        with running_stack(Path(folder) / "stack", clusters, hold=True) as stack:
            async with Muster(stack.server) as muster:
                await muster.projects.create(PROJECT, quotas=[pool_quota("default", nodes * 8)])
                await muster.submit_many([_held(f"warm-{n}") for n in range(BULK)], project=PROJECT)
                await asyncio.sleep(3.0)
                began = time.time()
                acknowledged = await _bulk(muster, offered, seconds)
                ended = time.time()
                await asyncio.sleep(1.0)
            roads = await decisions.roads(stack.kafka, began, "bench")
    placed = [road["WorkloadPlaced"] for road in roads.values() if "WorkloadPlaced" in road]
    half = began + (ended - began) / 2
    return {
        "sustained_per_s": round(figures.within(placed, began, ended) / (ended - began), 1),
        "acknowledged_per_s": round(figures.within(acknowledged, began, ended) / (ended - began), 1),
        "backlog_half": figures.within(acknowledged, began, half) - figures.within(placed, began, half),
        "backlog_end": figures.within(acknowledged, began, ended) - figures.within(placed, began, ended),
        "stages_ms": decisions.stages(roads),
    }


async def _bulk(muster: Muster, offered: float, seconds: float) -> list[float]:
    """Wall-clock times of the acknowledgements, one a workload. Calls overlap: a slow one does not lower the offer."""
    acknowledged: list[float] = []
    began = time.monotonic()

    async def one(number: int) -> None:
        await asyncio.sleep(max(0.0, began + number * BULK / offered - time.monotonic()))
        answers = await muster.submit_many([_held(f"h-{number}-{n}") for n in range(BULK)], project=PROJECT)
        refused = [answer for answer in answers if not isinstance(answer, str)]
        if refused:
            raise RuntimeError(f"{len(refused)} of {BULK} were refused, the first: {refused[0]}")
        acknowledged.extend([time.time()] * BULK)

    await asyncio.gather(*(one(number) for number in range(int(offered * seconds / BULK))))
    return acknowledged


def _cluster(nodes: int, stamps: Path | None = None) -> str:
    devices = "{count: 8, model: A100-40GB, memory: 40Gi}"
    rows = [f"  - {{name: n-{n}, cpu: 1000, memory: 4Ti, devices: {devices}}}" for n in range(nodes)]
    roots = [f"roots: [{{path: {stamps}, write: true}}]"] if stamps else []
    return "\n".join(["cluster: bench", *roots, "nodes:", *rows, ""])


def _document(name: str, gpu: str, command: str) -> str:
    return (
        "apiVersion: run.ai/v2alpha1\nkind: TrainingWorkload\n"
        f"metadata: {{name: {name}, namespace: runai-{PROJECT}}}\nspec:\n  name: {{value: {name}}}\n"
        f"  image: {{value: none}}\n  gpu: {{value: '{gpu}'}}\n  command: {{value: '{command}'}}\n"
    )


def _stamping(name: str, stamp: Path) -> str:
    code = f'import time; t = time.monotonic_ns(); open("{stamp}", "w").write(str(t))'.replace('"', '\\"')
    return _document(name, "0.1", f'{sys.executable} -I -S -c "{code}"')


def _held(name: str) -> str:
    return _document(name, "0.25", "sleep 1")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="only the JSON object")
    parser.add_argument("--rate", type=float, default=5.0, help="latency: workloads a second")
    parser.add_argument("--offered", type=float, default=320.0, help="sustained: workloads a second")
    parser.add_argument("--seconds", type=float, default=60.0, help="length of each part")
    parser.add_argument("--parts", nargs="+", choices=["latency", "sustained"], default=["latency", "sustained"])
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
