"""The openb trace and the arrivals of one seed, as the published experiment has them.

Read by tests/benchmarks/openb.py and the tests of the strategies. A file of pods has the trace's own columns, one row a
pod or, with a column `count`, one row a class of pods.
Holds: the order of a file's rows changes nothing, except that of nodes, which are shuffled once by a fixed seed.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from muster_scheduler.domain.fleet import columns as layout
from muster_scheduler.domain.fleet.columns import Bools, Columns, Ints64
from muster_scheduler.domain.strategies.popularity import Asked, Popularity, popularity_of

DATA: Final = Path(__file__).resolve().parents[1] / "data" / "openb"
TRACES: Final = ("default", "cpu100", "gpushare40", "gpushare100", "gpuspec33", "multigpu50")
LOAD: Final = 1.3  # of the cluster's GPUs is asked for in sum
_SHUFFLE: Final = 7  # the one fixed seed of the nodes' order
_MIB: Final = 1 << 20


class Fleet(NamedTuple):
    """One entry a node: milli-CPU, bytes, GPUs and the number of the model in `models`."""

    cpu: Ints64
    memory: Ints64
    devices: Ints64
    model: Ints64
    models: tuple[str, ...]

    @property
    def milli(self) -> int:
        """All milli-GPU there are."""
        return 1000 * int(self.devices.sum())


class Class(NamedTuple):
    """A class of pods: what one asks for, the models that it may use, and how many are in the list."""

    asked: Asked
    admits: tuple[bool, ...]
    number: int


def read_fleet(path: Path = DATA / "nodes.csv") -> Fleet:
    """The nodes of a file, shuffled once. Raises ValueError where a row is not one of nodes."""
    rows = [row for row in _rows(path, "cpu_milli", "gpu", "model") for _ in range(int(row.get("count") or 1))]
    order = np.random.default_rng(_SHUFFLE).permutation(len(rows))
    models = tuple(sorted({row["model"] for row in rows}))
    numbers = [
        (int(r["cpu_milli"]), int(r["memory_mib"]) * _MIB, int(r["gpu"]), models.index(r["model"])) for r in rows
    ]
    cpu, memory, devices, model = np.array(numbers, np.int64)[order].T
    return Fleet(cpu.copy(), memory.copy(), devices.copy(), model.copy(), models)


def read_classes(trace: str, fleet: Fleet) -> list[Class]:
    """The classes of a trace (a name of `TRACES`, or a file), sorted. A missing gpu_spec means any model."""
    path = DATA / f"{trace}.csv" if trace in TRACES else Path(trace)
    counts: dict[tuple[Asked, tuple[bool, ...]], int] = {}
    for row in _rows(path, "cpu_milli", "num_gpu", "gpu_milli"):
        devices = int(row["num_gpu"])
        milli = 1000 if devices > 1 else int(row["gpu_milli"]) if devices else 0
        asked = Asked(int(row["cpu_milli"]), int(row["memory_mib"]) * _MIB, devices, milli)
        wanted = (row.get("gpu_spec") or "").split("|")
        key = asked, tuple(not wanted[0] or not devices or model in wanted for model in fleet.models)
        counts[key] = counts.get(key, 0) + int(row.get("count") or 1)
    return [Class(*key, counts[key]) for key in sorted(counts)]


def _rows(path: Path, *needed: str) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    missing = [name for name in (*needed, "memory_mib") if not rows or name not in rows[0]]
    if missing:
        raise ValueError(f"{path}: a list of the trace has rows with {', '.join(missing)}")
    return rows


def arrivals(classes: list[Class], fleet: Fleet, seed: int) -> NDArray[np.int64]:
    """The classes of the pods of one seed in their order: shuffled, with more drawn again until the load is reached."""
    random = np.random.default_rng(seed)
    pods = np.repeat(np.arange(len(classes)), [one.number for one in classes])
    milli = np.array([one.asked.devices * one.asked.milli for one in classes])
    order = pods[random.permutation(len(pods))]
    wanted = LOAD * fleet.milli
    while milli[order].sum() < wanted:
        order = np.concatenate([order, pods[random.integers(len(pods), size=256)]])
    return order[: int(np.searchsorted(np.cumsum(milli[order]), wanted)) + 1]


def popularity(classes: list[Class]) -> Popularity:
    """What a policy may know: how often each class arrives."""
    return popularity_of([(one.asked, one.admits) for one in classes], [one.number for one in classes])


def empty_columns(fleet: Fleet) -> Columns:
    """The fleet with nothing on it; the model is the node type."""
    made = layout.empty(tuple(f"node-{number:04}" for number in range(len(fleet.cpu))))
    made.cpu[:], made.memory[:], made.kind[:] = fleet.cpu, fleet.memory, fleet.model
    there = np.arange(layout.SLOTS) < fleet.devices[:, None]
    made.mode[there], made.milli[there] = layout.IDLE, 1000
    made.idle[:], made.open[:] = fleet.devices, True
    return made


def eligible(fleet: Fleet, one: Class) -> Bools:
    """The nodes whose model the class may use."""
    return np.array(one.admits, np.bool_)[fleet.model]
