"""How long it takes to find room for a queue that is below its share, and whether the fewest go.

`--shape large-gang`: A deserves nothing and runs preemptible one-GPU workloads of random age on all nodes; B deserves
half of the pool and brings one gang of whole nodes. `many-single`: as many takers of one GPU as A has workloads on 500
nodes. `mixed`: three queues run gangs of 1 to 64 replicas over several nodes, a fourth brings a gang that must stand in
one rack. `unschedulable`: the gang of large-gang with one node more than may be freed. All is there before the clock
starts; compiled once before; the median of five. KAI-Scheduler's figures for the first two include its snapshots.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from muster_kernel.quantities import GPU
from muster_scheduler.domain.asked.requests import Kind, Shape
from muster_scheduler.domain.fleet.columns import Columns
from muster_scheduler.domain.room.reclaim import reclaim
from muster_scheduler.domain.room.several import Seats, reclaim_for
from muster_scheduler.domain.room.values import Taker, Tree, Vacated
from tests.support.pools import Part, Work, occupy, pool, running, tree
from tests.support.room_cases import Case

CARDS = 8
RACK = 50  # nodes
_B, _A = 2, 3  # projects of the trees below
Answer = TypeVar("Answer")


def _singles(nodes: int, seed: int) -> list[Work]:
    ages = random.Random(seed)
    return [
        Work(_A, (Part(node, 1 << slot),), placed=ages.randrange(10**9))
        for node in range(nodes)
        for slot in range(CARDS)
    ]


def _gang_of_nodes(nodes: int, size: int, seed: int, share: int) -> Case:
    """B's gang of `size` whole nodes; A keeps `share` GPUs."""
    works = running(_singles(nodes, seed))
    free = pool(nodes)
    all_of_them = nodes * CARDS
    books = _departments((all_of_them - share, all_of_them - share), (share, 0), all_of_them)
    shape = Shape(1000, 1 << 30, Kind.WHOLE, CARDS)
    units = np.array([size * CARDS * GPU], np.int64)
    return Case(occupy(free, works), works, books, Taker(_B, shape, size, units, free.open))


def _departments(taker: tuple[int, int], victim: tuple[int, int], held: int) -> Tree:
    """Two departments with a project each, (fair, deserved); all that is held is A's."""
    return tree((-1, 0, *taker), (-1, held, *victim), (0, 0, *taker), (1, held, *victim))


def large_gang(nodes: int, seed: int) -> Case:
    """Half of all nodes, of which each holds eight of the others' workloads."""
    return _gang_of_nodes(nodes, nodes // 2, seed, nodes * CARDS // 2)


def unschedulable(nodes: int, seed: int) -> Case:
    """One node more than A may lose, though B may hold that much."""
    case = _gang_of_nodes(nodes, nodes // 2 + 1, seed, nodes * CARDS // 2)
    more = np.array([[CARDS * GPU], [0], [CARDS * GPU], [0]])
    return case._replace(tree=case.tree._replace(fair=case.tree.fair + more))


def mixed(nodes: int, seed: int) -> Case:
    """Gangs of 1 to 64 one-GPU replicas, placed over several nodes; the taker needs 20 whole nodes of one rack."""
    rng = random.Random(seed)
    free = [(node, slot) for node in range(nodes) for slot in range(CARDS)]
    free.sort(key=lambda cell: (cell[0] // (2 * RACK), rng.random()))  # spread over two racks
    works: list[Work] = []
    held = [0, 0, 0]
    while free:
        size = min(len(free), rng.choice((1, 1, 2, 4, 8, 16, 32, 64)))
        taken, free = free[:size], free[size:]
        masks: dict[int, int] = {}
        for node, slot in taken:
            masks[node] = masks.get(node, 0) | 1 << slot
        queue = rng.randrange(3)
        held[queue] += size
        parts = tuple(Part(node, mask) for node, mask in sorted(masks.items()))
        works.append(Work(3 + queue, parts, placed=rng.randrange(10**9), lost=rng.randrange(10**6)))
    listed = running(works)
    quarter = nodes * CARDS // 4
    half = (2 * quarter, 2 * quarter)  # the taker and one of the three in one department, the others in another
    queues = ((parent, each, quarter, quarter) for parent, each in zip((0, 1, 1), held, strict=True))
    books = tree((-1, held[0], *half), (-1, held[1] + held[2], *half), (0, 0, quarter, quarter), *queues)
    columns = pool(nodes)
    size = 20
    shape = Shape(1000, 1 << 30, Kind.WHOLE, CARDS)
    racks = np.arange(nodes, dtype=np.int64) // RACK
    units = np.array([size * CARDS * GPU], np.int64)
    return Case(occupy(columns, listed), listed, books, Taker(_B, shape, size, units, columns.open, racks))


def superfluous(case: Case, room: Vacated) -> int:
    """How many victims could stay, each by itself, with the taker still fitting: counted anew, replica by replica."""
    wrong = 0
    for victim in room.victims:
        others = [v for v in room.victims if v != victim]
        columns = case.columns.scratch()
        idle = _idle_without(case, columns, others)
        fits = idle // case.taker.shape.devices
        racks = case.taker.domains if case.taker.domains is not None else np.zeros(len(columns), np.int64)
        wrong += bool((np.bincount(racks, fits) >= case.taker.size).any())
    return wrong


def _idle_without(case: Case, columns: Columns, gone: list[int]) -> np.ndarray:
    idle = columns.idle.astype(np.int64)
    for v in gone:
        for r in range(case.running.held.first[v], case.running.held.first[v + 1]):
            idle[case.running.held.node[r]] += int(case.running.held.slots[r]).bit_count()
    return idle


SHAPES: dict[str, Callable[[int, int], Case]] = {
    "large-gang": large_gang,
    "mixed": mixed,
    "unschedulable": unschedulable,
}


def many_single(nodes: int, seed: int) -> Case:
    """As many takers of one GPU as A has workloads on the nodes: one of them is asked for all."""
    works = running(_singles(nodes, seed))
    free, all_of_them = pool(nodes), nodes * CARDS
    books = _departments((all_of_them, all_of_them), (0, 0), all_of_them)
    shape = Shape(1000, 1 << 30, Kind.WHOLE, 1)
    return Case(occupy(free, works), works, books, Taker(_B, shape, 1, np.array([GPU]), free.open))


def measure_many(nodes: int, seed: int) -> dict[str, object]:
    """Seats for all takers, with those for whom each waits: what becomes claims."""
    case, number = many_single(nodes, seed), nodes * CARDS
    seats, taken = _timed(lambda: reclaim_for(case.question, case.tree, number))
    figures: dict[str, object] = {"shape": "many-single", "nodes": nodes, "seconds": taken}
    if not isinstance(seats, Seats):
        return figures | {"takers": 0, "reason": seats.obstacle.value}
    waited = {victim for seat in seats.seats for victim in seat.waits_for}
    spare = len(set(seats.victims) - waited)
    return figures | {"takers": len(seats.seats), "victims": len(seats.victims), "superfluous": spare}


def _timed(ask: Callable[[], Answer]) -> tuple[Answer, float]:
    """The answer and the median of five, after one call that compiles."""
    answer, taken = ask(), []
    for _ in range(5):
        began = time.perf_counter()
        answer = ask()
        taken.append(time.perf_counter() - began)
    return answer, round(statistics.median(taken), 6)


def measure(shape: str, nodes: int, seed: int) -> dict[str, object]:
    """One question of a gang."""
    case = SHAPES[shape](nodes, seed)
    answer, taken = _timed(lambda: reclaim(case.question, case.tree))
    figures: dict[str, object] = {"shape": shape, "nodes": nodes, "seconds": taken}
    if isinstance(answer, Vacated):
        return figures | {"victims": len(answer.victims), "superfluous": superfluous(case, answer)}
    return figures | {"victims": 0, "reason": answer.obstacle.value, "numbers": answer.numbers}


def main() -> None:
    """Reads the arguments, measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shape", choices=sorted((*SHAPES, "many-single")), default="large-gang")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    options = parser.parse_args()
    if options.shape == "many-single":
        figures = measure_many(options.nodes, options.seed)
    else:
        figures = measure(options.shape, options.nodes, options.seed)
    print(json.dumps(figures) if options.json else figures)


if __name__ == "__main__":
    main()
