"""How fast a fleet is simulated: `uv run python tests/benchmarks/simulate.py --json`.

One day on 12,500 GPUs (1,563 nodes, the last of 4), 100,000 workloads of 5 classes from half a GPU to gangs of 4 x 8,
20 projects in 5 departments, durations scaled to a load of 90 %; the state machine of the service in virtual time, with
quotas, fair shares, reasons and an agent's answers for every replica. The last line of standard output is one JSON
object: seconds (the median of `--runs`), workloads, completed, utilisation, wait_p99_s and us_per_workload; then what
an answer costs on the fleet as it stands at the end: what_if_ms for one GPU, for a gang of 64 x 8 and for one larger
than the fleet (the best of three; `--load 2` leaves a full fleet with a queue).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from typing import Any, Final

from muster_kernel.quantities import GPU
from muster_scheduler.domain.answers.prospects import what_if
from muster_scheduler.domain.asked.quotas import Quota
from muster_scheduler.domain.asked.workloads import SECOND
from muster_scheduler.domain.events import Admitted
from muster_scheduler.domain.state import State
from muster_scheduler.simulation import generators
from muster_scheduler.simulation.command import without_collector
from muster_scheduler.simulation.generators import Sort, Stream
from muster_scheduler.simulation.report import summary
from muster_scheduler.simulation.running import Simulation
from muster_scheduler.simulation.scenario import DAY, GIB, Ask, NodeGroup, Pace, Scenario, Tenant, Unit, request_of

PROJECTS: Final = 20
DEPARTMENTS: Final = 5
MINUTE: Final = 60 * SECOND
SORTS: Final = (
    Sort("one", 60, request_of(Ask(cpu=4000, memory=8 * GIB)), 20 * MINUTE, 1.0),
    Sort("half", 10, request_of(Ask(milli=500, cpu=1000, memory=4 * GIB)), 20 * MINUTE, 1.0),
    Sort("four", 16, request_of(Ask(gpus=4, cpu=16_000, memory=32 * GIB)), 40 * MINUTE, 1.0),
    Sort("eight", 12, request_of(Ask(gpus=8, cpu=32_000, memory=64 * GIB)), 60 * MINUTE, 1.0),
    Sort("gang", 2, request_of(Ask(replicas=4, gpus=8, cpu=32_000, memory=64 * GIB)), 60 * MINUTE, 1.0),
)


def scenario(gpus: int, workloads: int, seed: int, load: float = 0.9) -> Scenario:
    """One day on so many GPUs. load: the GPU time asked for, as a part of the fleet's."""
    fleet: tuple[NodeGroup, ...] = (NodeGroup("c", "default", "n", gpus // 8, 8),)
    if gpus % 8:
        fleet = (*fleet, NodeGroup("c", "default", "last", 1, gpus % 8))
    share = (("default", Quota(gpus * GPU // PROJECTS)),)
    together = (("default", Quota(gpus * GPU // DEPARTMENTS)),)
    tenants = tuple(Tenant(f"p{n:02}", f"d{n % DEPARTMENTS}", share) for n in range(PROJECTS))
    units = tuple(Unit(f"d{n}", together) for n in range(DEPARTMENTS))
    streams = tuple(Stream(t.project, SORTS, total=workloads // PROJECTS, load=load / PROJECTS) for t in tenants)
    jobs = generators.jobs(streams, seed=seed, length=DAY, gpus=gpus)
    return Scenario("day", Pace(), fleet, tenants, jobs, departments=units)


def answers(state: State) -> dict[str, float]:
    """What-ifs over the state, in milliseconds; it is left as it was."""
    ways = {"one": Ask(), "gang": Ask(replicas=64, gpus=8), "too_large": Ask(replicas=10_000, gpus=8)}
    return {name: best_of_three(state, ask) for name, ask in ways.items()}


def best_of_three(state: State, ask: Ask) -> float:
    """How long one what-if takes at best."""
    event = Admitted("asked", "p00", "d0", "p00", "asked", "", state.world.now, True, request_of(ask))
    took = []
    for _ in range(3):
        began = time.perf_counter()
        what_if(state, [event], state.world.now)
        took.append(time.perf_counter() - began)
    return round(min(took) * 1e3, 2)


def measure(gpus: int, workloads: int, seed: int, runs: int, load: float) -> dict[str, Any]:
    """Runs it so often; every run gives the same figures."""
    given = scenario(gpus, workloads, seed, load)
    Simulation(scenario(64, 400, seed)).run()  # what is compiled on first use is not measured
    seconds, told, asked = [], {}, {}
    for _ in range(runs):
        began = time.perf_counter()
        with without_collector():  # as the command does
            simulation = Simulation(given)
            figures = simulation.run()
        seconds.append(time.perf_counter() - began)
        told, asked = summary(figures), answers(simulation.state)
        print(f"{seconds[-1]:.1f} s", file=sys.stderr)
    took = statistics.median(seconds)
    return {
        "seconds": round(took, 2),
        "us_per_workload": round(took / len(given.jobs) * 1e6, 1),
        "gpus": given.gpus,
        "workloads": len(given.jobs),
        "completed": told["workloads"]["completed"],
        "utilisation": told["utilisation"]["mean"],
        "peak": told["utilisation"]["peak"],
        "wait_p99_s": told["waits"]["p99"],
        "waiting": told["workloads"]["waiting"],
        "preemptions": told["preemptions"],
        "seed": seed,
        "what_if_ms": asked,
    }


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="nothing but the JSON object on standard output")
    parser.add_argument("--gpus", type=int, default=12_500)
    parser.add_argument("--workloads", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--load", type=float, default=0.9)
    given = parser.parse_args()
    told = measure(given.gpus, given.workloads, given.seed, given.runs, given.load)
    if not given.json:
        print(f"one day on {told['gpus']:,} GPUs, {told['workloads']:,} workloads: {told['seconds']} s")
    print(json.dumps(told))


if __name__ == "__main__":
    main()
