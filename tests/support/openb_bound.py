"""How far any policy could come: a configuration LP over the pods of one seed, solved by column generation.

A column is one way to fill one GPU of a node type with portions; whole GPUs are columns of their own. CPU and memory
are pooled over the nodes of a type, and pods may be left out at will, so that its optimum is at or above whatever a
scheduler can allocate. Used by tests/benchmarks/openb.py, which prints it beside what was allocated.
"""

from __future__ import annotations

from collections import Counter
from math import gcd
from typing import Any, Final, NamedTuple

import highspy
import numpy as np

from tests.support.openb_trace import Class, Fleet

_WHOLE: Final = 1000
_TINY: Final = 1e-9
_ROUNDS: Final = 400


class _Kind(NamedTuple):
    """Equal nodes: their shape, and how many there are."""

    cpu: int
    memory: int
    devices: int
    model: int
    number: int


class Bound(NamedTuple):
    """milli: no schedule allocates more; placed: how many of each class the LP's optimum places."""

    milli: float
    placed: dict[int, float]


def bound(fleet: Fleet, classes: list[Class], offered: dict[int, int]) -> Bound:
    """The bound on milli-GPU for these pods. offered: class number to how many arrive."""
    program = _Program(_kinds(fleet), classes, offered)
    for _ in range(_ROUNDS):
        if not program.improve():
            break
    return program.answer()


def _kinds(fleet: Fleet) -> list[_Kind]:
    shapes = zip(fleet.cpu.tolist(), fleet.memory.tolist(), fleet.devices.tolist(), fleet.model.tolist(), strict=True)
    return [_Kind(*shape, count) for shape, count in sorted(Counter(shapes).items())]


class _Program:
    """Rows: GPUs, CPU and memory of each kind of node, then the pods of each class; columns are added as they pay."""

    def __init__(self, kinds: list[_Kind], classes: list[Class], offered: dict[int, int]) -> None:
        self._kinds, self._classes = kinds, classes
        self._offered = offered
        self._numbers = {k: 3 * len(kinds) + at for at, k in enumerate(sorted(offered))}
        portions = [classes[k].asked.milli for k in offered if classes[k].asked.devices == 1]
        self._unit = gcd(_WHOLE, *portions)
        self._columns: list[dict[int, int]] = []
        self._model: Any = highspy.Highs()  # type: ignore[no-untyped-call]  # annotated in part
        self._model.setOptionValue("output_flag", False)
        for kind in kinds:
            for amount in (kind.devices, kind.cpu / 1000, kind.memory / 2**30):
                self._model.addRow(-highspy.kHighsInf, float(kind.number * amount), 0, [], [])
        for k in self._numbers:
            self._model.addRow(-highspy.kHighsInf, float(offered[k]), 0, [], [])
        for at, kind in enumerate(kinds):
            for k in offered:
                if classes[k].asked.milli == _WHOLE and self._runs(kind, k):
                    self._add(at, {k: 1}, classes[k].asked.devices)

    def _runs(self, kind: _Kind, k: int) -> bool:
        asked, admits, _ = self._classes[k]
        fits = asked.cpu <= kind.cpu and asked.memory <= kind.memory and asked.devices <= kind.devices
        return fits and admits[kind.model]

    def _add(self, at: int, fill: dict[int, int], devices: int) -> None:
        asked = [(self._classes[k].asked, n) for k, n in fill.items()]
        rows = [3 * at, 3 * at + 1, 3 * at + 2, *(self._numbers[k] for k in fill)]
        cpu, memory = (sum(a.cpu * n for a, n in asked) / 1000, sum(a.memory * n for a, n in asked) / 2**30)
        worth = sum(a.milli * a.devices * n for a, n in asked)
        values = np.array([devices, cpu, memory, *fill.values()], np.float64)
        self._model.addCol(-worth / _WHOLE, 0, highspy.kHighsInf, len(rows), np.array(rows, np.int32), values)
        self._columns.append(fill)

    def improve(self) -> bool:
        """Solves, and adds the best fill of each kind of node that would still pay; whether there was one."""
        self._model.run()
        prices = [-price for price in self._model.getSolution().row_dual]
        found = False
        for at in range(len(self._kinds)):
            worth, fill = self._best_fill(at, prices)
            if worth > prices[3 * at] + 1e-7:
                self._add(at, fill, 1)
                found = True
        return found

    def _best_fill(self, at: int, prices: list[float]) -> tuple[float, dict[int, int]]:
        """The portions that together are worth most on one GPU, at these prices: a knapsack in units of milli-GPU."""
        size = _WHOLE // self._unit
        best: list[float] = [0.0] * (size + 1)
        last: list[int] = [-1] * (size + 1)
        items = self._paying(at, prices)
        for room in range(1, size + 1):
            best[room] = best[room - 1]
            for k, weight, worth in items:
                if weight <= room and best[room - weight] + worth > best[room] + _TINY:
                    best[room], last[room] = best[room - weight] + worth, k
        fill: Counter[int] = Counter()
        room = size
        while room:
            k = last[room]
            fill[k] += k >= 0
            room -= self._classes[k].asked.milli // self._unit if k >= 0 else 1
        return best[size], dict(+fill)

    def _paying(self, at: int, prices: list[float]) -> list[tuple[int, int, float]]:
        best: dict[int, tuple[int, int, float]] = {}
        for k, row in self._numbers.items():
            asked = self._classes[k].asked
            if asked.devices != 1 or asked.milli == _WHOLE or not self._runs(self._kinds[at], k):
                continue
            used = asked.cpu / 1000 * prices[3 * at + 1] + asked.memory / 2**30 * prices[3 * at + 2]
            worth = asked.milli / _WHOLE - prices[row] - used
            if worth > max(_TINY, best.get(asked.milli, (0, 0, 0.0))[2]):
                best[asked.milli] = k, asked.milli // self._unit, worth
        return list(best.values())

    def answer(self) -> Bound:
        """The optimum, raised by what columns that are not there could add at its prices: a bound at any time."""
        self._model.run()
        prices = [-price for price in self._model.getSolution().row_dual]
        gpus = -self._model.getInfo().objective_function_value
        for at, kind in enumerate(self._kinds):
            gpus += kind.number * kind.devices * max(0.0, self._best_fill(at, prices)[0] - prices[3 * at])
        placed: dict[int, float] = dict.fromkeys(self._offered, 0.0)
        for amount, fill in zip(self._model.getSolution().col_value, self._columns, strict=True):
            for k, number in fill.items():
                placed[k] += amount * number
        return Bound(_WHOLE * gpus, placed)
