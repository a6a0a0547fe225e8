"""What a large fleet costs: `uv run python tests/benchmarks/scale.py --json` (100,000 GPUs, 1,000,000 waiting).

A fleet that is 95 % full and a queue, written to a real PostgreSQL as the scheduler's own rows and read back by its own
`load`: rebuild_s. Then 200 events a second of virtual time (half submissions; the rest endings and reports of what was
placed), one transaction each, as fast as they go: event_p99_ms is applying one, cycle_p99_ms the cycle after it,
idle_cycle_us one without any event, rss_gib the process at its largest. `--table` measures 1,000, 10,000 and 100,000
GPUs with a queue ten times as long, each in a process of its own.

Progress goes to standard error; the last line of standard output is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import asyncpg

from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from muster_chassis import heap
from muster_chassis.migrations import of_package
from muster_chassis.migrations.apply import migrate
from muster_scheduler.adapters.rebuild import load
from muster_scheduler.domain import decisions, events
from muster_scheduler.domain.asked.limits import Limits
from muster_scheduler.domain.asked.workloads import SECOND, Workload
from muster_scheduler.domain.state import State
from muster_stack.embedded import EmbeddedPostgres
from muster_stack.postgres import ADMIN, DATABASE
from tests.support import scale_fleet
from tests.support.figures import spread
from tests.support.fleets import START
from tests.support.scale_fleet import Size

_A_SECOND: Final = 200
_SEED: Final = 7
_BEAT: Final = 10  # seconds between heartbeats
_SPEC: Final = workload_pb2.WorkloadSpec(
    kind=options_pb2.KIND_TRAINING, name="train", image="registry.example.com/team/train:1.2", command="python train.py"
).SerializeToString()


class Drive:
    """A state under load: who runs, what has been placed, what time it is."""

    def __init__(self, state: State, size: Size, first_free: int) -> None:
        self.state, self.size, self.next = state, size, first_free
        self.now, self.sequence = state.world.now, 1
        self.rng = random.Random(_SEED)
        self.running = [w.id for w in state.world.workloads.values() if w.active]
        self.fresh: list[str] = []
        self.leaving: list[str] = []
        self.events: list[float] = []
        self.cycles: list[float] = []
        self.placed = self.evicted = 0

    def order(self, cluster: str) -> events.Order:
        """The next place in the order of a cluster's reports."""
        self.sequence += 1
        return events.Order(f"agent-{cluster}", 1, self.sequence, self.now)

    def beat(self) -> None:
        """Every agent lives."""
        for number in range(self.size.clusters):
            self.transact(events.HeartbeatSeen(f"c{number}", self.order(f"c{number}")))

    def step(self) -> None:
        """One event: a submission, a report of what was placed, the end of what had to leave, or an ending."""
        self.now += SECOND // _A_SECOND
        if self.rng.random() < 0.5 or not self.running:
            self.next += 1
            self.transact(scale_fleet.submission(self.size, self.next, self.now))
        elif self.leaving:
            self._report(self.leaving.pop(), over=True)
        elif self.fresh:
            self._report(self.fresh.pop(), over=False)
        else:
            at = self.rng.randrange(len(self.running))
            self.running[at], self.running[-1] = self.running[-1], self.running[at]
            self._report(self.running.pop(), over=True)

    def _report(self, workload_id: str, *, over: bool) -> None:
        workload: Workload = self.state.world.workloads[workload_id]
        replica = next((each for each in workload.everyone() if not each.gone), None)
        if replica is not None:
            self.transact(scale_fleet.settled(workload, replica, self.order(workload.cluster), over=over))

    def transact(self, *incoming: events.Event) -> None:
        """One transaction, timed in its two halves."""
        began = time.perf_counter()
        self.state.begin(self.now)
        for event in incoming:
            self.state.apply(event)
        applied = time.perf_counter()
        unfinished = self.state.propose()
        plan = self.state.plan(unfinished=unfinished)
        for decision in plan.decisions:
            if isinstance(decision, decisions.Placed):
                self.fresh.append(decision.workload)
                self.running.append(decision.workload)
                self.placed += 1
            elif isinstance(decision, decisions.Preempted):
                self.leaving.append(decision.workload)
                self.evicted += 1
        self.state.commit()
        ended = time.perf_counter()
        self.events.append((applied - began) * 1000)
        self.cycles.append((ended - applied) * 1000)


async def measure(size: Size, seconds: int) -> dict[str, object]:
    """Everything, for one size."""
    with EmbeddedPostgres(durable=False) as postgres:
        connection = await asyncpg.connect(postgres.server.url(ADMIN, DATABASE), command_timeout=900)
        await migrate(connection, "scheduler", of_package("scheduler", "muster_scheduler"))
        await connection.execute("SET search_path TO scheduler")
        first_free = await scale_fleet.write(connection, size, _SPEC)
        _say(f"{size.nodes} nodes and {size.queued} waiting workloads are written")
        began = time.perf_counter()
        with heap.filling():
            state = await load(connection, Limits(), START + SECOND)
        heap.settle()
        rebuild = time.perf_counter() - began
        _say(f"rebuilt in {rebuild:.1f} s, {_rss():.2f} GiB")
        await connection.close()
    drive = Drive(state, size, first_free)
    drive.beat()
    while drive.state.world.waiting.projects():  # the first cycles look at every class once
        drive.transact()
    _say(f"settled after {len(drive.cycles)} cycles, {sum(drive.cycles) / 1000:.1f} s, {drive.placed} placed")
    drive.events.clear()
    drive.cycles.clear()
    for number in range(seconds * _A_SECOND):
        if number % (_BEAT * _A_SECOND) == 0:
            drive.beat()
        drive.step()
    _say(f"{drive.placed} placed and {drive.evicted} moved or evicted since the beginning")
    return {
        "rss_gib": round(_rss(), 2),
        "event_p99_ms": spread(drive.events)["p99"],
        "cycle_p99_ms": spread(drive.cycles)["p99"],
        "idle_cycle_us": round(_idle(drive), 1),
        "rebuild_s": round(rebuild, 1),
    }


def _idle(drive: Drive) -> float:
    """Microseconds of a cycle in which nothing has happened, the middle one of five runs of a hundred."""
    took = []
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(100):
            drive.state.begin(drive.now)
            drive.state.propose()
            drive.state.commit()
        took.append((time.perf_counter() - began) * 10_000)
    return sorted(took)[2]


def _rss() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)


def _table(given: argparse.Namespace) -> dict[str, object]:
    """The same at three sizes, each in a process of its own."""
    found: dict[str, object] = {}
    for gpus in (1_000, 10_000, 100_000):
        command = [sys.executable, __file__, "--gpus", str(gpus), "--queued", str(gpus * 10), "--json"]
        command += ["--projects", str(max(10, gpus // 100)), "--seconds", str(given.seconds)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found[str(gpus)] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def _listed(result: dict[str, Any]) -> list[str]:
    return [f"{name:16} {value}" for name, value in result.items()]


def _side_by_side(table: dict[str, Any]) -> list[str]:
    """One line a figure, one column a size."""
    columns = {int(gpus): row for gpus, row in table.items()}
    names = dict.fromkeys(name for row in columns.values() for name in row if name not in {"cores", "gpus"})
    lines = [f"{name:16}" + "".join(f"{row[name]:>14}" for row in columns.values()) for name in names]
    return [f"{'GPUs':16}" + "".join(f"{gpus:>14,}" for gpus in columns), *lines]


def main() -> int:
    """Runs it and prints the object."""
    given = _arguments()
    if given.table:
        result: dict[str, Any] = _table(given)
    else:
        size = Size(given.gpus, given.queued, given.projects)
        result = {"cores": os.cpu_count(), "gpus": given.gpus, "queued": given.queued}
        result |= asyncio.run(measure(size, given.seconds))
    if not given.json:
        print("\n".join(_side_by_side(result) if given.table else _listed(result)))
    print(json.dumps(result))
    return 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="only the JSON object")
    parser.add_argument("--gpus", type=int, default=100_000)
    parser.add_argument("--queued", type=int, default=1_000_000)
    parser.add_argument("--projects", type=int, default=1_000)
    parser.add_argument("--seconds", type=int, default=120, help="virtual seconds under load")
    parser.add_argument("--table", action="store_true", help="1,000, 10,000 and 100,000 GPUs side by side")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
