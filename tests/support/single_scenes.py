"""Single replicas that arrive one by one on a small fleet: what the state machine gives a place, and what waits.

Used by properties and by benchmarks/oracles.py. Holds: the fleet is that of the seed, empty at first, and so is the
order in which replicas come; none may be moved, and no node is kept for the first that waits, so that it is placement
alone that is judged.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Final, NamedTuple

from muster_scheduler.domain import events
from muster_scheduler.domain.asked.limits import Limits
from muster_scheduler.domain.asked.requests import Kind, Role, Shape, charge_of
from muster_scheduler.domain.asked.terms import Wish
from muster_scheduler.domain.books.pools import NodePool, Strategy
from muster_scheduler.domain.fleet.nodes import Node
from tests.support.fleets import GIB, Fleet, devices, node, request
from tests.support.gang_scenes import Scene

CARD: Final = "A100-40GB"
_BYTES: Final = 40 * GIB
_PORTIONS: Final = tuple(Shape(100, GIB, Kind.PORTION, 1, milli=milli) for milli in (200, 250, 300, 500, 700))
_MEMORY: Final = tuple(Shape(100, GIB, Kind.MEMORY, 1, bytes=gib * GIB) for gib in (6, 10, 15, 24))
_SLICES: Final = tuple(
    Shape(100, GIB, Kind.SLICE, 1, profile=name) for name in ("1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb")
)
_WHOLE: Final = (Shape(100, GIB, Kind.WHOLE, 1), Shape(100, GIB, Kind.WHOLE, 2))
SORTS: Final[dict[str, tuple[Shape, ...]]] = {
    "portions": _PORTIONS,
    "memory": _MEMORY,
    "slices": _SLICES,
    "mixed": (*_PORTIONS, *_MEMORY, *_SLICES, *_WHOLE),
}


class Served(NamedTuple):
    """What became of the replicas that came. waiting: a shape each, once.

    offered: the fleet before any of them and all of them; placed: the same fleet and those that run now.
    """

    fleet: Fleet
    offered: Scene
    placed: Scene
    waiting: tuple[Shape, ...]

    @property
    def charge(self) -> int:
        """What runs, in 1/7,000 GPU."""
        return sum(role.size * role.charge for role in self.placed.roles)

    @property
    def cards(self) -> int:
        """Cards on which something runs."""
        return sum(bool(card.entries) for each in self.fleet.world.inventory.nodes.values() for card in each.devices)


def serve(seed: int, sort: str, *, nodes: int, load: float, strategy: Strategy = Strategy.BINPACK) -> Served:
    """Lets replicas of a sort come to a fleet of 2 to `nodes` nodes. load: what they ask of what all cards hold."""
    dice = random.Random(seed)
    number = dice.randint(2, nodes)
    fleet = Fleet(*_nodes(seed, number, sort), quota=10_000, limits=Limits(reserves=False))
    fleet.checked = 0.02
    fleet.send(events.NodePoolChanged(NodePool(1, "c1", "default", 1, strategy, strategy)))
    shapes = _arrivals(dice, sort, int(load * _whole(_nodes(seed, number, sort))))
    for at, shape in enumerate(shapes):
        fleet.submit(at, request(Role("worker", 1, shape, charge_of(shape, _BYTES)), preemptible=False))
    running = [shape for at, shape in enumerate(shapes) if fleet.workload(at).placed]
    waiting = [shape for at, shape in enumerate(shapes) if not fleet.workload(at).placed]
    before = _nodes(seed, number, sort)
    return Served(fleet, _scene(fleet, before, shapes), _scene(fleet, before, running), tuple(dict.fromkeys(waiting)))


def left_over(served: Served, shape: Shape) -> Scene:
    """The fleet as it is now, and one replica more."""
    nodes = [served.fleet.world.inventory.nodes[each.key] for each in served.offered.nodes]
    return _scene(served.fleet, nodes, [shape])


def _nodes(seed: int, number: int, sort: str) -> list[Node]:
    """Two cards a node; of a mixture every second node is for slices."""
    dice = random.Random(seed)
    made = []
    for at in range(number):
        mig = sort == "slices" or (sort == "mixed" and at % 2 == 1)
        name = f"n{at:02d}"
        cards = devices(name, dice.randint(1, 2), model=CARD, memory=_BYTES, mig=mig)
        made.append(node(name, cards=cards))
    return made


def _whole(nodes: list[Node]) -> int:
    return sum(len(each.devices) for each in nodes) * charge_of(_WHOLE[0])


def _arrivals(dice: random.Random, sort: str, most: int) -> list[Shape]:
    made: list[Shape] = []
    while sum(charge_of(shape, _BYTES) for shape in made) < most:
        made.append(dice.choice(SORTS[sort]))
    return made


def _scene(fleet: Fleet, nodes: list[Node], shapes: list[Shape]) -> Scene:
    counted = Counter(shapes)
    roles = tuple(
        Role(f"role-{at}", size, shape, charge_of(shape, _BYTES)) for at, (shape, size) in enumerate(counted.items())
    )
    return Scene(fleet.world.inventory, nodes, roles, Wish())
