"""How fast a Kubernetes cluster is filled and reclaimed: `uv run python tests/benchmarks/kubernetes_fill.py --json`.

A whole stack on a real API server with 500 of kwok's nodes of 8 GPUs, and `binder: direct`; no least run time. In this
order:

1. fill: project a, which deserves nothing, submits 4,000 workloads of one GPU at once; until all are Running.
2. reclaim: project b deserves all GPUs and submits as many; until all of b's are Running.
3. gang_reclaim: b and c deserve half each, and c submits one gang of 2,000 GPUs; until it is Running.
4. refused: c submits a gang with more GPUs than there are; until `why` says that it can never fit.

Running is what Muster's watch says. It is done twice: with the agent's rate of API calls raised, as the figures of
others were taken, and with the rate that an agent has by default. The last line is one JSON object: fill_s, reclaim_s,
gang_reclaim_s, refused_s, and the same under `default_rate`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from muster_client import Muster
from muster_client.errors import NotFound
from muster_client.phases import Phase
from muster_client.quotas import pool_quota
from muster_client.words import phase_of
from muster_kernel.reasons import NEVER
from tests.support import kubernetes, kwok
from tests.support.kubernetes_stack import kubernetes_stack
from tests.support.waiting import eventually, until

FAST: Final = 100_000.0  # calls a second: no limit
GPUS: Final = 8  # of a node
BULK: Final = 1_000
PATIENCE: Final = 900.0  # seconds


@dataclass
class Running:
    """The workloads that are Running now, by id, as a watch says."""

    ids: set[str] = field(default_factory=set)

    async def follow(self, muster: Muster) -> None:
        """Follows every workload for ever."""
        async for item in muster.watch():
            if item.workload is None:
                continue
            if phase_of(item.workload) is Phase.RUNNING:
                self.ids.add(item.workload.id)
            else:
                self.ids.discard(item.workload.id)


@asynccontextmanager
async def following(muster: Muster) -> AsyncIterator[Running]:
    """What runs, until the block ends."""
    running = Running()
    task = asyncio.create_task(running.follow(muster))
    try:
        yield running
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def main() -> int:
    """Measures both rates and prints the object."""
    given = _arguments()
    if not (kubernetes.built() and kwok.built()):
        print(kubernetes.MISSING if not kubernetes.built() else kwok.MISSING, file=sys.stderr)
        return 1
    result: dict[str, object] = {"nodes": given.nodes, **_measure(given.nodes, FAST)}
    if not given.fast_only:
        result["default_rate"] = _measure(given.nodes, None)
    print(json.dumps(result))
    return 0


def _measure(nodes: int, rate: float | None) -> dict[str, float]:
    names = [f"n-{number:04}" for number in range(nodes)]
    with (
        tempfile.TemporaryDirectory(prefix="muster-fill-") as folder,
        kubernetes.cluster(Path(folder)) as found,
        kwok.nodes(found, Path(folder), names, gpus=GPUS),
        kubernetes_stack(Path(folder) / "fill", found, rate) as stack,
    ):
        return asyncio.run(_phases(stack.server, nodes * GPUS))


async def _phases(server: str, gpus: int) -> dict[str, float]:
    figures: dict[str, float] = {}
    async with Muster(server) as muster, following(muster) as running:
        for name, deserved in (("a", 0), ("b", gpus), ("c", 0)):
            await muster.projects.create(name, quotas=[pool_quota("default", deserved)])
        figures["fill_s"] = await _singles(muster, running, "a", gpus)
        figures["reclaim_s"] = await _singles(muster, running, "b", gpus)
        for name in ("b", "c"):
            await muster.projects.set_quota(name, pool_quota("default", gpus // 2))
        figures["gang_reclaim_s"] = await _gang(muster, running, gpus // 2 // GPUS)
        figures["refused_s"] = await _refused(muster, gpus // GPUS + 1)
    return figures


async def _singles(muster: Muster, running: Running, project: str, count: int) -> float:
    """The seconds from the first submission of workloads of one GPU until all of them run."""
    documents = [_training(project, f"{project}-{number}") for number in range(count)]
    began = time.monotonic()
    bulks = [documents[at : at + BULK] for at in range(0, count, BULK)]
    answers = await asyncio.gather(*(muster.submit_many(bulk, project=project) for bulk in bulks))
    ids = {answer for bulk in answers for answer in bulk if isinstance(answer, str)}
    if len(ids) != count:
        raise RuntimeError(f"{count - len(ids)} of {count} submissions were refused")
    await until(lambda: ids <= running.ids, within=PATIENCE)
    return _since(began, f"{count} workloads of {project} run")


async def _gang(muster: Muster, running: Running, workers: int) -> float:
    began = time.monotonic()
    made = await muster.submit(_distributed("gang", workers), project="c")
    await until(lambda: made.id in running.ids, within=PATIENCE)
    return _since(began, f"a gang of {workers} nodes runs")


async def _refused(muster: Muster, workers: int) -> float:
    began = time.monotonic()
    made = await muster.submit(_distributed("too-large", workers), project="c")

    async def reason() -> str:
        try:
            return (await muster.why(made.id)).reason.code
        except NotFound:  # policy has not admitted it yet
            return ""

    await eventually(reason, lambda code: code in {each.value for each in NEVER}, within=PATIENCE, every=0.1)
    return _since(began, f"`why` says that a gang of {workers} nodes never fits")


def _since(began: float, what: str) -> float:
    seconds = round(time.monotonic() - began, 1)
    print(f"  {what}: {seconds} s", file=sys.stderr, flush=True)
    return seconds


def _training(project: str, name: str) -> str:
    return _document("TrainingWorkload", project, name, ["  gpu: {value: '1'}"])


def _distributed(name: str, workers: int) -> str:
    lines = ["  jobType: PyTorchJob", f"  workers: {{value: {workers}}}", f"  gpuDevices: {{value: {GPUS}}}"]
    return _document("DistributedWorkload", "c", name, lines)


def _document(kind: str, project: str, name: str, fields: Sequence[str]) -> str:
    lines = [
        "apiVersion: run.ai/v2alpha1",
        f"kind: {kind}",
        f"metadata: {{name: {name}, namespace: runai-{project}}}",
        "spec:",
        f"  name: {{value: {name}}}",
        "  image: {value: team/image:1}",
        "  command: {value: python train.py}",
        *fields,
    ]
    return "\n".join([*lines, ""])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="as everywhere: the last line is the object in any case")
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--fast-only", action="store_true", help="without the agent's default rate of API calls")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
