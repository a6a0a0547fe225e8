"""What a million lives leave behind: `uv run python tests/benchmarks/ageing.py --json [--lives 100000]`.

On a real PostgreSQL and a real Kafka. `tests/ageing/driver.py` writes whole lives through the services' own code,
spread over a month of its own clock, with the services' upkeep in between. At a quarter, half and all of them the
services run as processes, and these are measured:

- tables_gib (without the archive: archive_gib), largest_mib (of each of the largest tables, indexes included)
- scheduler_rss_mib, and rebuild_s (from a scheduler's start until it decides, lease included); what ended has left its
  memory before, as it does within minutes
- list_p99_ms (the worst of four lists over REST that an index answers; list_worst names it), scan_p99_ms (a list by a
  part of a name, which reads the table), count_ms (the slowest of as many counts)
- archived, and found of 1,000 archived ids that are drawn by chance

Then once live on an agent in this process, with 1 % failures, while a tenth of all lives is overdue for removal. For
the first two minutes 300 workloads a second come in bulk: burst_placed_per_s and deleted_per_s (the slowest of:
archived by submission, events removed by submission and by the scheduler). Then 12 a second come for --live-minutes:
placed_per_s, and oldest_overdue_s at the end. growth_per_million_mib: what the scheduler's memory grows from the first
size to the last, for a million lives. Progress goes to standard error; the last line is one object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import asyncpg
import httpx

from muster_chassis.broker import Broker
from muster_chassis.topic_admin import create_topics
from muster_chassis.topics import FIXED, assignments, reports
from muster_client import Muster
from muster_stack.embedded import EmbeddedKafka, EmbeddedPostgres
from muster_stack.postgres import DATABASE
from tests.ageing.driver import PROJECT, Road, under
from tests.ageing.live_agent import LiveAgent, living_agent
from tests.ageing.reports import CLUSTER, Clock
from tests.support.figures import spread
from tests.support.identities import environment
from tests.support.scheduling import free_port

BATCH: Final = 500
HOUSE: Final = 10_000
"""Lives between two rounds of upkeep, at most."""
DAYS: Final = 30.0
OVERDUE: Final = 0.1
DRAWN: Final = 1_000
RATE: Final = 12.0
BURST: Final = 300.0
BURST_SECONDS: Final = 120.0  # upkeep begins within a minute of a start
_BULK: Final = 150
_BACKLOG: Final = 50
"""What is removed within two seconds where more than what has just become due is overdue."""
_PATIENCE: Final = 300.0
_LISTS: Final = (
    "/api/v1/workloads?limit=50",
    "/api/v1/workloads?limit=50&filterBy=phase==Failed",
    f"/api/v1/workloads?limit=50&filterBy=projectName=={PROJECT}&sortBy=name&sortOrder=asc",
    "/api/v1/workloads?limit=50&sortBy=createdAt&sortOrder=asc",
)
_SCAN: Final = "/api/v1/workloads?limit=50&filterBy=name=@life-1"
_COUNT: Final = "/api/v1/workloads/count"
_TEXT: Final = (
    "apiVersion: run.ai/v2alpha1\nkind: TrainingWorkload\nmetadata: {{name: {name}}}\nspec:\n"
    "  image: {{value: none}}\n  gpu: {{value: '0.25'}}\n  command: {{value: 'true'}}\n"
    "  backoffLimit: {{value: 0}}\n"
)
_NOTHING_IS_DUE: Final = {"MUSTER_RETENTION_SECONDS": str(90 * 24 * 3600)}
"""The driver's clock is behind the real one: by that, nearly everything would be archived while lists are measured."""
_ASKED: Final = 200  # times of each list
_WARM: Final = 10  # answers of each path before those that are timed
_TABLES: Final = """
SELECT n.nspname || '.' || c.relname AS name, pg_total_relation_size(c.oid) AS bytes
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname IN ('submission', 'policy', 'scheduler') ORDER BY bytes DESC
"""
_ARCHIVE: Final = "submission.archive"
_LARGEST: Final = 24
# What is still to be removed, as a negative number, because rows that were marked as done go as well.
_EVENTS_LEFT: Final = (
    "SELECT -count(*) FROM {}.ended_aggregates WHERE NOT outbox_removed AND at < now() - interval '7 days'"
)
_DONE: Final = {
    "archived": "SELECT count(*) FROM submission.archive",
    "submission": _EVENTS_LEFT.format("submission"),
    "scheduler": _EVENTS_LEFT.format("scheduler"),
}
_OLDEST: Final = """
SELECT greatest(0, extract(epoch FROM now() - min(at)) - $1)::float8 FROM (
    SELECT min(at) AS at FROM submission.ended_aggregates WHERE NOT outbox_removed
    UNION ALL SELECT min(at) FROM scheduler.ended_aggregates WHERE NOT outbox_removed
    UNION ALL SELECT min(coalesce(finished_at, created_at)) FROM submission.workloads WHERE ended
) AS oldest
"""
_WEEK: Final = 7 * 24 * 3600.0


@dataclass
class Bench:
    """The servers, and processes of services on them."""

    postgres: EmbeddedPostgres
    broker: EmbeddedKafka
    folder: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)

    def url(self, role: str) -> str:
        """The address of the database for a service's role."""
        return self.postgres.server.url(role, DATABASE)

    @contextmanager
    def running(self, *services: str, **settings: str) -> Iterator[None]:
        """Services as processes, for the time of the block. settings: variables of their environment."""
        try:
            for service in services:
                self._start(service, settings)
            yield
        finally:
            for process in self.processes.values():
                process.terminate()
            for process in self.processes.values():
                with suppress(subprocess.TimeoutExpired):
                    process.wait(20)
                process.kill()
            self.processes.clear()

    def _start(self, service: str, settings: dict[str, str]) -> None:
        for name in (service, f"{service}.rest"):
            self.addresses.setdefault(name, f"127.0.0.1:{free_port()}")
        own = {
            "MUSTER_INSTANCE": service,
            "MUSTER_KAFKA_BOOTSTRAP": self.broker.bootstrap,
            "MUSTER_KAFKA_SECURITY": "plaintext",
            "MUSTER_METRICS_LISTEN": "127.0.0.1:0",
            "MUSTER_DATABASE_URL": self.url(service),
            "MUSTER_DATABASE_SCHEMA": service,
            "MUSTER_GRPC_LISTEN": self.addresses[service],
        }
        if service == "submission":
            own |= {"MUSTER_AUTH": "off", "MUSTER_REST_LISTEN": self.addresses[f"{service}.rest"]}
        with self.log(service).open("ab") as output:
            self.processes[service] = subprocess.Popen(
                [sys.executable, "-m", f"muster_{service}"],
                env=os.environ | environment() | own | settings,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def log(self, service: str) -> Path:
        """Where a service writes."""
        return self.folder / f"{service}.log"

    async def says(self, service: str, what: str, times: int) -> None:
        """Waits until its log has a text so often."""
        deadline = time.monotonic() + _PATIENCE
        while self.log(service).read_text(errors="replace").count(what) < times:
            if self.processes[service].poll() is not None or time.monotonic() > deadline:
                last = self.log(service).read_text(errors="replace").splitlines()[-5:]
                raise RuntimeError("\n".join([f"{service} did not say {what!r}; the last lines of its log:", *last]))
            await asyncio.sleep(0.05)

    def rss_mib(self, service: str) -> float:
        """The memory of a process."""
        pages = int(Path(f"/proc/{self.processes[service].pid}/statm").read_text().split()[1])
        return round(pages * 4096 / (1 << 20), 1)


async def measure(lives: int, live_minutes: float) -> dict[str, Any]:
    """Everything."""
    with (
        tempfile.TemporaryDirectory(prefix="muster-ageing-") as folder,
        EmbeddedPostgres(durable=False) as postgres,
        EmbeddedKafka() as broker,
    ):
        bench = Bench(postgres, broker, Path(folder))
        bus = broker.cluster_id
        await create_topics(Broker(broker.bootstrap), [*FIXED, assignments(CLUSTER), reports(CLUSTER)], client="bench")
        overdue = int(lives * OVERDUE)
        # The last of them ended a little over a week ago, when the live part begins.
        clock = Clock(datetime.now(UTC) - timedelta(days=DAYS + 7.5))
        step = timedelta(days=DAYS) / (lives / BATCH)
        every = min(HOUSE, max(1, lives // 20 // BATCH) * BATCH)
        sizes, road, made = [], None, 0
        for part in (0.25, 0.5, 1.0):
            with under(clock):
                road = await Road.open(bench.url, clock, bus, road)
                while made < lives * part:
                    await _age(road, step, house=made % every == 0 and made < lives - overdue)
                    made += BATCH
                    if made % every == 0:
                        _say(f"{made} lives")
                await road.retire()
                await road.published()
                await road.close()
            sizes.append(await _size(bench, made, road.ids))
            _say(json.dumps(sizes[-1]))
        first, last = sizes[0], sizes[-1]
        grown = (last["scheduler_rss_mib"] - first["scheduler_rss_mib"]) / max(1, last["lives"] - first["lives"])
        result = {**last, "sizes": sizes, "growth_per_million_mib": round(grown * 1_000_000, 1)}
        if live_minutes:
            result |= await _live(bench, live_minutes * 60)
        return result


async def _age(road: Road, step: timedelta, *, house: bool) -> None:
    began = road.clock.now
    await road.lives(BATCH)
    if house:
        await road.keep_house()
    road.clock.now = max(road.clock.now, began + step)


async def _size(bench: Bench, lives: int, ids: list[str]) -> dict[str, Any]:
    """The figures of one size. Rows that the driver has left behind are taken up first, as a day would do."""
    connection = await asyncpg.connect(bench.postgres.server.url("muster_admin", DATABASE))
    try:
        await connection.execute("VACUUM ANALYZE")
        await connection.execute("CHECKPOINT")  # what the driver wrote in minutes, a real stack writes in weeks
        sizes = {row["name"]: row["bytes"] for row in await connection.fetch(_TABLES)}
        archived = await connection.fetchval(_DONE["archived"])
        kept = {str(row["id"]) for row in await connection.fetch("SELECT id FROM submission.workloads")}
    finally:
        await connection.close()
    tables = {name: size for name, size in sizes.items() if not name.startswith(_ARCHIVE)}
    said = bench.log("scheduler").read_text().count("decides from now on") if bench.log("scheduler").exists() else 0
    began = time.monotonic()
    with bench.running("scheduler", **_NOTHING_IS_DUE):
        await bench.says("scheduler", "decides from now on", said + 1)
        rebuild = time.monotonic() - began
        await asyncio.sleep(3)
        rss = bench.rss_mib("scheduler")
    with bench.running("submission", **_NOTHING_IS_DUE):
        asked = await _ask(bench, [one for one in ids if one not in kept])
    return {
        "lives": lives,
        "tables_gib": round(sum(tables.values()) / (1 << 30), 3),
        "archive_gib": round((sum(sizes.values()) - sum(tables.values())) / (1 << 30), 3),
        "largest_mib": {name: round(size / (1 << 20), 1) for name, size in list(tables.items())[:_LARGEST]},
        "scheduler_rss_mib": rss,
        "rebuild_s": round(rebuild, 2),
        "archived": archived,
        **asked,
    }


async def _ask(bench: Bench, archived: list[str]) -> dict[str, Any]:
    """The figures of lists and counts, and how many of the drawn archived ids are found."""
    async with httpx.AsyncClient(base_url=f"http://{bench.addresses['submission.rest']}", timeout=30) as client:
        deadline = time.monotonic() + _PATIENCE
        while True:
            with suppress(httpx.HTTPError):
                if (await client.get(_LISTS[0])).status_code == httpx.codes.OK:
                    break
            if time.monotonic() > deadline:
                raise RuntimeError(f"submission does not answer; its log is {bench.log('submission')}")
            await asyncio.sleep(0.2)
        for path in (*_LISTS, _SCAN, _COUNT) * _WARM:  # users ask a service that runs, not one that has just started
            await _time(client, path)
        times = {path: spread([await _time(client, path) for _ in range(_ASKED)]) for path in (*_LISTS, _SCAN, _COUNT)}
        worst = max(_LISTS, key=lambda path: times[path]["p99"])
        dice = random.Random(len(archived))
        drawn = dice.sample(archived, min(DRAWN, len(archived)))
        found = 0
        async with Muster(bench.addresses["submission"]) as muster:
            for one in drawn:
                shown = await muster.get(one)
                found += shown.id == one and shown.name.startswith("life-")
        return {
            "list_p99_ms": times[worst]["p99"],
            "list_worst": worst,
            "scan_p99_ms": times[_SCAN]["p99"],
            "count_ms": times[_COUNT]["max"],
            "found": found,
        }


async def _time(client: httpx.AsyncClient, path: str) -> float:
    """How long one answer took, in milliseconds."""
    began = time.monotonic()
    answer = await client.get(path)
    if answer.status_code != httpx.codes.OK:
        raise RuntimeError(f"{path}: {answer.status_code} {answer.text}")
    return (time.monotonic() - began) * 1000


async def _live(bench: Bench, seconds: float) -> dict[str, Any]:
    """The live system: work comes, runs and ends, while what is overdue goes."""
    connection = await asyncpg.connect(bench.postgres.server.url("muster_admin", DATABASE))
    try:
        with bench.running("policy", "scheduler", "submission"):
            async with living_agent(bench.broker.bootstrap) as agent, Muster(bench.addresses["submission"]) as muster:
                rates: dict[str, float] = {}
                watching = asyncio.create_task(_watch_removal(connection, rates))
                bulk = await _burst(muster, min(BURST_SECONDS, seconds))
                at_once = agent.ended
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
                await _ended(agent, bulk)
                calm = time.monotonic()
                sent = await _submit(muster, seconds)
                await _ended(agent, bulk + sent)
                took = max(seconds, time.monotonic() - calm)
            oldest = await connection.fetchval(_OLDEST, _WEEK)
    finally:
        await connection.close()
    return {
        "live_submitted": bulk + sent,
        "live_ended": agent.ended,
        "burst_placed_per_s": round(at_once / min(BURST_SECONDS, seconds), 1),
        "placed_per_s": round((agent.ended - bulk) / took, 1),
        "deleted_per_s": round(min(rates.values(), default=0.0), 1),
        "deleted_by_s": {name: round(rate, 1) for name, rate in rates.items()},
        "oldest_overdue_s": round(oldest or 0.0, 1),
    }


async def _watch_removal(connection: asyncpg.Connection, rates: dict[str, float]) -> None:
    """Note the rate of each removal while it is behind: from its first look with progress to its last one."""
    last = {name: await connection.fetchval(query) for name, query in _DONE.items()}
    first: dict[str, tuple[float, int]] = {}
    while True:
        await asyncio.sleep(2)
        for name, query in _DONE.items():
            done, now = await connection.fetchval(query), time.monotonic()
            if done > last[name] + _BACKLOG:
                began, before = first.setdefault(name, (now, done))
                if now > began:
                    rates[name] = (done - before) / (now - began)
            last[name] = done


async def _ended(agent: LiveAgent, runs: int) -> None:
    """Wait until the agent has ended so many runs, for at most a minute: what is missing then shows in the figures."""
    for _ in range(300):
        if agent.ended >= runs:
            return
        await asyncio.sleep(0.2)


async def _burst(muster: Muster, seconds: float) -> int:
    """Submit in bulk at 300 a second."""
    began, number = time.monotonic(), 0
    while time.monotonic() < began + seconds:
        texts = [_TEXT.format(name=f"burst-{number + one}") for one in range(_BULK)]
        for outcome in await muster.submit_many(texts, project=PROJECT):
            if not isinstance(outcome, str):
                raise outcome
        number += _BULK
        await asyncio.sleep(max(0.0, began + number / BURST - time.monotonic()))
    return number


async def _submit(muster: Muster, seconds: float) -> int:
    began, number, calls = time.monotonic(), 0, set[asyncio.Task[Any]]()
    while time.monotonic() < began + seconds:
        call = asyncio.create_task(muster.submit(_TEXT.format(name=f"live-{number}"), project=PROJECT))
        calls.add(call)
        call.add_done_callback(calls.discard)
        number += 1
        await asyncio.sleep(max(0.0, began + number / RATE - time.monotonic()))
    await asyncio.gather(*calls)
    return number


def main() -> int:
    """Runs it and prints the object."""
    given = _arguments()
    began = time.monotonic()
    result = {"cores": os.cpu_count(), **asyncio.run(measure(given.lives, given.live_minutes))}
    result["seconds"] = round(time.monotonic() - began, 1)
    if not given.json:
        print("\n".join(f"{name:24} {value}" for name, value in result.items()))
    print(json.dumps(result))
    return 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="only the JSON object")
    parser.add_argument("--lives", type=int, default=1_000_000)
    parser.add_argument("--live-minutes", type=float, default=10.0, help="0: without the live part")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
