"""`uv run python tests/ageing/losses.py --json`: Kafka comes back empty under a stack that has archived and live work.

Workloads are deleted and archived, others wait, and some hold devices on agents that start nothing. Then Kafka is
emptied. agreement_s: until every record of what is placed stands on its cluster's topic again, and each service has
handled what the others told it. The exit status is 0 only if all who had a place have it still, in their first attempt,
what was archived is found and nothing of it came back, and no dead letter and no gap is left.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import asyncpg
from aiokafka import AIOKafkaConsumer, TopicPartition

from muster.workload.v1 import workload_pb2 as wl
from muster_chassis.topics import assignments
from muster_client import Muster
from muster_client.quotas import pool_quota
from muster_stack.postgres import ADMIN, PostgresServer
from tests.ageing.gauges import lag
from tests.support.stacks import RunningStack, running_stack

RETENTION: Final = 60.0
PATIENCE: Final = 300.0
_PROJECT: Final = "losses"
_BULK: Final = 500
_NODES: Final = 32
_CLUSTERS: Final = ("alpha", "beta")
_NONE: Final = ("moved", "lost", "revived", "archived_missing", "dead_letters", "gaps")
_UNSENT: Final = """
SELECT coalesce((SELECT max(id) FROM {schema}.outbox WHERE lane = 0), 0) > coalesce((
    SELECT max(p.last) FROM {schema}.relay_positions p JOIN {schema}.bus_identity b ON b.cluster_id = p.bus
    WHERE p.lane = 0), 0)
"""
_TEXT: Final = """
apiVersion: run.ai/v2alpha1
kind: TrainingWorkload
metadata: {{name: {name}, namespace: runai-losses}}
spec:
  image: {{value: none}}
  gpu: {{value: '{gpu}'}}
  command: {{value: 'true'}}
"""


def _cluster(name: str) -> str:
    devices = "{count: 8, model: A100-40GB, memory: 40Gi}"
    nodes = [f"  - {{name: {name}-{n}, cpu: 512, memory: 1024Gi, devices: {devices}}}" for n in range(_NODES)]
    return "\n".join([f"cluster: {name}", "nodes:", *nodes, ""])


class Losses:
    """One run."""

    def __init__(self, stack: RunningStack, muster: Muster, connection: asyncpg.Connection) -> None:
        self._stack = stack
        self._muster = muster
        self._connection = connection

    async def run(self, archived: int, live: int, placed: int) -> dict[str, Any]:
        """The figures."""
        devices = _NODES * 8 * len(_CLUSTERS)
        await self._muster.projects.create(_PROJECT, quotas=[pool_quota("default", devices)])
        gone = await self._submit("old", archived, gpu="64")  # no node has as many devices: they wait until deleted
        for at in range(0, len(gone), 50):
            await asyncio.gather(*(self._muster.delete(one) for one in gone[at : at + 50]))
        await self._until(lambda: self._count("SELECT count(*) FROM submission.archive", archived), "archived")
        _say(f"{archived} workloads are archived")
        holding = await self._submit("placed", placed, gpu="0.25")
        await self._submit("waits", live - placed, gpu="64")
        await self._until(lambda: self._all_placed(placed), "placed")
        before = await self._places()
        _say(f"{placed} workloads are placed, {live - placed} wait; Kafka is emptied")
        began = time.monotonic()
        await asyncio.to_thread(self._stack.stack.wipe_kafka)
        await self._until(lambda: self._recorded(holding), "recorded on the assignment topics")
        await self._until(self._quiet, "handled")
        seconds = round(time.monotonic() - began, 1)
        after = await self._places()
        letters = await self._muster.dead_letters.list(include_done=True)
        gaps = await self._muster.dead_letters.gaps()
        found = [await self._muster.get(one) for one in gone[:: max(1, len(gone) // 200)]]
        return {
            "archived": await self._connection.fetchval("SELECT count(*) FROM submission.archive"),
            "live": live,
            "placed": len(after),
            "agreement_s": seconds,
            "moved": sum(before[one] != after.get(one) for one in before),
            "lost": len(before.keys() - after.keys()),
            "revived": await self._connection.fetchval(
                "SELECT count(*) FROM scheduler.workloads w JOIN submission.archive a ON a.id = w.id "
                "WHERE w.phase NOT IN ('Deleted', 'Completed', 'Failed')"
            ),
            "archived_missing": sum(one.phase != wl.PHASE_DELETED for one in found),
            "dead_letters": letters.total,
            "gaps": gaps.total,
        }

    async def _submit(self, prefix: str, count: int, gpu: str) -> list[str]:
        made = []
        for at in range(0, count, _BULK):
            texts = [_TEXT.format(name=f"{prefix}-{n}", gpu=gpu) for n in range(at, min(count, at + _BULK))]
            for outcome in await self._muster.submit_many(texts, project=_PROJECT):
                if isinstance(outcome, str):
                    made.append(outcome)
                else:
                    raise outcome
        return made

    async def _places(self) -> dict[str, int]:
        """Those that hold devices, and in which attempt."""
        rows = await self._connection.fetch(
            "SELECT DISTINCT w.id::text AS id, w.attempt FROM scheduler.workloads w "
            "JOIN scheduler.replicas r ON r.workload = w.id"
        )
        return {row["id"]: row["attempt"] for row in rows}

    async def _count(self, sql: str, wanted: int) -> bool:
        found: int = await self._connection.fetchval(sql)
        return found >= wanted

    async def _all_placed(self, placed: int) -> bool:
        return len(await self._places()) >= placed

    async def _recorded(self, workloads: Sequence[str]) -> bool:
        """Whether the topics of the clusters have a record of each, and no other."""
        last: dict[str, bool] = {}
        consumer = AIOKafkaConsumer(**self._stack.kafka, isolation_level="read_committed", enable_auto_commit=False)
        await consumer.start()
        try:
            partitions = [TopicPartition(assignments(name).name, 0) for name in _CLUSTERS]
            ends = await consumer.end_offsets(partitions)
            consumer.assign(partitions)
            await consumer.seek_to_beginning(*partitions)
            deadline = time.monotonic() + 20
            while any([await consumer.position(tp) < end for tp, end in ends.items()]) and time.monotonic() < deadline:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    last |= {(record.key or b"").decode(): record.value is not None for record in records}
        finally:
            await consumer.stop()
        return {one for one, there in last.items() if there} == set(workloads)

    async def _quiet(self) -> bool:
        """Whether every record is handled and every outbox is published."""
        if await lag(self._stack.kafka, self._connection):
            return False
        unsent = [
            await self._connection.fetchval(_UNSENT.format(schema=schema))
            for schema in ("submission", "policy", "scheduler")
        ]
        return not any(unsent)

    async def _until(self, look: Any, what: str) -> None:
        deadline, trouble = time.monotonic() + PATIENCE, ""
        while time.monotonic() < deadline:
            try:
                if await look():
                    return
            except Exception as error:  # noqa: BLE001 - Kafka is just coming back
                trouble = repr(error)
            await asyncio.sleep(1)
        raise TimeoutError(f"not {what} within {PATIENCE:g} s {trouble}")


async def _measure(stack: RunningStack, given: argparse.Namespace) -> dict[str, Any]:
    layout = stack.layout
    server = PostgresServer(
        layout.postgres, sockets=layout.sockets, secrets_file=layout.secrets, log=layout.log("postgres")
    )
    connection = await asyncpg.connect(server.url(ADMIN), command_timeout=60)
    try:
        async with Muster(stack.server) as muster:
            return await Losses(stack, muster, connection).run(given.archived, given.live, given.placed)
    finally:
        await connection.close()


def main() -> int:
    """Runs it and prints the object."""
    given = _arguments()
    os.environ["MUSTER_RETENTION_SECONDS"] = str(RETENTION)
    folder = Path(tempfile.mkdtemp(prefix="muster-losses-"))
    folder.chmod(0o711)
    clusters = {name: _cluster(name) for name in _CLUSTERS}
    with running_stack(folder / "stack", clusters, hold=True) as stack:
        figures = asyncio.run(_measure(stack, given))
    bad = any(figures[name] for name in _NONE)
    if bad:
        _say(f"logs are in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(figures))
    return 1 if bad else 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="as everywhere: the last line is the object in any case")
    parser.add_argument("--archived", type=int, default=20_000)
    parser.add_argument("--live", type=int, default=20_000)
    parser.add_argument("--placed", type=int, default=2_000)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
