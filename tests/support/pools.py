"""Node pools and what runs on them as columns and arrays, for tests and benchmarks of making room."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from muster_kernel.quantities import GPU
from muster_scheduler.domain.fleet.columns import IDLE, Columns, empty
from muster_scheduler.domain.room.stock import lift, stock_of
from muster_scheduler.domain.room.values import ALL, Held, Ints, Running, Tree

GIB = 1 << 30


def pool(nodes: int, cards: int = 8, *, cpu: int = 64_000, memory: int = 512 * GIB, size: int = 80 * GIB) -> Columns:
    """Idle nodes, all alike."""
    made = empty(tuple(f"n{number:05d}" for number in range(nodes)))
    made.cpu[:], made.memory[:], made.idle[:], made.open[:] = cpu, memory, cards, True
    made.cpu_total[:], made.memory_total[:], made.idle_total[:] = cpu, memory, cards
    made.mode[:, :cards], made.milli[:, :cards] = IDLE, 1000
    made.bytes[:, :cards] = made.size[:, :cards] = size
    return made


@dataclass(frozen=True, slots=True)
class Part:
    """What a workload holds on one node: `slots` of device slots, of each `milli` and `bytes`."""

    node: int
    slots: int = 1
    cpu: int = 1000
    memory: int = GIB
    milli: int = 1000
    bytes: int = ALL
    slices: int = 0
    replicas: int = 1


@dataclass(frozen=True, slots=True)
class Work:
    """One running workload."""

    queue: int
    parts: tuple[Part, ...]
    placed: int = 0
    units: int = -1  # what it is charged; -1: what its parts come to
    interrupted: int = 1
    lost: int = 0
    priority: int = 50
    extra_units: tuple[int, ...] = field(default=())  # of CPU and memory, where the tree counts these

    @property
    def charged(self) -> tuple[int, ...]:
        """The units of every resource."""
        summed = sum(part.slots.bit_count() * part.milli * GPU // 1000 for part in self.parts)
        return (summed if self.units < 0 else self.units, *self.extra_units)


def running(works: Sequence[Work]) -> Running:
    """The works as arrays; their keys follow their positions."""
    parts = [part for work in works for part in work.parts]
    first = np.cumsum([0, *(len(work.parts) for work in works)])
    nothing = np.zeros(len(parts), np.int64)
    columns = {
        name: _column(parts, name)
        for name in ("node", "cpu", "memory", "replicas", "slots", "milli", "bytes", "slices")
    }
    held = Held(first.astype(np.int64), extra=nothing[:, None][:, :0], anonymous=nothing, media=nothing, **columns)
    names = ("queue", "interrupted", "lost", "placed", "priority")
    queue, interrupted, lost, placed, priority = (_column(works, name) for name in names)
    units = np.array([work.charged for work in works] or np.empty((0, 1)), np.int64)
    return Running(queue, units, interrupted, lost, placed, priority, np.arange(len(works)), held)


def _column(values: Iterable[object], name: str) -> Ints:
    return np.array([getattr(value, name) for value in values], np.int64)


def occupy(columns: Columns, work: Running) -> Columns:
    """A copy of the columns on which the works run."""
    scratch = columns.scratch()
    lift(stock_of(scratch), work.held, np.arange(len(work)), -1)
    return scratch


def tree(*queues: tuple[int, int, int, int]) -> Tree:
    """A tree of (parent, allocated, fair, deserved), in whole GPUs."""
    columns = np.array(queues, np.int64).reshape(-1, 4)
    allocated, fair, deserved = (columns[:, [at]] * GPU for at in (1, 2, 3))
    return Tree(columns[:, 0], allocated, fair, deserved, np.array([True]), allocated)
