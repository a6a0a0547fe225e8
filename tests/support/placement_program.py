"""What is the truth about a fleet of up to 30 nodes, by a mixed-integer program: what fits, and what would be best.

Used by properties and by benchmarks/oracles.py. Written from the books and the tables of MIG, without a line of the
code that is judged. A variable for each role and node counts replicas; one for each card counts shares of it (of a
sliced card: one for each legal start of a profile).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from muster_kernel.mig import CARDS
from muster_scheduler.domain.asked.requests import Kind, Role, Shape
from muster_scheduler.domain.fleet.nodes import UNBOUNDED, Device, Mode, Node
from tests.support.gang_scenes import Scene
from tests.support.placement_oracle import areas, domains, media, takes

_IMPOSSIBLE: Final = 2  # what the solver says where nothing satisfies all rows
_NODES: Final = 1_000  # of its search: of equal cards there are too many equal ways to try them all
_TINY: Final = 1e-6


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
        """The least cost, or None where nothing satisfies all rows.

        Where the search ends at its limit: what the cost is at least. A gap is then told too large, never too small.
        """
        entries = [(number, x, factor) for number, terms in enumerate(self.rows) for x, factor in terms.items()]
        at, variables, factors = zip(*entries, strict=True)
        matrix = csr_array((factors, (at, variables)), shape=(len(self.rows), len(self.most)))
        rows = LinearConstraint(matrix, np.array(self.low), np.array(self.high))
        whole = np.ones(len(self.most))
        found = milp(
            np.array(self.cost),
            constraints=rows,
            bounds=Bounds(0, np.array(self.most)),
            integrality=whole,
            options={"node_limit": _NODES},
        )
        if found.status == _IMPOSSIBLE:
            return None
        if found.x is None:
            raise AssertionError(f"the solver gave up: {found.message}")
        return int(np.rint(found.fun)) if found.success else int(np.ceil(found.mip_dual_bound - _TINY))


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
    _on_nodes(program, scene, counts)
    _in_one_domain(program, scene, counts)
    return program.least()


def fewest_cards(scene: Scene) -> int | None:
    """On how few cards that are idle now all replicas can run beside what is shared already; None where they cannot.

    Replicas go anywhere: a wish to be close together is not looked at.
    """
    if not scene.roles:
        return 0
    program = _Program()
    counts = [[program.variable(role.size) for _ in scene.nodes] for role in scene.roles]
    for role, row in zip(scene.roles, counts, strict=True):
        program.row([(x, 1.0) for x in row], role.size, role.size)
    _on_nodes(program, scene, counts, opened=1.0)
    return program.least()


def most_served(scene: Scene) -> int:
    """The most that can run at once of these replicas, each for itself, as the sum of their charges in 1/7,000 GPU."""
    program = _Program()
    counts = [[program.variable(role.size, cost=-float(role.charge)) for _ in scene.nodes] for role in scene.roles]
    for role, row in zip(scene.roles, counts, strict=True):
        program.row([(x, 1.0) for x in row], 0, role.size)
    _on_nodes(program, scene, counts)
    served = program.least()
    assert served is not None, "nothing at all is always possible"
    return -served


def _on_nodes(program: _Program, scene: Scene, counts: list[list[int]], opened: float = 0.0) -> None:
    """Replicas stay within what each node has free. opened: the cost of every idle card that is made use of."""
    for n, node in enumerate(scene.nodes):
        _on_host(program, scene, node, [row[n] for row in counts])
        _on_devices(program, scene, node, [row[n] for row in counts], opened)


def _in_groups(program: _Program, scene: Scene, role: Role, row: list[int]) -> None:
    size = scene.wish.group_size
    if not scene.wish.group or role.size < size:
        return
    homes = domains(scene.nodes, scene.wish.group)
    for home in homes.values():
        groups = program.variable(role.size)
        program.row([*((row[n], 1.0) for n in home), (groups, -float(size))], 0, 0)
    for n in set(range(len(row))) - {n for home in homes.values() for n in home}:
        program.row([(row[n], 1.0)], 0, 0)


def _in_one_domain(program: _Program, scene: Scene, counts: list[list[int]]) -> None:
    if not scene.wish.required:
        return
    homes = areas(scene)
    chosen = [program.variable(1) for _ in homes]
    program.row([(z, 1.0) for z in chosen], 1, 1) if chosen else program.row([], 1, 1)
    for n in range(len(scene.nodes)):
        here = [z for z, area in zip(chosen, homes, strict=True) if n in area]
        for role, row in zip(scene.roles, counts, strict=True):
            program.row([(row[n], 1.0), *((z, -float(role.size)) for z in here)], -np.inf, 0)


def _on_host(program: _Program, scene: Scene, node: Node, here: list[int]) -> None:
    places = node.most_replicas - len(node.entries)
    if not node.open or min(node.free_cpu, node.free_memory, places) < 0:
        for x in here:
            program.row([(x, 1.0)], 0, 0)
        return
    shapes = [role.shape for role in scene.roles]
    program.row([(x, float(s.cpu)) for x, s in zip(here, shapes, strict=True)], 0, node.free_cpu)
    gib = float(1 << 30)
    program.row([(x, s.memory / gib) for x, s in zip(here, shapes, strict=True)], 0, node.free_memory / gib)
    if node.most_replicas < UNBOUNDED:
        program.row([(x, 1.0) for x in here], 0, places)


def _on_devices(program: _Program, scene: Scene, node: Node, here: list[int], opened: float) -> None:
    served: list[list[tuple[int, float]]] = [[] for _ in here]
    shapes = [role.shape for role in scene.roles]
    for device in node.devices:
        if device.mode in {Mode.IDLE, Mode.SHARED, Mode.SLICED}:
            made = _sliced(program, device, shapes) if device.mig else _shared(program, device, scene.roles)
            if opened and not device.entries:
                _open(program, made, opened)
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


def _open(program: _Program, made: list[list[int]], cost: float) -> None:
    used = program.variable(1, cost)
    for shares in made:
        for share in shares:
            program.row([(share, 1.0), (used, -program.most[share])], -np.inf, 0)


def _shared(program: _Program, device: Device, roles: tuple[Role, ...]) -> list[list[int]]:
    """Shares of one card for each role: parts beside each other, or the whole of it."""
    shares = [[program.variable(_most(device, role))] for role in roles]
    mib = float(1 << 20)
    milli, amount = [], []
    for (u,), role in zip(shares, roles, strict=True):
        one = takes(role.shape, device.memory)
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
        program.row(terms, 0, 0 if name in media(device) else 1)
    return made
