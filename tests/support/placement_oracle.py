"""What is the truth about a gang on a few nodes: all ways tried (up to 6 nodes), or a mixed-integer program (up to 30).

Written from the books alone (`Node`, `Device`) and from the tables of MIG, without a line of the code that is judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from muster_kernel.mig import CARDS
from muster_kernel.quantities import MILLI
from muster_scheduler.domain.asked.requests import Kind, Role, Shape
from muster_scheduler.domain.fleet.nodes import Device, Mode, Node
from tests.support.gang_scenes import BLOCK, RACK, Scene

_LEVELS = (BLOCK, RACK)


# -- brute force -----------------------------------------------------------------------------------------------------


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
    slots: int
    cards: tuple[Card, ...]


def fits(scene: Scene) -> bool:
    """Whether there is any way to place the whole gang as it wishes."""
    spots = tuple(_spot(node) for node in scene.nodes)
    shapes = [(role.shape, part) for role in scene.roles for part in _parts(scene, role)]
    homes = _domains(scene.nodes, scene.wish.group)
    return any(_try(spots, inside, shapes, homes, 0, set()) for inside in _areas(scene))


def _parts(scene: Scene, role: Role) -> list[int]:
    """A role as groups that stay inside one domain; 0 stands for a replica that goes anywhere."""
    size = scene.wish.group_size
    if scene.wish.group and role.size >= size:
        return [size] * (role.size // size)
    return [0] * role.size


def _areas(scene: Scene) -> list[list[int]]:
    if not scene.wish.required:
        return [list(range(len(scene.nodes)))]
    return list(_domains(scene.nodes, scene.wish.required).values())


def _domains(nodes: list[Node], key: str) -> dict[tuple[str | None, ...], list[int]]:
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
    areas = [[n for n in home if n in inside] for home in homes.values()] if group else [inside]
    for area in areas:
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
        return Spot(-1, -1, 0, ())
    return Spot(node.free_cpu, node.free_memory, node.free_slots, tuple(sorted(_cards(node))))


def _cards(node: Node) -> Iterator[Card]:
    for device in node.devices:
        if device.mode in {Mode.IDLE, Mode.SHARED, Mode.SLICED}:
            use = "sliced" if device.mig else ("idle" if device.mode is Mode.IDLE else "shared")
            yield Card(
                use, device.free_milli, device.free_bytes, device.memory, device.mask, _media(device), device.model
            )


def _media(device: Device) -> tuple[str, ...]:
    return tuple(sorted(share.profile for share in device.entries.values() if share.profile.endswith("+me")))


def _ways(spot: Spot, shape: Shape) -> set[Spot]:
    """The node after one replica more, in every way that there is."""
    if spot.cpu < shape.cpu or spot.memory < shape.memory:
        return set()
    left = spot._replace(cpu=spot.cpu - shape.cpu, memory=spot.memory - shape.memory)
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
            milli, amount = _takes(shape, card.size)
            if milli <= card.milli and amount <= card.bytes:
                yield card._replace(use="shared", milli=card.milli - milli, bytes=card.bytes - amount)
        case Kind.SLICE if card.use == "sliced":
            profile = CARDS[card.model].profiles.get(shape.profile)
            once = (shape.profile,) if shape.profile.endswith("+me") else ()
            for start in profile.starts if profile else ():
                if profile and not card.slices & profile.mask(start) and not set(once) & set(card.profiles):
                    yield card._replace(slices=card.slices | profile.mask(start), profiles=(*card.profiles, *once))


def _takes(shape: Shape, size: int) -> tuple[int, int]:
    if shape.kind is Kind.WHOLE:
        return MILLI, size
    return (0, shape.bytes) if shape.kind is Kind.MEMORY else (shape.milli, shape.milli * size // MILLI)


# -- the program -----------------------------------------------------------------------------------------------------


class _Program:
    """Rows of a mixed-integer program, written one by one. Every variable is a whole number."""

    def __init__(self) -> None:
        self.most: list[float] = []
        self.cost: list[float] = []
        self.rows: list[dict[int, float]] = []
        self.low: list[float] = []
        self.high: list[float] = []

    def variable(self, most: float, cost: float = 0.0) -> int:
        """A new variable from 0 to `most`."""
        self.most.append(most)
        self.cost.append(cost)
        return len(self.most) - 1

    def row(self, terms: list[tuple[int, float]], low: float, high: float) -> None:
        """The sum of the terms is at least `low` and at most `high`."""
        summed: dict[int, float] = {}
        for variable, factor in terms:
            summed[variable] = summed.get(variable, 0.0) + factor
        self.rows.append(summed)
        self.low.append(low)
        self.high.append(high)

    def least(self) -> int | None:
        """The least cost, or None where nothing satisfies all rows."""
        matrix = np.zeros((len(self.rows), len(self.most)))
        for number, terms in enumerate(self.rows):
            for variable, factor in terms.items():
                matrix[number, variable] = factor
        rows = LinearConstraint(matrix, np.array(self.low), np.array(self.high))
        whole = np.ones(len(self.most))
        found = milp(np.array(self.cost), constraints=rows, bounds=Bounds(0, np.array(self.most)), integrality=whole)
        if found.status == 2:
            return None
        if not found.success:
            raise AssertionError(f"the solver gave up: {found.message}")
        return int(np.rint(found.fun))


def fewest_nodes(scene: Scene) -> int | None:
    """The fewest nodes on which the whole gang can run as it wishes; None where it cannot."""
    program = _Program()
    used = [program.variable(1, cost=1.0) for _ in scene.nodes]
    counts = [[program.variable(role.size) for _ in scene.nodes] for role in scene.roles]
    for role, row in zip(scene.roles, counts, strict=True):
        program.row([(x, 1.0) for x in row], role.size, role.size)
        for n, x in enumerate(row):
            program.row([(x, 1.0), (used[n], -role.size)], -np.inf, 0)
        _in_groups(program, scene, role, row)
    for n, node in enumerate(scene.nodes):
        _on_host(program, scene, node, [row[n] for row in counts])
        _on_devices(program, scene, node, [row[n] for row in counts])
    _in_one_domain(program, scene, counts)
    return program.least()


def _in_groups(program: _Program, scene: Scene, role: Role, row: list[int]) -> None:
    size = scene.wish.group_size
    if not scene.wish.group or role.size < size:
        return
    homes = _domains(scene.nodes, scene.wish.group)
    for home in homes.values():
        groups = program.variable(role.size)
        program.row([*((row[n], 1.0) for n in home), (groups, -float(size))], 0, 0)
    for n in set(range(len(row))) - {n for home in homes.values() for n in home}:
        program.row([(row[n], 1.0)], 0, 0)


def _in_one_domain(program: _Program, scene: Scene, counts: list[list[int]]) -> None:
    if not scene.wish.required:
        return
    areas = _areas(scene)
    chosen = [program.variable(1) for _ in areas]
    program.row([(z, 1.0) for z in chosen], 1, 1) if chosen else program.row([], 1, 1)
    for n in range(len(scene.nodes)):
        here = [z for z, area in zip(chosen, areas, strict=True) if n in area]
        for role, row in zip(scene.roles, counts, strict=True):
            program.row([(row[n], 1.0), *((z, -float(role.size)) for z in here)], -np.inf, 0)


def _on_host(program: _Program, scene: Scene, node: Node, here: list[int]) -> None:
    if not node.open or node.free_cpu < 0 or node.free_memory < 0:
        for x in here:
            program.row([(x, 1.0)], 0, 0)
        return
    shapes = [role.shape for role in scene.roles]
    program.row([(x, float(s.cpu)) for x, s in zip(here, shapes, strict=True)], 0, node.free_cpu)
    gib = float(1 << 30)
    program.row([(x, s.memory / gib) for x, s in zip(here, shapes, strict=True)], 0, node.free_memory / gib)


def _on_devices(program: _Program, scene: Scene, node: Node, here: list[int]) -> None:
    served: list[list[tuple[int, float]]] = [[] for _ in here]
    shapes = [role.shape for role in scene.roles]
    for device in node.devices:
        if device.mode in {Mode.IDLE, Mode.SHARED, Mode.SLICED}:
            made = _sliced(program, device, shapes) if device.mig else _shared(program, device, scene.roles)
            for role, shares in enumerate(made):
                program.row([(u, 1.0) for u in shares] + [(here[role], -1.0)], -np.inf, 0)
                served[role] += [(u, 1.0) for u in shares]
    slots = []
    for role, shape in enumerate(shapes):
        if shape.kind is Kind.WHOLE and node.slots:
            slots.append((here[role], float(shape.devices)))
        elif shape.kind is not Kind.NONE:
            program.row([*served[role], (here[role], -float(shape.devices))], 0, 0)
    program.row(slots, 0, node.free_slots)


def _shared(program: _Program, device: Device, roles: tuple[Role, ...]) -> list[list[int]]:
    """Shares of one card for each role: parts beside each other, or the whole of it."""
    shares = [[program.variable(_most(device, role))] for role in roles]
    mib = float(1 << 20)
    milli, amount = [], []
    for (u,), role in zip(shares, roles, strict=True):
        one = _takes(role.shape, device.memory)
        milli.append((u, float(one[0])))
        amount.append((u, one[1] / mib))
    program.row(milli, 0, device.free_milli)
    program.row(amount, 0, device.free_bytes / mib)
    whole = [u for (u,), role in zip(shares, roles, strict=True) if role.shape.kind is Kind.WHOLE]
    parts = [(u, role.size) for (u,), role in zip(shares, roles, strict=True) if role.shape.kind is not Kind.WHOLE]
    for w in whole:
        for u, size in parts:
            program.row([(u, 1.0), (w, float(size))], 0, size)
    return shares


def _most(device: Device, role: Role) -> int:
    if role.shape.kind is Kind.WHOLE:
        return 1 if device.mode is Mode.IDLE else 0
    return role.size if role.shape.kind in {Kind.PORTION, Kind.MEMORY} else 0


def _sliced(program: _Program, device: Device, shapes: list[Shape]) -> list[list[int]]:
    """A variable for every legal start of each role's profile; no memory slice twice, `+me` once a card."""
    card = CARDS[device.model]
    made: list[list[int]] = []
    cover: list[list[tuple[int, float]]] = [[] for _ in range(card.slices)]
    once: dict[str, list[tuple[int, float]]] = {}
    for shape in shapes:
        profile = card.profiles.get(shape.profile) if shape.kind is Kind.SLICE else None
        variables = []
        for start in profile.starts if profile else ():
            taken = bool(profile and device.mask & profile.mask(start))
            b = program.variable(0 if taken else 1)
            variables.append(b)
            for slice_ in range(start, start + (profile.memory if profile else 0)):
                cover[slice_].append((b, 1.0))
            if shape.profile.endswith("+me"):
                once.setdefault(shape.profile, []).append((b, 1.0))
        made.append(variables)
    for terms in cover:
        program.row(terms, 0, 1)
    for name, terms in once.items():
        program.row(terms, 0, 0 if name in _media(device) else 1)
    return made
