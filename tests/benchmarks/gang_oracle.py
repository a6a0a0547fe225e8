"""How often gangs are placed as the truth allows, and how far from the fewest nodes.

`uv run python tests/benchmarks/gang_oracle.py --json`, last line one JSON object. The truth is every way tried on
fleets of up to 6 nodes, and a mixed-integer program on fleets of up to 30. Gaps count nodes beyond the fewest, of
gangs that asked to be close together: inside the domain that was chosen, and anywhere that the wish allows. The latter
is no fault: the fullest domain that holds a gang is taken, so that emptier ones stay whole.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from muster_scheduler.domain.asked.terms import Wish
from muster_scheduler.domain.fleet.columns import columns_of
from muster_scheduler.domain.fleet.topology import NOWHERE, topology_of
from muster_scheduler.domain.gangs.place import Placement, Refusal, place_gang

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.gang_scenes import BLOCK, RACK, Scene, scene
from tests.support.placement_oracle import fewest_nodes, fits


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


def figures(cases: int) -> dict[str, float]:
    """Both oracles, each over so many cases."""
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


def main() -> None:
    """The figures as one JSON object, on the last line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line (the only form)")
    print(json.dumps(figures(parser.parse_args().cases)))


if __name__ == "__main__":
    main()
