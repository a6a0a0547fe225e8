"""Intervals of device use, cut on a fixed grid so that the same use is always cut the same way.

Called by `handlers.py` every few seconds for each replica that holds devices. Pure.
Holds: intervals of a replica do not overlap; telling one twice, or cutting again after a restart, gives the very same
(replica, from, to), which is the key under which telemetry counts it once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from muster_cluster_agent.domain.fleet import Device
from muster_cluster_agent.domain.model import Share
from muster_kernel import mig
from muster_kernel.quantities import GPU, UNITS_PER_MILLI, UNITS_PER_SEVENTH, memory_units

GRID: Final = 15.0  # seconds
LONGEST: Final = 3600.0  # seconds: how far back a restarted agent cuts again


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


def intervals(started: float, ended: float | None, done: float, now: float) -> Iterator[tuple[float, float]]:
    """The intervals that are complete at `now` and lie after `done` (both seconds since 1970), oldest first.

    ended: when the devices became free; None: they are still held. An interval ends on the grid, or where the use ends.
    """
    end = now if ended is None else ended
    since = max(started, done, end - LONGEST if done < started else done)
    while since < end:
        boundary = (since // GRID + 1) * GRID
        until = min(boundary, end)
        if until < boundary and ended is None:
            return
        yield since, until
        since = until


def charge(shares: tuple[Share, ...], anonymous: int, devices: Mapping[str, Device]) -> int:
    """What a replica is charged, in 1/7,000 GPU: the scheduler's own arithmetic, in kernel units."""
    return anonymous * GPU + sum(_share_charge(share, devices) for share in shares)


def _share_charge(share: Share, devices: Mapping[str, Device]) -> int:
    if share.slice is not None:
        return mig.compute_of(share.slice.profile) * UNITS_PER_SEVENTH
    if share.memory_bytes:
        device = devices.get(share.device)
        return (
            memory_units(share.memory_bytes, device.memory_bytes) if device is not None and device.memory_bytes else GPU
        )
    return GPU if share.whole or not share.portion_milli else share.portion_milli * UNITS_PER_MILLI
