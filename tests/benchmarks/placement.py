"""How fast workloads are placed: `uv run python tests/benchmarks/placement.py --shape many|two-apps|gang --json`.

many: N nodes of 32 CPU and 256 GiB, one pool, one project under one department under the root, binpack; J one-replica
workloads of C request shapes around one CPU, all admitted before the clock starts, timed until quiet. `us_encoded` adds
the books of each workload and the bytes of its WorkloadPlaced. `--left-cpu 1` leaves that many CPUs on each node,
`--types T` gives the nodes T types of which a workload may use all but one.
two-apps: nodes of 16 CPUs, two queues of equal weight whose workloads alternate; per second.
gang: see placement_gangs.py.

On one core, quotas up the tree, fair shares, refusals and undo switched on, as they always are; compiling is left out;
processor time, median of five. The last line of standard output is one JSON object.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from muster_scheduler.adapters.encoding import placed
from muster_scheduler.domain.asked.requests import Grant, Holder, Shape
from muster_scheduler.domain.asked.workloads import Replica, Workload
from muster_scheduler.domain.deciding.engine import Engine
from muster_scheduler.domain.deciding.values import Amounts, Ask, Decision, QueueSpec
from muster_scheduler.domain.fleet.columns import Columns, empty
from tests.benchmarks.placement_gangs import gang

GIB: Final = 1 << 30
_MIB_A_GIB: Final = 1_024
_ROUNDS: Final = 5
_TICK: Final = 1_000  # microseconds between two admissions


def fleet(nodes: int, cpu: int, left: int) -> Columns:
    """Open nodes of `cpu` milli-CPU of which `left` are free, and 256 GiB."""
    columns = empty(tuple(f"node-{number:05}" for number in range(nodes)))
    columns.open[:] = True
    columns.cpu_total[:], columns.cpu[:] = cpu, left
    columns.memory_total[:] = columns.memory[:] = 256 * GIB
    return columns


def shapes(count: int) -> list[Shape]:
    """Different shapes around one CPU; a single one is a CPU and 4 GiB."""
    if count == 1:
        return [Shape(1_000, 4 * GIB)]
    random = Random(7)
    found: dict[Shape, None] = {}
    while len(found) < count:
        found[Shape(random.randint(950, 1_000), random.randint(3 * GIB, 4 * GIB) >> 20 << 20)] = None
    return list(found)


def engine_for(columns: Columns, types: int, projects: int) -> Engine:
    """An engine with one department and its projects; each eligibility leaves one node type out."""
    eligible = np.ones((max(1, types), len(columns)), np.bool_)
    for row in range(1, len(eligible)):
        eligible[row, np.arange(len(columns)) % types == row] = False
    made = Engine(columns, eligible)
    cpu, memory = int(columns.cpu_total.sum()), int(columns.memory_total.sum()) >> 20
    whole = Amounts(0, cpu, memory)
    part = Amounts(0, cpu // projects, memory // projects)
    queues = [QueueSpec("department", "", whole, whole)]
    queues += [QueueSpec(f"project-{at}", "department", part, whole) for at in range(projects)]
    made.put_queues(queues)
    return made


def asks(jobs: int, classes: int, types: int, projects: int) -> list[Ask]:
    """What waits, in order of admission."""
    found = shapes(classes)
    return [
        Ask(
            f"0190c1c0-0000-7000-8000-{job:012x}",
            f"project-{job % projects}",
            found[job % classes],
            0,
            job * _TICK,
            eligible=job % types if types > 1 else 0,
        )
        for job in range(jobs)
    ]


def published(engine: Engine, decisions: list[Decision], workloads: dict[str, Workload]) -> int:
    """Writes each decision into the books of its workload and encodes its event; how many bytes."""
    names, keys = engine.columns.names, engine.line.keys
    size = 0
    for decision in decisions:
        workload = workloads[decision.id]
        shape = keys[decision.shape].shape  # type: ignore[union-attr]
        node = ("cluster", names[decision.node])
        grant = Grant(shape.cpu, shape.memory, (), 0, decision.units)
        holder = Holder(decision.id, 1, 1, "worker", 0, 0)
        workload.cluster, workload.pool = "cluster", "default"
        workload.replicas["worker", 0] = Replica(holder, node, grant)
        size += len(placed(workload, _TICK).SerializeToString())
    return size


def once(arguments: argparse.Namespace, projects: int, cpu: int) -> tuple[float, float, int]:
    """Seconds until quiet, seconds with books and bytes, and how many were placed."""
    left = arguments.left_cpu * 1_000 if arguments.left_cpu else cpu
    engine = engine_for(fleet(arguments.nodes, cpu, left), arguments.types, projects)
    waiting = asks(arguments.jobs, arguments.classes, arguments.types, projects)
    for ask in waiting:
        engine.add(ask)
    engine.forget()
    workloads = {ask.id: Workload(ask.id, submitted=ask.queued) for ask in waiting}
    gc.collect()
    gc.freeze()
    start = time.process_time()
    decisions: list[Decision] = []
    while found := engine.propose():
        decisions += found
    placed_at = time.process_time()
    if not published(engine, decisions, workloads):
        raise SystemExit("nothing was placed")
    end = time.process_time()
    gc.unfreeze()
    engine.check()
    return placed_at - start, end - start, len(decisions)


def rounds(run: Callable[[], tuple[float, float, int]]) -> tuple[float, float, int]:
    """The medians of five runs, after one that compiles."""
    run()
    found = [run() for _ in range(_ROUNDS)]
    return statistics.median(f[0] for f in found), statistics.median(f[1] for f in found), found[0][2]


def many(arguments: argparse.Namespace) -> dict[str, Any]:
    """`--shape many`."""
    seconds, encoded, count = rounds(lambda: once(arguments, 1, 32_000))
    return {
        "us_per_placement": round(seconds / count * 1e6, 2),
        "us_encoded": round(encoded / count * 1e6, 2),
        "placed": count,
    }


def two_apps(arguments: argparse.Namespace) -> dict[str, Any]:
    """`--shape two-apps`."""
    seconds, _, count = rounds(lambda: once(arguments, 2, 16_000))
    return {"per_second": round(count / seconds), "placed": count}


def main() -> None:
    """Runs one shape and prints its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=("many", "two-apps", "gang"), default="many")
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--jobs", type=int, default=32_000)
    parser.add_argument("--classes", type=int, default=1)
    parser.add_argument("--types", type=int, default=1)
    parser.add_argument("--left-cpu", type=int, default=0, help="CPUs left on each node; 0: all")
    parser.add_argument("--json", action="store_true", help="the figures as one JSON object")
    arguments = parser.parse_args()
    figures: dict[str, Any]
    if arguments.shape == "gang":
        figures = dict(gang(arguments.nodes))
    else:
        figures = many(arguments) if arguments.shape == "many" else two_apps(arguments)
    asked = {name: getattr(arguments, name) for name in ("shape", "nodes", "jobs", "classes", "types")}
    if arguments.json:
        print(json.dumps(asked | figures))
    else:
        for name, figure in figures.items():
            print(f"{name:20} {figure}")


if __name__ == "__main__":
    main()
