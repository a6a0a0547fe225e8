"""How much of a production cluster a strategy fills: `uv run python tests/benchmarks/openb.py --trace default --json`.

The published experiment ("Beware of Fragmentation", USENIX ATC 2023): pods arrive until 130 % of the cluster's GPUs
were asked for; each that fits anywhere is placed at once, none is moved. `mean_pct` and `std_pct` are allocated GPU of
all GPU over the seeds; `bound_pct` a configuration LP's bound on that (tests/support/openb_bound.py); `hindsight_pct`
the best found where all arrivals are known and any pod may be left out; both are means over the seeds.
`seconds_per_seed` is the median CPU time of placing all pods of a seed, compilation excluded.

--trace takes one of the six traces of tests/data/openb, or a file of pods in the trace's own form (--nodes: of nodes).
Progress goes to standard error; the last line of standard output is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from muster_scheduler.domain.strategies.outlook import Outlook, fgd, foresight
from muster_scheduler.domain.strategies.popularity import Popularity
from tests.support.openb_bound import bound
from tests.support.openb_run import place_all, with_hindsight
from tests.support.openb_trace import DATA, TRACES, Class, Fleet, arrivals, popularity, read_classes, read_fleet

STRATEGIES: Final[dict[str, Callable[[Popularity], Outlook]]] = {"fgd": fgd, "muster": foresight}
FIRST_SEED: Final = 42  # the published seeds are 42 to 51


def main() -> int:
    """Runs one trace under one strategy."""
    arguments = _arguments()
    fleet = read_fleet(arguments.nodes)
    classes = read_classes(arguments.trace, fleet)
    outlooks = {name: make(popularity(classes)) for name, make in STRATEGIES.items()}
    found = _measure(fleet, classes, outlooks, arguments.strategy, arguments.seeds)
    if not arguments.json:
        print(f"{arguments.trace}, {arguments.strategy}, {arguments.seeds} seeds")
    print(json.dumps(found))
    return 0


def _measure(
    fleet: Fleet, classes: list[Class], outlooks: dict[str, Outlook], strategy: str, seeds: int
) -> dict[str, float]:
    percent = 100 / fleet.milli
    place_all(fleet, classes, arrivals(classes, fleet, FIRST_SEED)[:50].tolist(), outlooks[strategy])  # compiles
    shares, bounds, known, seconds = [], [], [], []
    for seed in range(FIRST_SEED, FIRST_SEED + seeds):
        order = arrivals(classes, fleet, seed).tolist()
        online = {name: place_all(fleet, classes, order, outlook) for name, outlook in outlooks.items()}
        limit = bound(fleet, classes, dict(Counter(order)))
        best = with_hindsight(fleet, classes, order, outlooks["muster"], limit)
        shares.append(online[strategy].milli * percent)
        seconds.append(online[strategy].seconds)
        bounds.append(limit.milli * percent)
        known.append(max(best, *(outcome.milli for outcome in online.values())) * percent)
        print(f"seed {seed}: {shares[-1]:.2f} of at most {bounds[-1]:.2f}", file=sys.stderr, flush=True)
    return {
        "mean_pct": round(statistics.mean(shares), 3),
        "std_pct": round(statistics.pstdev(shares), 3),
        "bound_pct": round(statistics.mean(bounds), 3),
        "hindsight_pct": round(statistics.mean(known), 3),
        "seconds_per_seed": round(statistics.median(seconds), 3),
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="only the JSON object")
    parser.add_argument("--trace", default="default", help=f"{', '.join(TRACES)}, or a file")
    parser.add_argument("--nodes", type=Path, default=DATA / "nodes.csv", help="the nodes' file")
    parser.add_argument("--strategy", choices=list(STRATEGIES), default="muster")
    parser.add_argument("--seeds", type=int, default=10)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
