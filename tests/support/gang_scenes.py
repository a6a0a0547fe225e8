"""Small fleets and gangs of a seed: partly used nodes of every sort, blocks and racks with gaps, roles of any shape."""

from __future__ import annotations

import random
from typing import NamedTuple

from muster_scheduler.domain.asked.requests import Grant, Holder, Kind, Role, Shape, charge_of
from muster_scheduler.domain.asked.terms import Wish
from muster_scheduler.domain.books.inventory import Inventory
from muster_scheduler.domain.fleet.fitting import fit
from muster_scheduler.domain.fleet.nodes import UNBOUNDED, Device, Mig, Node, NodeState
from muster_scheduler.domain.journal import Journal

BLOCK, RACK = "block", "rack"
CARD, CARD_BYTES = "A30-24GB", 24 << 30
_PROFILES = ("1g.6gb", "1g.6gb+me", "2g.12gb", "4g.24gb")


class Scene(NamedTuple):
    """A pool's nodes by name, with what is held of them already, and a gang that wants a place."""

    inventory: Inventory
    nodes: list[Node]
    roles: tuple[Role, ...]
    wish: Wish


def scene(
    seed: int, *, nodes: int, devices: int, size: int, roles: int, grouped: bool = False, limited: bool = False
) -> Scene:
    """A fleet of 1 to `nodes` nodes and a gang of 1 to `roles` roles of 1 to `size` replicas.

    limited: some nodes take few replicas.
    """
    dice = random.Random(seed)
    inventory = Inventory(Journal())
    made = [_node(dice, number, devices) for number in range(dice.randint(1, nodes))]
    if limited:
        _limit(random.Random(seed), made)
    inventory.put_nodes(made)
    for number, node in enumerate(made):
        _occupy(dice, inventory, number, node)
    kinds = [_shape(dice, devices) for _ in range(dice.randint(1, roles))]
    sizes = [dice.randint(1, size) for _ in kinds]
    wish = _wish(dice, sizes, grouped=grouped)
    asked = tuple(Role(f"role-{i}", n, s, charge_of(s)) for i, (n, s) in enumerate(zip(sizes, kinds, strict=True)))
    return Scene(inventory, made, asked, wish)


def _limit(dice: random.Random, nodes: list[Node]) -> None:
    for node in nodes:
        node.most_replicas = dice.choice((0, 1, 2, 4, UNBOUNDED))


def _node(dice: random.Random, number: int, devices: int) -> Node:
    labels = []
    if dice.random() < 0.9:
        labels.append((BLOCK, f"b{dice.randrange(2)}"))
    if dice.random() < 0.9:
        labels.append((RACK, f"r{dice.randrange(2)}"))
    node = Node(
        "c",
        f"node-{number:03d}",
        "default",
        state=NodeState.READY if dice.random() < 0.9 else NodeState.CORDONED,
        cpu=dice.choice((2_000, 4_000, 8_000)),
        memory=dice.choice((4, 8, 16)) << 30,
        labels=tuple(labels),
    )
    if dice.random() < 0.1:
        node.slots, node.slot_model = dice.randint(1, devices), CARD
        return node
    for slot in range(dice.randint(0, devices)):
        mig, healthy = dice.random() < 0.3, dice.random() < 0.95
        node.devices.append(Device(f"{node.name}-{slot}", CARD, CARD_BYTES, slot, healthy=healthy, mig=mig))
    for device in node.devices:
        device.tally()
    return node


def _shape(dice: random.Random, devices: int) -> Shape:
    host = dice.choice((0, 500, 1_000)), dice.choice((0, 1, 2)) << 30
    some = dice.randint(1, min(2, devices))
    match dice.choice(list(Kind)):
        case Kind.NONE:
            return Shape(max(host[0], 100), host[1])
        case Kind.WHOLE:
            return Shape(*host, Kind.WHOLE, some)
        case Kind.PORTION:
            return Shape(*host, Kind.PORTION, some, milli=dice.choice((250, 300, 500, 700)))
        case Kind.MEMORY:
            return Shape(*host, Kind.MEMORY, some, bytes=dice.choice((4, 7, 12, 20)) << 30)
        case Kind.SLICE:
            return Shape(*host, Kind.SLICE, some, profile=dice.choice(_PROFILES))


def _occupy(dice: random.Random, inventory: Inventory, number: int, node: Node) -> None:
    """What earlier work left behind: charged through the books, so that it is possible."""
    for rank in range(dice.randint(0, 3)):
        grant = fit(node, _shape(dice, 1), Mig.DYNAMIC)
        if isinstance(grant, Grant):
            inventory.charge(Holder(f"earlier-{number}", 1, 1, "worker", rank, 0), node.key, grant)


def _wish(dice: random.Random, sizes: list[int], *, grouped: bool) -> Wish:
    required = dice.choice(("", "", BLOCK, RACK))
    preferred = dice.choice(("", BLOCK, RACK))
    if not grouped:
        return Wish(required, preferred)
    dividing = [n for n in range(1, sizes[0] + 1) if all(size < n or size % n == 0 for size in sizes)]
    return Wish(required, preferred, dice.choice((BLOCK, RACK)), dice.choice(dividing))
