"""What usually arrives: classes of requests and how often each was asked for.

Made by whoever knows the arrivals' mix (the books, a trace), read by the strategies. It says nothing of the order in
which work arrives. Everything made of it is integer arithmetic on counts, so that equal mixes give equal decisions.
Holds: the order in which classes are given changes nothing that is made of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from muster_scheduler.domain.fleet.columns import Bools, Ints64

CPU: Final = 0
MEMORY: Final = 1
DEVICES: Final = 2
PORTION: Final = 3
_GOLDEN: Final = 618_033_988_749_895  # of 10**15: the golden ratio, whose multiples fill an interval most evenly
_ONE: Final = 10**15


class Asked(NamedTuple):
    """One replica's request. cpu: milli-CPU; memory: bytes; devices: how many; milli: of each, 1000 is a whole one."""

    cpu: int
    memory: int
    devices: int
    milli: int


class Popularity(NamedTuple):
    """A mix. asked: [K, 4] classes as `Asked`; counts: [K] how often each arrives; admits: [K, T] its node types."""

    asked: Ints64
    counts: Ints64
    admits: Bools


def popularity_of(classes: Sequence[tuple[Asked, Sequence[bool]]], counts: Sequence[int]) -> Popularity:
    """The mix of these classes, each with the node types it may use; sorted by devices, portion, CPU and memory.

    Raises ValueError where nothing arrives at all: then there is nothing to look ahead to.
    """
    if not classes or min(counts) < 1:
        raise ValueError(f"a mix has at least one class, and each arrives at least once, not {list(counts)[:8]}")
    order = sorted(range(len(classes)), key=lambda k: _sorting(*classes[k]))
    return Popularity(
        np.array([classes[k][0] for k in order], np.int64),
        np.array([counts[k] for k in order], np.int64),
        np.array([classes[k][1] for k in order], np.bool_),
    )


def _sorting(asked: Asked, admits: Sequence[bool]) -> tuple[int, int, int, int, tuple[bool, ...]]:
    return asked.devices, asked.milli, asked.cpu, asked.memory, tuple(admits)


def futures_of(popularity: Popularity, count: int, length: int) -> Ints64:
    """`count` futures of `length` arrivals each, the largest first: classes, shape [count, length].

    An even sample without randomness: the k-th arrival is the class at the k-th multiple of the golden ratio along the
    line on which every class has its share. Largest first, since a node that keeps eight devices together is one that a
    request for eight can still use: what is small finds its place afterwards.
    """
    ends = np.cumsum(popularity.counts)
    points = np.arange(count * length, dtype=object) * _GOLDEN % _ONE * int(ends[-1]) // _ONE
    drawn = np.searchsorted(ends, points.astype(np.int64), side="right").reshape(count, length)
    size = popularity.asked[:, DEVICES] * popularity.asked[:, PORTION]
    return np.take_along_axis(drawn, np.argsort(-size[drawn], axis=1, kind="stable"), axis=1).astype(np.int64)


class Typical(NamedTuple):
    """The commonest classes, by node type.

    rows: [r, 4] CPU, devices, portion and count of those that the type admits; starts: [T + 1] where each type's rows
    begin; others: [T] how many typical arrivals its devices do not serve; all: how many typical arrivals there are.
    """

    rows: Ints64
    starts: Ints64
    others: Ints64
    all: int


def typical_of(popularity: Popularity, percent: int = 95) -> Typical:
    """The classes that make up `percent` of all arrivals, the commonest first; memory is not looked at, as in FGD."""
    merged: dict[tuple[int, int, int, tuple[bool, ...]], int] = {}
    for asked, count, admits in zip(
        popularity.asked.tolist(), popularity.counts.tolist(), popularity.admits, strict=True
    ):
        name = asked[CPU], asked[DEVICES], asked[PORTION], tuple(admits.tolist())
        merged[name] = merged.get(name, 0) + count
    total = sum(merged.values())
    kept, seen = [], 0
    for name, count in sorted(merged.items(), key=lambda one: (-one[1], one[0])):
        if 100 * seen >= percent * total:
            break
        kept.append((*name, count))
        seen += count
    return _by_type(kept, popularity.admits.shape[1])


def _by_type(kept: list[tuple[int, int, int, tuple[bool, ...], int]], types: int) -> Typical:
    rows: list[tuple[int, int, int, int]] = []
    starts, others = [0], []
    for kind in range(types):
        served: dict[tuple[int, int, int], int] = {}
        elsewhere = 0
        for cpu, devices, milli, admits, count in kept:
            if devices and admits[kind]:
                served[cpu, devices, milli] = served.get((cpu, devices, milli), 0) + count
            else:
                elsewhere += count
        rows += [(*name, count) for name, count in sorted(served.items())]
        starts.append(len(rows))
        others.append(elsewhere)
    table = np.array(rows, np.int64).reshape(-1, 4)
    return Typical(table, np.array(starts, np.int64), np.array(others, np.int64), sum(one[-1] for one in kept))
