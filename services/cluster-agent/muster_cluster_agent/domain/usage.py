"""Intervals of device use, and how many of them fit into one record.

Called by `sampling.py` for the replicas that hold devices. Pure.
Holds: the intervals of one replica follow one another without a gap and without overlap. How use is cut does not matter
to the reader: telemetry counts each moment of a replica once, however often and in whatever pieces it is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from muster_cluster_agent.domain.fleet import Device
from muster_cluster_agent.domain.model import Share, Slots
from muster_kernel import mig
from muster_kernel.quantities import GPU, UNITS_PER_MILLI, UNITS_PER_SEVENTH, memory_units
from muster_kernel.slots import mig_profile

GRID: Final = 15.0  # seconds: the use of a running replica is told up to the last multiple of this
LONGEST: Final = 12 * 3600.0  # seconds of one interval; telemetry takes no longer ones than a day
MOST: Final = 64  # intervals of one replica at once: a month; a clock that was years off must not make millions
_FIXED: Final = 96  # bytes that the numbers, the times and the tags of one sample take at most
_TEXT: Final = 4  # bytes that a text takes beside its own: a tag and its length


@dataclass(frozen=True, slots=True)
class Sample:
    """One interval. Times in seconds since 1970, charge in 1/7,000 GPU."""

    workload_id: str
    generation: int
    attempt: int
    replica: str
    project: str
    name: str
    since: float
    until: float
    charge: int
    devices: tuple[str, ...]


def boundary(now: float) -> float:
    """The last multiple of GRID, in seconds since 1970: until then use is told."""
    return now // GRID * GRID


def intervals(started: float, ended: float | None, done: float, now: float) -> list[tuple[float, float]]:
    """The intervals to tell at `now`: what lies after `done` (both seconds since 1970), oldest first, at most MOST.

    ended: when the devices became free; None: they are still held. A `done` that is to come is none: the clock was set
    back since, and what is told twice counts once.
    """
    end = boundary(now) if ended is None else ended
    return list(islice(_cut(max(started, done) if done <= now else started, end), MOST))


def _cut(since: float, end: float) -> Iterator[tuple[float, float]]:
    while since < end:
        until = min(since + LONGEST, end)
        yield since, until
        since = until


def encoded_size(sample: Sample) -> int:
    """How many bytes a sample takes in a record, or a few more."""
    texts = (sample.workload_id, sample.replica, sample.project, sample.name, *sample.devices)
    return _FIXED + sum(len(text.encode()) + _TEXT for text in texts)


def batches(samples: Iterable[Sample], limit: int) -> Iterator[tuple[Sample, ...]]:
    """The samples in their order, in parts of at most `limit` bytes; one that is larger is a part of its own."""
    part: list[Sample] = []
    size = 0
    for sample in samples:
        added = encoded_size(sample)
        if part and size + added > limit:
            yield tuple(part)
            part, size = [], 0
        part.append(sample)
        size += added
    if part:
        yield tuple(part)


def charge(shares: tuple[Share, ...], slots: Slots, devices: Mapping[str, Device]) -> int:
    """What a replica is charged, in 1/7,000 GPU: the scheduler's own arithmetic, in kernel units."""
    counted = sum(count * _unit_charge(resource) for resource, count in slots)
    return counted + sum(_share_charge(share, devices) for share in shares)


def _unit_charge(resource: str) -> int:
    profile = mig_profile(resource)
    return mig.compute_of(profile) * UNITS_PER_SEVENTH if profile else GPU


def _share_charge(share: Share, devices: Mapping[str, Device]) -> int:
    if share.slice is not None:
        return mig.compute_of(share.slice.profile) * UNITS_PER_SEVENTH
    if share.memory_bytes:
        device = devices.get(share.device)
        return (
            memory_units(share.memory_bytes, device.memory_bytes) if device is not None and device.memory_bytes else GPU
        )
    return GPU if share.whole or not share.portion_milli else share.portion_milli * UNITS_PER_MILLI
