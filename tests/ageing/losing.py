"""What a stack loses: all of Kafka, a partition, records that retention removes, the last minutes of PostgreSQL.

Called by losses.py. Each act returns its figures.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, Final

import httpx

from muster.workload.v1 import workload_pb2 as wl
from muster_chassis.topics import SUBMISSIONS
from muster_client.quotas import pool_quota
from muster_stack.backup import backup, restore
from muster_stack.commands import end, keeper_command, start_detached
from tests.ageing.stage import CLUSTERS, PROJECT, Stage
from tests.support.removing import remove_records
from tests.support.stacks import RunningStack

NODES: Final = 32
LATE: Final = 300
OVER: Final = 100
_LOST: Final = "muster_records_lost_total"
_READ: Final = """
SELECT count(*) = $2 FROM scheduler.seen_versions
WHERE topic = 'muster.submissions' AND aggregate = ANY($1) AND version = $3
"""
_UNJUDGED: Final = "SELECT count(*) FROM submission.workloads WHERE id = ANY($1::uuid[]) AND verdict = 0"
_KNOWN: Final = "SELECT count(*) FROM submission.workloads WHERE id = ANY($1::uuid[])"
_KEPT: Final = "SELECT count(*) FROM submission.outbox WHERE aggregate = ANY($1::text[])"


class Losses(Stage):
    """The acts, in their order."""

    async def empty_kafka(self, archived: int, live: int, placed: int) -> dict[str, Any]:
        """Empty Kafka under archived and live workloads; return the figures."""
        devices = NODES * 8 * len(CLUSTERS)
        await self.muster.projects.create(PROJECT, quotas=[pool_quota("default", devices)])
        gone = await self.submit("old", archived, gpu="64")  # no node has as many devices: they wait until deleted
        for at in range(0, len(gone), 50):
            await asyncio.gather(*(self.muster.delete(one) for one in gone[at : at + 50]))
        await self.until(lambda: self.count("SELECT count(*) FROM submission.archive", archived), "archived")
        say(f"{archived} workloads are archived")
        holding = await self.submit("placed", placed, gpu="0.25")
        await self.submit("waits", live - placed, gpu="64")
        await self.until(lambda: self._all_placed(placed), "placed")
        before = await self.places()
        say(f"{placed} workloads are placed, {live - placed} wait; Kafka is emptied")
        began = time.monotonic()
        await asyncio.to_thread(self.stack.stack.wipe_kafka)
        await self.until(lambda: self.recorded(holding), "recorded on the assignment topics")
        await self.until(self.quiet, "handled")
        seconds = round(time.monotonic() - began, 1)
        after = await self.places()
        found = [await self.muster.get(one) for one in gone[:: max(1, len(gone) // 200)]]
        return {
            "archived": await self.connection.fetchval("SELECT count(*) FROM submission.archive"),
            "live": live,
            "placed": len(after),
            "agreement_s": seconds,
            "moved": sum(before[one] != after.get(one) for one in before),
            "lost": len(before.keys() - after.keys()),
            "revived": await self.connection.fetchval(
                "SELECT count(*) FROM scheduler.workloads w JOIN submission.archive a ON a.id = w.id "
                "WHERE w.phase NOT IN ('Deleted', 'Completed', 'Failed')"
            ),
            "archived_missing": sum(one.phase != wl.PHASE_DELETED for one in found),
        }

    async def left(self) -> dict[str, Any]:
        """Return how many dead letters and gaps there are."""
        letters = await self.muster.dead_letters.list(include_done=True)
        return {"dead_letters": letters.total, "gaps": (await self.muster.dead_letters.gaps()).total}

    async def _all_placed(self, placed: int) -> bool:
        return len(await self.places()) >= placed

    async def lose_partition(self) -> dict[str, Any]:
        """Lose a partition of muster.submissions that policy has not read."""
        await self._stop("policy")
        late = await self.submit("late", LATE, gpu="64")
        await self.until(lambda: self._read_by_scheduler(late, 1), "read by the scheduler")
        began = time.monotonic()
        await self._stop("kafka")
        folders = list(self.stack.layout.kafka.rglob(f"{SUBMISSIONS.name}-0"))
        for folder in folders:
            shutil.rmtree(folder)
        await self._kill("kafka")
        await self._kill("policy")
        await self.until(self._loss_counted, "counted as lost")
        await self.until(lambda: self._judged(late), "judged")
        await self.until(self.quiet, "handled")
        return {
            "partition_s": round(time.monotonic() - began, 1),
            "partitions_lost": len(folders),
            "unjudged": await self.connection.fetchval(_UNJUDGED, late),
        }

    async def outlive_retention(self) -> dict[str, Any]:
        """Keep policy away until Kafka and submission have removed events that it lacks; close the gaps."""
        over = await self.submit("over", OVER, gpu="64")
        await self.until(lambda: self._judged(over), "judged")
        await self.until(self.quiet, "handled")
        await self._stop("policy")
        for one in over:
            await self.muster.suspend(one)
        await self.until(lambda: self._read_by_scheduler(over, 2), "read by the scheduler")
        await remove_records(SUBMISSIONS, **self.stack.kafka)
        for one in over:
            await self.muster.delete(one)
        await self.until(lambda: self._removed(over), "archived and removed from the outbox")
        await self._kill("policy")
        await self.until(lambda: self._listed(over), "listed as gaps")
        listed = (await self.muster.dead_letters.gaps(service="policy")).total
        for gap in (await self.muster.dead_letters.gaps(service="policy")).gaps:
            await self.muster.dead_letters.republish(gap.topic, aggregate=gap.aggregate)
        await self.until(self.quiet, "handled")
        left = (await self.muster.dead_letters.gaps()).total
        return {"gaps_listed": listed, "gaps_left": left}

    async def forget(self, saved: Path, minutes: float) -> list[str]:
        """Make a backup, then submit and delete for so many minutes; the workloads that the backup does not have."""
        if await asyncio.to_thread(backup, saved, data=self.stack.layout.root):
            raise RuntimeError("there is no backup")
        later: list[str] = []
        deadline = time.monotonic() + minutes * 60
        while time.monotonic() < deadline or not later:
            later += await self.submit("later", 50, gpu="0.25")
            await self.muster.delete(later[-1])
            await asyncio.sleep(5)
        return later

    async def _stop(self, part: str) -> None:
        await asyncio.to_thread(self.stack.stack.kill, part, signal.SIGSTOP)

    async def _kill(self, part: str) -> None:
        await asyncio.to_thread(self.stack.stack.kill, part)

    async def _read_by_scheduler(self, workloads: Sequence[str], version: int) -> bool:
        return bool(await self.connection.fetchval(_READ, workloads, len(workloads), version))

    async def _judged(self, workloads: Sequence[str]) -> bool:
        return not await self.connection.fetchval(_UNJUDGED, workloads)

    async def _removed(self, workloads: Sequence[str]) -> bool:
        return not await self.connection.fetchval(_KEPT, workloads)

    async def _listed(self, workloads: Sequence[str]) -> bool:
        return bool((await self.muster.dead_letters.gaps(service="policy")).total >= len(workloads))

    async def _loss_counted(self) -> bool:
        row = (await asyncio.to_thread(self.stack.stack.status))["services"]["submission"]
        async with httpx.AsyncClient() as client:
            text = (await client.get(f"http://{row['metrics']}/metrics")).text
        return any(line.startswith(f"{_LOST}{{") and not line.endswith(" 0.0") for line in text.splitlines())


def say(text: str) -> None:
    """Tell a person how far it is."""
    print(text, file=sys.stderr, flush=True)


def restored(stack: RunningStack, saved: Path) -> str:
    """Put the backup in the place of the stack's database and start the stack again; what the restore printed."""
    end(stack.layout)
    told = StringIO()
    with redirect_stdout(told):
        if restore(saved, data=stack.layout.root, yes=True):
            raise RuntimeError("the backup was not restored")
    start_detached(stack.layout, keeper_command(stack.layout, hold=True), seconds=180)
    return (stack.layout.root / "forgotten.txt").read_text() if "forgotten.txt" in told.getvalue() else ""


async def compare(losses: Losses, before: dict[str, int], later: Sequence[str], named: str) -> dict[str, Any]:
    """Return what became of those that had a place when the backup was made, and of those that came later."""
    await losses.until(losses.quiet, "handled")
    after = await losses.places()
    known = await losses.connection.fetchval(
        "SELECT count(*) FROM submission.workloads WHERE id = ANY($1::uuid[])", later
    )
    return {
        "forgotten": len(later) - known,
        "unnamed": sum(one not in named for one in later),
        "moved_by_restore": sum(before[one] != after.get(one) for one in before),
        "lost_by_restore": len(before.keys() - after.keys()),
    }
