"""Roles of different shape on the same nodes, searched exactly: is there any way at all, and which?

Called by place.py where placing the roles largest first did not work out. Two programs by dynamic programming: over the
devices of a node (can it hold these replicas together?) and over the nodes (can they hold all roles?), where the most
numerous role is maximised for every count of the others, since more of it never hurts.
Holds: within its steps the answer is the truth; nothing found with `steps.spent` is no answer. Nodes that are equal are
looked at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final, NamedTuple

import numpy as np

from muster_scheduler.domain.asked.requests import Kind, Shape
from muster_scheduler.domain.fleet.columns import TAKEN, Columns
from muster_scheduler.domain.fleet.counts import Counts, counts_of
from muster_scheduler.domain.fleet.taking import Run
from muster_scheduler.domain.gangs.devices import Devices, Steps, devices_of, hold
from muster_scheduler.domain.gangs.runs import Unit, laid_out

Asked = Sequence[tuple[Shape, int]]  # roles: what one replica takes, and how many there are
Vector = tuple[int, ...]  # replicas of each role on one node


class Option(NamedTuple):
    """What one node could take: replicas of each role, and the shares of devices that they get, role by role."""

    replicas: Vector
    units: tuple[tuple[Unit, ...], ...]


def pack(columns: Columns, rows: Counts, asked: Asked, steps: Steps) -> list[tuple[Run, ...]] | None:
    """Runs of each role, in the order of `rows`; None where there is no way or the steps are spent (`steps.spent`)."""
    options = _Options(columns, asked, steps)
    layers: list[dict[Vector, _Step]] = [{_nothing(asked): _Step(0, None, None)}]
    for row in rows.tolist():
        layers.append(_next(layers[-1], options.of(row), asked, options.main, steps))
        if steps.spent:
            return None
    goal = _full(asked, options.main)
    if goal not in layers[-1] or layers[-1][goal].main < asked[options.main][1]:
        return None
    return _runs(rows.tolist(), _walk(layers, goal), asked)


class _Step(NamedTuple):
    """The best way to a count of the other roles: how many of the main role, what the last node took, from where."""

    main: int
    before: Vector | None
    option: Option | None


def _nothing(asked: Asked) -> Vector:
    return (0,) * len(asked)


def _full(asked: Asked, main: int) -> Vector:
    return tuple(0 if role == main else size for role, (_, size) in enumerate(asked))


def _next(
    before: dict[Vector, _Step], options: list[Option], asked: Asked, main: int, steps: Steps
) -> dict[Vector, _Step]:
    """One node more: for every count of the other roles the most of the main one."""
    full = _full(asked, main)
    after = {state: _Step(step.main, state, None) for state, step in before.items()}
    steps.use(len(before) * len(options))
    if steps.spent:
        return after
    for state, step in before.items():
        for option in options:
            there = tuple(min(most, a + b) for most, a, b in zip(full, state, option.replicas, strict=True))
            reached = step.main + option.replicas[main]
            known = after.get(there)
            if known is None or known.main < reached:
                after[there] = _Step(reached, state, option)
    return after


def _walk(layers: list[dict[Vector, _Step]], goal: Vector) -> list[Option | None]:
    """What each node takes on the way to the goal."""
    taken: list[Option | None] = []
    state: Vector = goal
    for layer in reversed(layers[1:]):
        step = layer[state]
        taken.append(step.option)
        state = step.before or state
    return taken[::-1]


def _runs(rows: list[int], taken: list[Option | None], asked: Asked) -> list[tuple[Run, ...]]:
    """Numbers the replicas along the nodes; what the last nodes could take beyond the sizes is left."""
    found: list[tuple[Run, ...]] = []
    for role, (shape, size) in enumerate(asked):
        runs: list[Run] = []
        first = 0
        for node, option in zip(rows, taken, strict=True):
            count = min(option.replicas[role], size - first) if option else 0
            if option and count:
                runs += laid_out(shape, node, first, count, fewer(option, role, count, shape.devices))
                first += count
        found.append(tuple(runs))
    return found


def fewer(option: Option, role: int, count: int, devices: int) -> list[Unit]:
    """Shares for `count` of the replicas of a role that the option holds: no device more than `count` times."""
    units: list[Unit] = []
    used: dict[int, int] = {}
    for unit in option.units[role]:
        if len(units) < count * devices and used.get(unit[0], 0) < count:
            units.append(unit)
            used[unit[0]] = used.get(unit[0], 0) + 1
    return units


class _Options:
    """What single nodes could take, remembered for nodes that are alike."""

    def __init__(self, columns: Columns, asked: Asked, steps: Steps) -> None:
        self.columns = columns
        self.asked = asked
        self.steps = steps
        self.main = max(range(len(asked)), key=lambda role: (asked[role][1], -role))
        self.replicas = np.minimum(columns.replicas, sum(size for _, size in asked))  # more make no difference
        self.alone = [counts_of(columns, shape, size) for shape, size in asked]
        self.known: dict[bytes, list[Option]] = {}

    def of(self, row: int) -> list[Option]:
        """The options of one node that no other option of it beats, by count of the other roles."""
        state = (*(getattr(self.columns, name) for name in _STATE), self.replicas)
        key = b"".join(column[row].tobytes() for column in state)
        known = self.known.get(key)
        if known is None:
            known = self.known[key] = list(self._made(row))
        return known

    def _made(self, row: int) -> Iterator[Option]:
        devices = devices_of(self.columns, row)
        limits = [range(int(alone[row]) + 1) for alone in self.alone]
        limits[self.main] = range(1)
        for others in product(*limits):
            best = self._most(row, devices, others)
            if best is not None and any(best.replicas):
                yield best
            if self.steps.spent:
                return

    def _most(self, row: int, devices: Devices, others: Vector) -> Option | None:
        """The most of the main role beside these others, by bisection: whoever holds more holds fewer."""
        best = self._held(row, devices, others)
        low, high = 0, int(self.alone[self.main][row])
        while best is not None and low < high:
            middle = (low + high + 1) // 2
            vector = tuple(middle if role == self.main else count for role, count in enumerate(others))
            found = self._held(row, devices, vector)
            if found is None:
                high = middle - 1
            else:
                best, low = found, middle
        return best

    def _held(self, row: int, devices: Devices, vector: Vector) -> Option | None:
        self.steps.use(1)
        shapes = [shape for shape, _ in self.asked]
        if not _host_holds(self.columns, row, shapes, vector):
            return None
        units = hold(devices, shapes, vector, self.steps)
        return None if units is None else Option(vector, units)


_STATE: Final = (*(name for name in TAKEN if name != "replicas"), "size", "card", "open")


def _host_holds(columns: Columns, row: int, shapes: list[Shape], vector: Vector) -> bool:
    if sum(vector) > int(columns.replicas[row]):
        return False
    both = list(zip(shapes, vector, strict=True))
    if sum(shape.cpu * count for shape, count in both) > int(columns.cpu[row]):
        return False
    if sum(shape.memory * count for shape, count in both) > int(columns.memory[row]):
        return False
    return sum(s.devices * count for s, count in both if s.kind is Kind.WHOLE) <= int(columns.idle[row])
