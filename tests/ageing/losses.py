"""`uv run python tests/ageing/losses.py --json`: what a stack loses of Kafka and PostgreSQL, and what becomes of it.

Workloads are deleted and archived, others wait, and some hold devices on agents that start nothing. Then:

1. Kafka is emptied. agreement_s: until each placed workload has its record on its cluster's topic again, and each
   service has handled what the others have published.
2. One partition of muster.submissions is lost while policy is stopped and has not read it (losing.py). partition_s:
   until the loss is counted, and each workload submitted meanwhile has its verdict.
3. Policy is stopped until Kafka has removed records that it lacks, and their workloads are over and archived.
   gaps_listed: those workloads; gaps_left: of them, after `muster dead-letters republish` has closed gaps.
4. A backup is made, --minutes pass in which workloads come and go, and the backup is restored. forgotten: the
   workloads that came meanwhile; named: how many of them the restore has named.

The exit status is 0 only if all that had a place have it still, in their first attempt; what was archived is found and
nothing of it came back; all that was forgotten is named; and no dead letter and no gap is left.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import asyncpg

from muster_client import Muster
from muster_stack.postgres import ADMIN, PostgresServer
from tests.ageing.losing import NODES, Losses, compare, restored, say
from tests.ageing.stage import CLUSTERS
from tests.support.stacks import RunningStack, running_stack

RETENTION: Final = 60.0
_NONE: Final = (
    *("moved", "lost", "revived", "archived_missing", "dead_letters", "gaps", "gaps_left"),
    *("unjudged", "unnamed", "moved_by_restore", "lost_by_restore"),
)


@dataclass(frozen=True, slots=True)
class Kept:
    """What the restore is held against: the attempt of each workload that had a place, and those that came later."""

    places: dict[str, int]
    later: list[str]


def _cluster(name: str) -> str:
    devices = "{count: 8, model: A100-40GB, memory: 40Gi}"
    nodes = [f"  - {{name: {name}-{n}, cpu: 512, memory: 1024Gi, devices: {devices}}}" for n in range(NODES)]
    return "\n".join([f"cluster: {name}", "nodes:", *nodes, ""])


@asynccontextmanager
async def _connected(stack: RunningStack) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(PostgresServer.of(stack.layout).url(ADMIN), command_timeout=60)
    try:
        yield connection
    finally:
        await connection.close()


async def _lose(stack: RunningStack, given: argparse.Namespace, saved: Path) -> tuple[dict[str, Any], Kept]:
    """Play the acts up to the backup and what follows it; the figures, and what the restore is held against."""
    async with _connected(stack) as connection, Muster(stack.server) as muster:
        losses = Losses(stack, muster, connection)
        figures = await losses.empty_kafka(given.archived, given.live, given.placed)
        say(json.dumps(figures))
        figures |= await losses.lose_partition()
        figures |= await losses.outlive_retention()
        figures |= await losses.left()
        say(json.dumps(figures))
        places = await losses.places()
        later = await losses.forget(saved, given.minutes)
        return figures, Kept(places, later)


async def _compared(stack: RunningStack, kept: Kept, named: str) -> dict[str, Any]:
    async with _connected(stack) as connection, Muster(stack.server) as muster:
        return await compare(Losses(stack, muster, connection), kept.places, kept.later, named)


def main() -> int:
    """Run all acts and print the object."""
    given = _arguments()
    os.environ["MUSTER_RETENTION_SECONDS"] = str(RETENTION)
    folder = Path(tempfile.mkdtemp(prefix="muster-losses-"))
    folder.chmod(0o711)
    clusters = {name: _cluster(name) for name in CLUSTERS}
    with running_stack(folder / "stack", clusters, hold=True) as stack:
        figures, kept = asyncio.run(_lose(stack, given, folder / "saved"))
        named = restored(stack, folder / "saved")
        figures |= asyncio.run(_compared(stack, kept, named))
    bad = any(figures[name] for name in _NONE)
    if bad:
        say(f"logs are in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(figures))
    return 1 if bad else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="as everywhere: the last line is the object in any case")
    parser.add_argument("--archived", type=int, default=20_000)
    parser.add_argument("--live", type=int, default=20_000)
    parser.add_argument("--placed", type=int, default=2_000)
    parser.add_argument("--minutes", type=float, default=10.0, help="between the backup and its restore")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
