"""What is the truth about a gang on a few nodes (up to 6): every way to place it is tried.

Written from the books alone (`Node`, `Device`) and from the tables of MIG, without a line of the code that is judged.
For larger fleets placement_program.py says the same by a mixed-integer program.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from muster_kernel.mig import CARDS
from muster_kernel.quantities import MILLI
from muster_scheduler.domain.asked.requests import Kind, Role, Shape
from muster_scheduler.domain.fleet.nodes import Device, Mode, Node
from tests.support.gang_scenes import BLOCK, RACK, Scene

_LEVELS = (BLOCK, RACK)


class Card(NamedTuple):
    """What is free of one device. use: idle, shared, sliced."""

    use: str
    milli: int
    bytes: int
    size: int
    slices: int
    profiles: tuple[str, ...]  # of `+me`, which a card has once
    model: str


class Spot(NamedTuple):
    """What is free of one node."""

    cpu: int
    memory: int
    replicas: int  # how many more it takes
    slots: int
    cards: tuple[Card, ...]


def fits(scene: Scene) -> bool:
    """Whether there is any way to place the whole gang as it wishes."""
    spots = tuple(_spot(node) for node in scene.nodes)
    shapes = [(role.shape, part) for role in scene.roles for part in _parts(scene, role)]
    homes = domains(scene.nodes, scene.wish.group)
    return any(_try(spots, inside, shapes, homes, 0, set()) for inside in areas(scene))


def holds_one(node: Node, shape: Shape) -> bool:
    """Whether the node as it is now holds one replica."""
    return bool(_ways(_spot(node), shape))


def _parts(scene: Scene, role: Role) -> list[int]:
    """A role as groups that stay inside one domain; 0 stands for a replica that goes anywhere."""
    size = scene.wish.group_size
    if scene.wish.group and role.size >= size:
        return [size] * (role.size // size)
    return [0] * role.size


def areas(scene: Scene) -> list[list[int]]:
    if not scene.wish.required:
        return [list(range(len(scene.nodes)))]
    return list(domains(scene.nodes, scene.wish.required).values())


def domains(nodes: list[Node], key: str) -> dict[tuple[str | None, ...], list[int]]:
    """The nodes of each domain of a level, named by its path from the outermost level."""
    found: dict[tuple[str | None, ...], list[int]] = {}
    keys = _LEVELS[: _LEVELS.index(key) + 1] if key else ()
    for number, node in enumerate(nodes):
        labels = dict(node.labels)
        if key and key in labels:
            found.setdefault(tuple(labels.get(each) for each in keys), []).append(number)
    return found


Homes = dict[tuple[str | None, ...], list[int]]
Dead = set[tuple[int, tuple[Spot, ...]]]


def _try(
    spots: tuple[Spot, ...], inside: list[int], parts: list[tuple[Shape, int]], homes: Homes, at: int, dead: Dead
) -> bool:
    if at == len(parts):
        return True
    if (at, spots) in dead:
        return False
    shape, group = parts[at]
    places = [[n for n in home if n in inside] for home in homes.values()] if group else [inside]
    for area in places:
        for after in _place(spots, area, shape, max(1, group)):
            if _try(after, inside, parts, homes, at + 1, dead):
                return True
    dead.add((at, spots))
    return False


def _place(spots: tuple[Spot, ...], area: list[int], shape: Shape, replicas: int) -> set[tuple[Spot, ...]]:
    reached = {spots}
    for _ in range(replicas):
        reached = {
            (*state[:n], spot, *state[n + 1 :]) for state in reached for n in area for spot in _ways(state[n], shape)
        }
    return reached


def _spot(node: Node) -> Spot:
    if not node.open:
        return Spot(-1, -1, 0, 0, ())
    return Spot(
        node.free_cpu,
        node.free_memory,
        node.most_replicas - len(node.entries),
        node.free_slots,
        tuple(sorted(_cards(node))),
    )


def _cards(node: Node) -> Iterator[Card]:
    for device in node.devices:
        if device.mode in {Mode.IDLE, Mode.SHARED, Mode.SLICED}:
            use = "sliced" if device.mig else ("idle" if device.mode is Mode.IDLE else "shared")
            yield Card(
                use, device.free_milli, device.free_bytes, device.memory, device.mask, media(device), device.model
            )


def media(device: Device) -> tuple[str, ...]:
    return tuple(sorted(share.profile for share in device.entries.values() if share.profile.endswith("+me")))


def _ways(spot: Spot, shape: Shape) -> set[Spot]:
    """The node after one replica more, in every way that there is."""
    if spot.cpu < shape.cpu or spot.memory < shape.memory or spot.replicas <= 0:
        return set()
    left = spot._replace(cpu=spot.cpu - shape.cpu, memory=spot.memory - shape.memory, replicas=spot.replicas - 1)
    if shape.kind is Kind.NONE:
        return {left}
    if shape.kind is Kind.WHOLE and spot.slots:
        return {left._replace(slots=left.slots - shape.devices)} if left.slots >= shape.devices else set()
    found = set()
    for chosen in combinations(range(len(spot.cards)), shape.devices):
        states = {spot.cards}
        for slot in chosen:
            states = {(*s[:slot], card, *s[slot + 1 :]) for s in states for card in _serve(s[slot], shape)}
        found |= {left._replace(cards=tuple(sorted(state))) for state in states}
    return found


def _serve(card: Card, shape: Shape) -> Iterator[Card]:
    match shape.kind:
        case Kind.WHOLE if card.use == "idle":
            yield card._replace(use="whole", milli=0, bytes=0)
        case Kind.PORTION | Kind.MEMORY if card.use in {"idle", "shared"}:
            milli, amount = takes(shape, card.size)
            if milli <= card.milli and amount <= card.bytes:
                yield card._replace(use="shared", milli=card.milli - milli, bytes=card.bytes - amount)
        case Kind.SLICE if card.use == "sliced":
            profile = CARDS[card.model].profiles.get(shape.profile)
            once = (shape.profile,) if shape.profile.endswith("+me") else ()
            for start in profile.starts if profile else ():
                if profile and not card.slices & profile.mask(start) and not set(once) & set(card.profiles):
                    yield card._replace(slices=card.slices | profile.mask(start), profiles=(*card.profiles, *once))


def takes(shape: Shape, size: int) -> tuple[int, int]:
    if shape.kind is Kind.WHOLE:
        return MILLI, size
    return (0, shape.bytes) if shape.kind is Kind.MEMORY else (shape.milli, shape.milli * size // MILLI)
