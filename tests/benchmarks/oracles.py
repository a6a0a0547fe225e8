"""How far placement is from the truth on small fleets: what is possible, and what would have been best.

`uv run python tests/benchmarks/oracles.py [--cases N] [--table]`, last line one JSON object. The truth is every way
tried on fleets of up to 6 nodes, and a mixed-integer program on fleets of up to 30.

Gangs: gaps count nodes beyond the fewest, of gangs that asked to be close together: inside the domain that was chosen,
and anywhere that the wish allows. The latter is no fault: the fullest domain that holds a gang is taken, so that
emptier ones stay whole.

Portions, memory, slices, and all of them with whole cards on one fleet: single replicas come one by one, as the state
machine serves them. Of a fleet that is asked for a fifth more than it has, the gap is what the program serves beyond
it in GPUs, knowing all who come; of one that is asked for three fifths, cards in use beyond the fewest. A disagreement
is a replica that waits though there is a way to run it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from muster_scheduler.domain.asked.terms import Wish
from muster_scheduler.domain.books.pools import Strategy
from muster_scheduler.domain.fleet.columns import columns_of
from muster_scheduler.domain.fleet.topology import NOWHERE, topology_of
from muster_scheduler.domain.gangs.place import place_gang
from muster_scheduler.domain.gangs.verdicts import Placement, Refusal

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.gang_scenes import BLOCK, RACK, Scene, scene
from tests.support.placement_oracle import fits
from tests.support.placement_program import fewest_cards, fewest_nodes, most_served
from tests.support.single_scenes import SORTS, left_over, serve


class Tally(NamedTuple):
    """What became of the cases. inside, anywhere: nodes beyond the fewest, one entry for each gang that wished."""

    placed: int
    disagreements: int
    unproven: int
    inside: tuple[int, ...]
    anywhere: tuple[int, ...]


def answer(given: Scene) -> tuple[Placement, ...] | Refusal:
    """What the scheduler's placement says of a scene."""
    topology = topology_of((BLOCK, RACK), [node.labels for node in given.nodes])
    return place_gang(columns_of(given.nodes), topology, given.roles, given.wish)


def chosen(given: Scene, used: set[int]) -> Scene:
    """The scene with the nodes of the narrowest domain around those that are used, and no wish any more."""
    topology = topology_of((BLOCK, RACK), [node.labels for node in given.nodes])
    for level in (1, 0):
        homes = {int(topology.domain[level, node]) for node in used}
        if len(homes) == 1 and NOWHERE not in homes:
            near = [node for n, node in enumerate(given.nodes) if topology.domain[level, n] in homes]
            return given._replace(nodes=near, wish=Wish())
    return given._replace(wish=Wish())


def judged(cases: int, make: Callable[[int], Scene], truth: Callable[[Scene], int | None]) -> Tally:
    """Holds the placement of so many scenes against a truth: the fewest nodes (0: not said); None: none will do."""
    placed = wrong = unproven = 0
    inside: list[int] = []
    anywhere: list[int] = []
    for seed in range(cases):
        given = make(seed)
        said, fewest = answer(given), truth(given)
        wrong += isinstance(said, Refusal) is not (fewest is None)
        if isinstance(said, Refusal):
            unproven += not said.proven
            continue
        placed += 1
        if fewest and given.wish.keys:
            used = {run.node for placement in said for run in placement.runs}
            anywhere.append(len(used) - fewest)
            inside.append(len(used) - (truth(chosen(given, used)) or 0))
    return Tally(placed, wrong, unproven, tuple(inside), tuple(anywhere))


def gangs(cases: int) -> dict[str, float]:
    """Gangs under both oracles, each over so many cases."""
    small = judged(
        cases, lambda seed: scene(seed, nodes=6, devices=4, size=4, roles=3), lambda s: 0 if fits(s) else None
    )
    large = judged(cases, lambda seed: scene(seed, nodes=30, devices=8, size=24, roles=2), fewest_nodes)
    return {
        "cases": 2 * cases,
        "placed": small.placed + large.placed,
        "disagreements": small.disagreements + large.disagreements,
        "unproven": small.unproven + large.unproven,
        "wishing": len(large.inside),
        "fewest_inside_pct": round(100 * large.inside.count(0) / max(1, len(large.inside)), 1),
        "gap_inside_mean": round(sum(large.inside) / max(1, len(large.inside)), 3),
        "gap_inside_max": max(large.inside, default=0),
        "gap_anywhere_mean": round(sum(large.anywhere) / max(1, len(large.anywhere)), 3),
    }


class Gap(NamedTuple):
    """How far single replicas of one sort are from the optimum. Per cent, of all that the program serves or needs."""

    disagreements: int
    served_gap_pct: float
    served_gap_max_pct: float
    cards_gap_pct: float
    cards_gap_max: int
    fewest_cards_pct: float


def singles(cases: int, sort: str, strategy: Strategy) -> Gap:
    """So many crowded fleets and as many with room to spare, of up to 30 nodes."""
    wrong, served, best, used, fewest = 0, [], [], [], []
    for seed in range(cases):
        crowded = serve(seed, sort, nodes=30, load=1.2, strategy=strategy)
        served.append(crowded.charge)
        best.append(most_served(crowded.offered))
        roomy = serve(seed, sort, nodes=30, load=0.6, strategy=strategy)
        used.append(roomy.cards)
        fewest.append(fewest_cards(roomy.placed) or 0)
        wrong += sum(fits(left_over(each, shape)) for each in (crowded, roomy) for shape in each.waiting)
    beyond = [has - least for has, least in zip(used, fewest, strict=True)]
    return Gap(
        wrong,
        round(100 * (1 - sum(served) / sum(best)), 2),
        round(100 * max(1 - has / most for has, most in zip(served, best, strict=True)), 2),
        round(100 * sum(beyond) / sum(fewest), 2),
        max(beyond),
        round(100 * beyond.count(0) / cases, 1),
    )


def figures(cases: int) -> dict[str, Any]:
    """Gangs, and single replicas of every sort under packing and under foresight."""
    found: dict[str, Any] = {"gangs": gangs(5 * cases)}
    for strategy in (Strategy.BINPACK, Strategy.FORESIGHT):
        for sort in SORTS:
            found[f"{sort}, {strategy.value}"] = singles(cases, sort, strategy)._asdict()
    return found


def table(found: dict[str, Any]) -> str:
    """The gaps of single replicas for people."""
    rows = ["| what came | waits though it would fit | served below the optimum | cards beyond the fewest |"]
    rows.append("|---|---|---|---|")
    for name, gap in found.items():
        if name != "gangs":
            served = f"{gap['served_gap_pct']} % (worst {gap['served_gap_max_pct']} %)"
            cards = f"{gap['cards_gap_pct']} % (worst {gap['cards_gap_max']}; none in {gap['fewest_cards_pct']} %)"
            rows.append(f"| {name} | {gap['disagreements']} | {served} | {cards} |")
    return "\n".join(rows)


def main() -> None:
    """The figures as one JSON object, on the last line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=25, help="fleets of each sort; gangs five times as many")
    parser.add_argument("--table", action="store_true", help="the gaps of single replicas as a table first")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line (always)")
    asked = parser.parse_args()
    found = figures(asked.cases)
    if asked.table:
        print(table(found))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
