"""Measurements of a soak from outside: memory, descriptors, threads, rows of tables, sizes of topics, lag.

The soak calls this module. A restarted process counts as a new process: its pid and its start time identify it.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import asyncpg
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

if TYPE_CHECKING:
    from muster_stack.keeper.control import Stack

_LOOKS: Final = 5
_LOOK_PAUSE: Final = 0.1
_PAGE_MIB: Final = 4096 / (1 << 20)
_SCHEMAS: Final = ("submission", "policy", "scheduler", "telemetry")
_COUNT: Final = """
SELECT n.nspname AS schema, c.relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ANY ($1) AND c.relkind = 'r' ORDER BY 1, 2
"""

Samples = list[tuple[float, float]]


def descriptors(process: Path) -> int:
    """Count the open descriptors of a process, without those that watch a process which is alive.

    An agent has one of these for each replica that runs, so that the number follows the load. One that is left over
    watches a process that has ended, and counts. process: its folder in /proc.
    """
    found = 0
    for descriptor in (process / "fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            watched = str(descriptor.readlink()) == "anon_inode:[pidfd]"
            found += not (watched and _watches_alive(process / "fdinfo" / descriptor.name))
    return found


def _watches_alive(info: Path) -> bool:
    """Whether the process of a pidfd has not ended (proc(5): its Pid is -1 then)."""
    lines = info.read_text().splitlines()
    pid = next((line for line in lines if line.startswith("Pid:")), "Pid: -1")  # its number was given again meanwhile
    return int(pid.removeprefix("Pid:")) > 0


@dataclass(slots=True)
class Life:
    """The samples of one process, with the name of its part and the time of its first sample."""

    part: str
    began: float
    rss_mib: Samples = field(default_factory=list)
    fds: Samples = field(default_factory=list)
    threads: Samples = field(default_factory=list)


@dataclass(slots=True)
class Gauges:
    """All measurements. Times are seconds of the monotonic clock."""

    lives: dict[tuple[int, int], Life] = field(default_factory=dict)
    rows: dict[str, Samples] = field(default_factory=lambda: defaultdict(list))
    topics_mib: Samples = field(default_factory=list)

    async def look_at_processes(self, services: Mapping[str, Mapping[str, Any]]) -> None:
        """Measure every service and agent of a status.

        Of several looks at descriptors within half a second the lowest counts: a file or a folder that is being read is
        open in some of them, a descriptor that leaks in all.
        """
        now = time.monotonic()
        parts = {name: row for name, row in services.items() if row["pid"] and name not in {"kafka", "postgres"}}
        open_now: dict[tuple[int, int], int] = {}
        for look in range(_LOOKS):
            await asyncio.sleep(_LOOK_PAUSE if look else 0.0)
            for row in parts.values():
                with suppress(OSError, ValueError):  # the process has just ended
                    key = row["pid"], row["started"]
                    found = descriptors(Path(f"/proc/{row['pid']}"))
                    open_now[key] = min(found, open_now.get(key, found))
        for part, row in parts.items():
            key = row["pid"], row["started"]
            life = self.lives.setdefault(key, Life(part, now))
            with suppress(OSError, ValueError, IndexError, KeyError):  # the process has just ended
                folder = Path(f"/proc/{row['pid']}")
                life.rss_mib.append((now, int((folder / "statm").read_text().split()[1]) * _PAGE_MIB))
                life.fds.append((now, open_now[key]))
                life.threads.append((now, sum(1 for _ in (folder / "task").iterdir())))

    async def look_at_tables(self, connection: asyncpg.Connection) -> None:
        """Count the rows of every table."""
        now = time.monotonic()
        for table in await connection.fetch(_COUNT, list(_SCHEMAS)):
            count = await connection.fetchval(f'SELECT count(*) FROM {table["schema"]}."{table["name"]}"')  # noqa: S608 - names of tables
            self.rows[f"{table['schema']}.{table['name']}"].append((now, count))

    def look_at_topics(self, folder: Path) -> None:
        """Measure the size of Muster's topics on disk. folder: the data folder of Kafka."""
        size = 0
        for file in folder.rglob("muster.*/*.log"):
            with suppress(OSError):
                size += file.stat().st_size
        self.topics_mib.append((time.monotonic(), size / (1 << 20)))


async def lag(kafka: Mapping[str, Any], connection: asyncpg.Connection) -> int:
    """Return how many records consumers of Muster have not read."""
    return sum((await lags(kafka, connection)).values())


async def lags(kafka: Mapping[str, Any], connection: asyncpg.Connection) -> dict[str, int]:
    """Return how many records each consumer of Muster has not read, where any: by groups and by stored offsets.

    A group is named after the Kafka cluster that it reads. One that is named after an earlier cluster has no members:
    its consumer committed once more before it noticed that the cluster is another one.
    """
    admin, consumer = AIOKafkaAdminClient(**kafka), AIOKafkaConsumer(**kafka)
    await admin.start()
    await consumer.start()
    try:
        positions: dict[tuple[str, TopicPartition], int] = {}
        bus = (await admin.describe_cluster())["cluster_id"]
        for name, _ in await admin.list_consumer_groups():
            if "@" in name and not name.endswith(f"@{bus}"):
                continue
            for tp, offset in (await admin.list_consumer_group_offsets(name)).items():
                positions[name, tp] = offset.offset
        for row in await connection.fetch("SELECT * FROM scheduler.consumer_offsets"):
            positions[row["consumer"], TopicPartition(row["topic"], row["partition"])] = row["next_offset"]
        ends = await consumer.end_offsets({tp for _, tp in positions})
        return {
            f"{name} {tp.topic}/{tp.partition}": ends[tp] - offset
            for (name, tp), offset in positions.items()
            if ends[tp] > offset
        }
    finally:
        await consumer.stop()
        await admin.close()


def stack_services(stack: Stack) -> Mapping[str, Mapping[str, Any]]:
    """Return the parts of the stack from the status of the keeper."""
    services: Mapping[str, Mapping[str, Any]] = stack.status()["services"]
    return services


def settled(life: Life, which: str, warm: float) -> Sequence[tuple[float, float]]:
    """Return the samples of a figure, without those of the first `warm` seconds of the process.

    For descriptors and threads, return the lowest sample of each minute. The number in use varies with the current
    work; a leak raises the lowest sample too.
    """
    samples: Samples = getattr(life, which)
    kept = [(at, value) for at, value in samples if at >= life.began + warm]
    if which == "rss_mib":
        return kept
    minutes: dict[int, tuple[float, float]] = {}
    for at, value in kept:
        minute = int(at // 60)
        if minute not in minutes or value < minutes[minute][1]:
            minutes[minute] = (at, value)
    return list(minutes.values())
