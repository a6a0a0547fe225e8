"""How long a large gang takes to place over a topology of blocks and racks, and how long its refusal takes.

Called by placement.py for `--shape gang`; pure domain, nothing is charged. Figures are medians of five, in
milliseconds.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
from collections.abc import Callable
from time import perf_counter

import numpy as np

from muster_kernel.quantities import GPU
from muster_scheduler.domain.asked.requests import Kind, Role, Shape
from muster_scheduler.domain.asked.terms import Wish
from muster_scheduler.domain.fleet.columns import IDLE, Columns, empty
from muster_scheduler.domain.fleet.taking import Run
from muster_scheduler.domain.fleet.topology import Topology, topology_of
from muster_scheduler.domain.gangs.place import place_gang
from muster_scheduler.domain.gangs.runs import expanded
from muster_scheduler.domain.gangs.verdicts import Refusal

BLOCK, RACK = "topology/block", "topology/rack"
_BLOCKS, _DEVICES, _REPLICAS = 10, 8, 2_304
_TIMES = 5


def hall(nodes: int) -> tuple[Columns, Topology]:
    """An idle hall: nodes of 8 GPUs, 96 CPUs and 1 TiB in ten blocks of ten racks."""
    names = tuple(f"node-{number:05d}" for number in range(nodes))
    columns = empty(names)
    columns.open[:] = True
    columns.cpu[:] = columns.cpu_total[:] = 96_000
    columns.memory[:] = columns.memory_total[:] = 1 << 40
    columns.idle[:] = columns.idle_total[:] = _DEVICES
    columns.mode[:, :_DEVICES] = IDLE
    columns.milli[:, :_DEVICES] = 1000
    columns.bytes[:, :_DEVICES] = columns.size[:, :_DEVICES] = 80 << 30
    a_rack = max(1, nodes // (_BLOCKS * _BLOCKS))
    labels = []
    for number in range(nodes):
        rack = min(number // a_rack, _BLOCKS * _BLOCKS - 1)
        labels.append(((BLOCK, f"b{rack // _BLOCKS}"), (RACK, f"r{rack % _BLOCKS}")))
    return columns, topology_of((BLOCK, RACK), labels)


def gang(nodes: int) -> dict[str, float]:
    """The gang of 2,304 one-GPU workers: rack preferred and all of the hall allowed; then one block required."""
    columns, topology = hall(nodes)
    shape = Shape(1_000, 4 << 30, Kind.WHOLE, 1)
    roles = (Role("worker", _REPLICAS, shape, GPU),)

    anywhere, one_block = Wish(preferred=RACK), Wish(required=BLOCK, preferred=RACK)

    def placed() -> tuple[Run, ...]:
        found = place_gang(columns, topology, roles, anywhere)
        if isinstance(found, Refusal):
            raise SystemExit(f"the gang has to fit: {found}")
        return found[0].runs

    def refused() -> int:
        found = place_gang(columns, topology, roles, one_block)
        if not isinstance(found, Refusal) or not found.proven:
            raise SystemExit(f"no block holds the gang: {found}")
        return found.room

    if len(expanded(shape, placed())) != _REPLICAS:
        raise SystemExit("not every replica has its place")
    used = np.array([run.node for run in placed()])
    return {
        "ms": _median(placed),
        "ms_expanded": _median(lambda: expanded(shape, placed())),
        "ms_refused": _median(refused),
        "runs": used.size,
        "blocks": len(np.unique(topology.domain[0, used])),
        "racks": len(np.unique(topology.domain[1, used])),
        "best_block_holds": refused(),
    }


def _median(work: Callable[[], object]) -> float:
    work()
    gc.collect()  # as after a rebuild: what was made before is not walked through again and again
    gc.freeze()
    times = []
    for _ in range(_TIMES):
        start = perf_counter()
        work()
        times.append((perf_counter() - start) * 1000)
    return round(statistics.median(times), 3)


def main() -> None:
    """The figures as one JSON object, on the last line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=2_500)
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line (the only form)")
    print(json.dumps(gang(parser.parse_args().nodes)))


if __name__ == "__main__":
    main()
