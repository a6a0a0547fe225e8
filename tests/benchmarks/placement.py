"""How fast workloads are placed: `uv run python tests/benchmarks/placement.py --shape many|two-apps|gang --json`.

many: N nodes of 32 CPU and 256 GiB, one pool, one project under one department, binpack; J one-replica workloads of C
request shapes around one CPU, all admitted before the clock starts, timed until quiet. `--left-cpu 1` leaves that many
CPUs on each node; with `--types T` the nodes have T types, of which each workload names one.
two-apps: nodes of 16 CPUs, two projects of equal weight whose workloads alternate; per second.
gang: see placement_gangs.py.

--path service (what counts): a state machine with everything admitted runs cycles until it is quiet. `us_per_placement`
is all that a placement costs it: order, quotas, search, books with their undo, decisions as values; `us_encoded` adds
the bytes of each WorkloadPlaced as published. --path kernel: the same heads are taken and decided in one batch, and
nothing is written; `us_decided`.

On one core, with everything switched on that the service has, the garbage collector in its portions; the columns of a
pool are made when its nodes are reported, before the time; compiling is left out; processor time, median of five.
The last line of standard output is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from muster_chassis import heap
from muster_scheduler.adapters.placements import Placements
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.quotas import Line, Quota
from muster_scheduler.domain.asked.requests import Role, Shape
from muster_scheduler.domain.asked.terms import Terms
from muster_scheduler.domain.books.queues import Department, Project
from muster_scheduler.domain.decisions import Burst, Placed, Taken
from muster_scheduler.domain.fleet.clusters import Profile
from muster_scheduler.domain.fleet.eligibility import TYPE_LABEL
from muster_scheduler.domain.fleet.nodes import Node
from muster_scheduler.domain.placement.place import Budget
from muster_scheduler.domain.state import State
from muster_scheduler.domain.turning.batching import Batch
from muster_scheduler.domain.turning.turns import Turns
from tests.benchmarks.placement_gangs import gang
from tests.support.fleets import GIB, START, request, workload_id

_ROUNDS: Final = 5
_TICK: Final = 1  # microseconds between two admissions
_POOL: Final = "default"
_PLENTY: Final = 1 << 40  # visits: the clock stops when all is quiet


def shapes(count: int) -> list[Shape]:
    """Different shapes around one CPU; a single one is a CPU and 4 GiB."""
    if count == 1:
        return [Shape(1_000, 4 * GIB)]
    random = Random(7)
    found: dict[Shape, None] = {}
    while len(found) < count:
        found[Shape(random.randint(950, 1_000), random.randint(3 * GIB, 4 * GIB) >> 20 << 20)] = None
    return list(found)


def fleet(nodes: int, cpu: int, left: int, types: int) -> tuple[Node, ...]:
    """Nodes of `cpu` milli-CPU of which `left` are free, and 256 GiB."""
    return tuple(
        Node(
            "c1",
            f"node-{number:05}",
            _POOL,
            cpu=cpu,
            memory=256 * GIB,
            foreign_cpu=cpu - left,
            labels=((TYPE_LABEL, f"type-{number % types}"),) if types > 1 else (),
        )
        for number in range(nodes)
    )


def state_for(nodes: tuple[Node, ...], arguments: argparse.Namespace, projects: int) -> State:
    """Everything is admitted, nothing placed. Quotas of CPU and memory up the tree, as much as there is."""
    cpu, memory = sum(node.cpu for node in nodes), sum(node.memory for node in nodes)
    whole = {_POOL: Quota(0, None, 1_000, Line(cpu, cpu), Line(memory, memory))}
    part = {_POOL: Quota(0, None, 1_000, Line(cpu // projects, cpu), Line(memory // projects, memory))}
    state = State()
    state.begin(START)
    first: list[events.Event] = [
        events.ClusterRegistered("c1"),
        events.DepartmentChanged(Department("department", whole, 0)),
    ]
    first += [events.ProjectChanged(Project(f"project-{at}", "department", part, 0)) for at in range(projects)]
    order = events.Order("agent", 1, 1, START)
    first.append(events.InventoryReported("c1", order, True, 1, Profile(), nodes, ()))
    for event in [*first, *_admitted(arguments, projects)]:
        state.apply(event)
    state.plan()
    state.commit()
    return state


def _admitted(arguments: argparse.Namespace, projects: int) -> list[events.Event]:
    found = shapes(arguments.classes)
    asked = [request(Role("worker", 1, shape, 0)) for shape in found]
    named = [Terms(node_type=f"type-{number}") for number in range(arguments.types)]
    made: list[events.Event] = []
    for job in range(arguments.jobs):
        terms = named[job % arguments.types] if arguments.types > 1 else asked[0].terms
        each = asked[job % len(asked)]._replace(terms=terms)
        project = f"project-{job % projects}"
        submitted = START + job * _TICK
        name = f"w{job}"
        made.append(events.Admitted(workload_id(job), project, "department", "ns", name, "me", submitted, True, each))
    return made


def serve(state: State) -> tuple[float, float, int]:
    """Seconds of cycles until quiet, seconds with the bytes of every placement, and how many were placed."""
    state.begin(START + 1)
    start = time.process_time()
    while state.propose(Budget(_PLENTY)):
        pass
    until_quiet = time.process_time()
    plan = state.plan()
    begun = time.process_time()
    found = [placed for one in plan.taken for placed in _placements(one)]
    event, known = Placements().event, state.world.workloads
    size = sum(len(event(known[each.workload], each.at).SerializeToString()) for each in found)
    end = time.process_time()
    if not size:
        raise SystemExit("nothing was placed")
    state.commit()
    state.check()
    return until_quiet - start, until_quiet - start + end - begun, len(found)


def _placements(taken: Taken) -> Iterable[Placed]:
    if isinstance(taken, Burst):
        return [Placed(workload, taken.at) for workload in taken.workloads]
    return (taken,) if isinstance(taken, Placed) else ()


def decide(state: State) -> tuple[float, float, int]:
    """The same heads decided by the kernel in one batch, as seconds; nothing is written into the books."""
    turns = Turns(state.world)
    turns.next()
    start = time.process_time()
    projects = turns.competing(_POOL)
    batch = Batch(state.world, _POOL, projects, len(state.world.workloads))
    found = batch.decide(turns.standing(_POOL), Budget(_PLENTY))
    end = time.process_time()
    return end - start, end - start, len(found)


def once(arguments: argparse.Namespace, projects: int, cpu: int) -> tuple[float, float, int]:
    """One run."""
    left = arguments.left_cpu * 1_000 if arguments.left_cpu else cpu
    state = state_for(fleet(arguments.nodes, cpu, left, arguments.types), arguments, projects)
    heap.settle()
    found = serve(state) if arguments.path == "service" else decide(state)
    heap.release()
    return found


def rounds(run: Callable[[], tuple[float, float, int]]) -> tuple[float, float, int]:
    """The medians of five runs, after one that compiles."""
    run()
    found = [run() for _ in range(_ROUNDS)]
    return statistics.median(f[0] for f in found), statistics.median(f[1] for f in found), found[0][2]


def many(arguments: argparse.Namespace) -> dict[str, Any]:
    """`--shape many`."""
    seconds, encoded, count = rounds(lambda: once(arguments, 1, 32_000))
    each = {"us_per_placement": round(seconds / count * 1e6, 2), "us_encoded": round(encoded / count * 1e6, 2)}
    if arguments.path == "kernel":
        each = {"us_decided": each["us_per_placement"]}
    return {**each, "placed": count}


def two_apps(arguments: argparse.Namespace) -> dict[str, Any]:
    """`--shape two-apps`."""
    seconds, _, count = rounds(lambda: once(arguments, 2, 16_000))
    return {"per_second": round(count / seconds), "placed": count}


def main() -> None:
    """Runs one shape and prints its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=("many", "two-apps", "gang"), default="many")
    parser.add_argument("--path", choices=("service", "kernel"), default="service")
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
    asked = {name: getattr(arguments, name) for name in ("shape", "path", "nodes", "jobs", "classes", "types")}
    if arguments.json:
        print(json.dumps(asked | figures))
    else:
        for name, figure in figures.items():
            print(f"{name:20} {figure}")


if __name__ == "__main__":
    main()
