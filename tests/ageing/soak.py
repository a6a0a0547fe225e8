"""`make soak MINUTES=60`: a stack under steady load, and what of it grows.

20 short workloads a second run as processes, one a minute is a gang; watches and lists go on beside it, and every ten
minutes a service is killed, each in its turn. The retention is five minutes, and so is the archive's. The last line is
one JSON object. Slopes are an hour's, the upper end of what 0.95 of samples say, of the process that grows most; the
first ten minutes of each process are left out. The exit status is 0 only if everything is within its bounds.
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
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import asyncpg

from muster_client import Muster
from muster_client.errors import MusterError, Unavailable
from muster_client.phases import Phase
from muster_client.quotas import pool_quota
from muster_client.words import TERMINAL, phase_of
from muster_stack.errors import StackError
from muster_stack.postgres import ADMIN, PostgresServer
from tests.ageing.gauges import Gauges, lag, settled, stack_services
from tests.ageing.slopes import growth, slope
from tests.chaos import checker, complaints, journals, killer
from tests.chaos.checker import Entry
from tests.chaos.journals import Journals
from tests.support.stacks import RunningStack, running_stack

RETENTION: Final = 300.0
WARM: Final = 600.0
KILL_EVERY: Final = 600.0
SETTLED: Final = 1200.0
"""Seconds after which tables and topics have reached their size."""
SPAN: Final = 300.0
KILLED: Final = ("submission", "policy", "scheduler", "telemetry", "agent-alpha", "agent-beta")
BOUNDS: Final = {"rss_slope_mib_h": 15.0, "fd_slope_h": 2.0, "threads_slope_h": 1.0}
MOST_GROWTH: Final = 0.10
_NONE: Final = ("lag_end", "lost", "doubled", "complaints", "errors")
_BY_THEMSELVES: Final = ("submission.audit",)  # kept as long as auditors want, whatever the retention is
_PROJECT: Final = "soak"
_SAMPLE: Final = 10.0
_LAG_LOOKS: Final = 10
_SHORT: Final = "sleep 0.2"
_PATIENCE: Final = 120.0
_CLUSTER: Final = """
cluster: {name}
nodes:
  - {{name: {name}-1, cpu: 256, memory: 512Gi, devices: {{count: 8, model: A100-40GB, memory: 40Gi}}}}
"""
CLUSTERS: Final = {name: _CLUSTER.format(name=name) for name in ("alpha", "beta")}
_TRAINING: Final = """
apiVersion: run.ai/v2alpha1
kind: TrainingWorkload
metadata: {{name: {name}, namespace: runai-soak}}
spec:
  image: {{value: none}}
  gpu: {{value: '0.25'}}
  command: {{value: '{command}'}}
"""
_GANG: Final = """
apiVersion: run.ai/v2alpha1
kind: DistributedWorkload
metadata: {{name: {name}, namespace: runai-soak}}
spec:
  jobType: PyTorchJob
  workers: {{value: 2}}
  image: {{value: none}}
  gpu: {{value: '0.25'}}
  command: {{value: '{command}'}}
"""


@dataclass
class Soak:
    """One run."""

    stack: RunningStack
    seconds: float
    rate: float
    gauges: Gauges = field(default_factory=Gauges)
    acknowledged: dict[str, str] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    entries: dict[tuple[str, str, int], Entry] = field(default_factory=dict)
    lists: int = 0
    kills: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)  # calls that were answered with an error that is none of theirs
    lag_end: int = 0
    journals: list[Journals] = field(init=False)

    def __post_init__(self) -> None:
        self.journals = [Journals(self.stack.layout.agent(name)) for name in CLUSTERS]

    async def run(self) -> None:
        """All of it; afterwards the figures are there."""
        async with Muster(self.stack.server) as muster:
            await _insist(lambda: muster.projects.create(_PROJECT, quotas=[pool_quota("default", 16)]))
            beside = [
                asyncio.create_task(self._watch(muster)),
                asyncio.create_task(self._watch_plainly()),
                asyncio.create_task(self._list(muster)),
                asyncio.create_task(self._measure()),
                asyncio.create_task(self._kill()),
                asyncio.create_task(self._say()),
            ]
            try:
                await self._submit(muster)
                await self._wait_for_the_last(muster)
            finally:
                for task in beside:
                    task.cancel()
                await asyncio.gather(*beside, return_exceptions=True)
            self.look_at_journals()
            connection = await self._connected()
            try:
                # What runs reports on, so that some records are always on their way: the lowest of some looks counts.
                self.lag_end = min([await lag(self.stack.kafka, connection) for _ in range(_LAG_LOOKS)])
            finally:
                await connection.close()

    async def _submit(self, muster: Muster) -> None:
        loop = asyncio.get_running_loop()
        began, number, gangs = loop.time(), 0, 0
        calls = set[asyncio.Task[None]]()
        while (now := loop.time()) < began + self.seconds:
            gang = now - began > 60.0 * gangs
            gangs += gang
            call = asyncio.create_task(self._one(muster, number, gang=gang))
            calls.add(call)
            call.add_done_callback(calls.discard)
            number += 1
            await asyncio.sleep(max(0.0, began + number / self.rate - loop.time()))
        await asyncio.gather(*calls)

    async def _one(self, muster: Muster, number: int, *, gang: bool) -> None:
        name = f"{'gang' if gang else 'job'}-{number}"
        text = (_GANG if gang else _TRAINING).format(name=name, command=_SHORT)
        key = f"soak-{number}"
        try:
            made = await _insist(lambda: muster.submit(text, project=_PROJECT, key=key))
        except MusterError as error:
            self.errors.append(f"{name}: {type(error).__name__}: {error}")
        else:
            self.acknowledged[made.id] = name

    async def _wait_for_the_last(self, muster: Muster) -> None:
        """What the watch has not told, because it was cut while a service was away, is asked for."""
        deadline = time.monotonic() + _PATIENCE
        while (missing := self.acknowledged.keys() - self.ended) and time.monotonic() < deadline:
            for workload in sorted(missing):
                with suppress(MusterError):
                    if phase_of(await muster.get(workload)) in TERMINAL:
                        self.ended.add(workload)
            await asyncio.sleep(2.0)

    async def _watch(self, muster: Muster) -> None:
        while True:
            with suppress(MusterError):
                async for item in muster.watch(project=_PROJECT):
                    if item.workload is not None and phase_of(item.workload) in TERMINAL:
                        self.ended.add(item.workload.id)
            await asyncio.sleep(1.0)

    async def _watch_plainly(self) -> None:
        """Four more watches, which a person would have open; what they say is thrown away."""

        async def one() -> None:
            async with Muster(self.stack.server) as muster:
                while True:
                    with suppress(MusterError):
                        async for _ in muster.watch(project=_PROJECT):
                            pass
                    await asyncio.sleep(1.0)

        await asyncio.gather(*(one() for _ in range(4)))

    async def _list(self, muster: Muster) -> None:
        while True:
            with suppress(MusterError):
                async for _ in muster.list(project=_PROJECT, phases=[Phase.RUNNING, Phase.PENDING]):
                    pass
                async for each in muster.archived(project=_PROJECT, page_size=20):
                    await muster.get(each.id)
                    break
                self.lists += 1
            await asyncio.sleep(1.0)

    async def _measure(self) -> None:
        while True:
            with suppress(StackError, asyncpg.PostgresError, OSError):
                await self.gauges.look_at_processes(await asyncio.to_thread(stack_services, self.stack.stack))
                await asyncio.to_thread(self.gauges.look_at_topics, self.stack.layout.kafka)
                await asyncio.to_thread(self.look_at_journals)
                connection = await self._connected()
                try:
                    await self.gauges.look_at_tables(connection)
                finally:
                    await connection.close()
            await asyncio.sleep(_SAMPLE)

    def look_at_journals(self) -> None:
        """Keeps what agents have noted: they keep the last of it only."""
        for journal in self.journals:
            for entry in journal.look():
                self.entries[entry.replica, entry.event, entry.at_ns] = entry

    async def _kill(self) -> None:
        for number in range(10**6):
            await asyncio.sleep(KILL_EVERY)
            victim = KILLED[number % len(KILLED)]
            with suppress(StackError):
                await asyncio.to_thread(self.stack.stack.kill, victim)
                self.kills.append(victim)
                _say(f"  {victim} was killed")

    async def _say(self) -> None:
        began = time.monotonic()
        while True:
            await asyncio.sleep(60)
            _say(
                f"  {(time.monotonic() - began) / 60:.0f} min: {len(self.acknowledged)} acknowledged, "
                f"{len(self.acknowledged.keys() - self.ended)} not ended"
            )

    async def _connected(self) -> asyncpg.Connection:
        server = PostgresServer.of(self.stack.layout)
        return await asyncpg.connect(server.url(ADMIN), timeout=10, command_timeout=60)


async def _insist(call: Any) -> Any:
    """Repeats a call while nothing answers; it has one key."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return await call()
        except Unavailable:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.5)


def judged(soak: Soak) -> checker.Verdict:
    """Judge the journals and logs, once the stack is down.

    An agent keeps the journals of its last replicas only: one whose end was cut away between two looks says nothing.
    """
    layout = soak.stack.layout
    soak.look_at_journals()  # replicas that still ran at the last look have ended with the stack
    ended = {entry.replica for entry in soak.entries.values() if entry.event == "gone"}
    still = {entry.replica for name in CLUSTERS for entry in journals.read_state_folder(layout.agent(name))}
    whole = ended | still
    return checker.judge(
        checker.History(
            journal=[entry for entry in soak.entries.values() if entry.replica in whole],
            acknowledged=frozenset(),
            last_phase={},
            complaints=complaints.read(layout.logs),
            marked_processes=[f"process {pid} of {replica}" for pid, replica in killer.marked(layout.key)],
        )
    )


def summary(soak: Soak, verdict: checker.Verdict) -> dict[str, Any]:
    """The figures. A process counts once it has lived so long that its slope says something."""
    found: dict[str, Any] = {}
    worst: dict[str, str] = {}
    for figure, which in (("rss_slope_mib_h", "rss_mib"), ("fd_slope_h", "fds"), ("threads_slope_h", "threads")):
        slopes = {
            life.part: made.upper
            for life in soak.gauges.lives.values()
            if life.rss_mib[-1][0] - life.began > 2 * WARM and (made := slope(settled(life, which, WARM))) is not None
        }
        if slopes:
            worst[figure] = max(slopes, key=slopes.__getitem__)
            found[figure] = round(slopes[worst[figure]], 2)
        else:
            found[figure] = None
    total = _total(soak.gauges.rows)
    rows, topics = slope([one for one in total if one[0] >= _settled_at(soak)]), slope(soak.gauges.topics_mib)
    return {
        "workloads": len(soak.acknowledged),
        **found,
        "of": worst,
        "table_slope_rows_h": None if rows is None else round(rows.value),
        "topic_slope_mib_h": None if topics is None else round(topics.value, 1),
        "table_growth": round(_growth(soak, total), 3),
        "topic_growth": round(_growth(soak, soak.gauges.topics_mib), 3),
        "lag_end": soak.lag_end,
        "lost": len(soak.acknowledged.keys() - soak.ended),
        "doubled": len(verdict.duplicate_starts) + len(verdict.double_allocated),
        "complaints": len(verdict.complaints),
        "errors": len(soak.errors),
        "kills": soak.kills,
        "lists": soak.lists,
    }


def _settled_at(soak: Soak) -> float:
    began = min((life.began for life in soak.gauges.lives.values()), default=0.0)
    return began + SETTLED


def _growth(soak: Soak, samples: list[tuple[float, float]]) -> float:
    return growth(samples, _settled_at(soak), SPAN) if samples else 0.0


def _total(rows: Mapping[str, list[tuple[float, float]]]) -> list[tuple[float, float]]:
    """Rows of all tables together, look by look."""
    looks: dict[float, float] = {}
    for table, samples in rows.items():
        if table in _BY_THEMSELVES:
            continue
        for at, value in samples:
            looks[at] = looks.get(at, 0.0) + value
    return sorted(looks.items())


def bad(figures: Mapping[str, Any]) -> list[str]:
    """What is not within its bounds."""
    said = [
        f"{name} of {figures['of'].get(name)} is {figures[name]}: less than {bound} is allowed"
        for name, bound in BOUNDS.items()
        if figures[name] is not None and figures[name] >= bound
    ]
    said += [f"{name} is {figures[name]}" for name in ("table_growth", "topic_growth") if figures[name] > MOST_GROWTH]
    said += [f"{name} is {figures[name]}" for name in _NONE if figures[name]]
    return said


def main() -> int:
    """Runs it and prints the object."""
    given = _arguments()
    kept = {"MUSTER_RETENTION_SECONDS": str(RETENTION), "MUSTER_ARCHIVE_DAYS": str(RETENTION / 86400)}
    os.environ.update(kept)
    folder = Path(tempfile.mkdtemp(prefix="muster-soak-"))
    folder.chmod(0o711)
    _say(f"soak: {given.minutes:g} minutes of {given.rate:g} a second in {folder}")
    with running_stack(folder / "stack", CLUSTERS) as stack:
        soak = Soak(stack, given.minutes * 60, given.rate)
        asyncio.run(soak.run())
    verdict = judged(soak)
    figures = summary(soak, verdict)
    said = [*bad(figures), *soak.errors, *verdict.duplicate_starts, *verdict.double_allocated, *verdict.complaints]
    for one in said[:50]:
        _say(f"  {one}")
    (folder / "gauges.json").write_text(json.dumps(_kept(soak)))
    if said or given.keep:
        _say(f"logs and all samples are in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(figures))
    return 1 if said else 0


def _kept(soak: Soak) -> dict[str, Any]:
    lives = [
        {"part": life.part, "began": life.began, "rss_mib": life.rss_mib, "fds": life.fds, "threads": life.threads}
        for life in soak.gauges.lives.values()
    ]
    return {"lives": lives, "rows": soak.gauges.rows, "topics_mib": soak.gauges.topics_mib}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=20.0, help="workloads a second")
    parser.add_argument("--keep", action="store_true", help="keep the folder also after a good run")
    return parser.parse_args()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
