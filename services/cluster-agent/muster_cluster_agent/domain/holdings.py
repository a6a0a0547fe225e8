"""Whether a device has room for a replica in addition to the replicas that hold it already.

Called by a back end before it creates a replica. Pure. The arithmetic is the scheduler's: a device is given whole,
shared (portions and GPU memory) or sliced (MIG), never two of these at once. A portion takes its part of the memory.
Holds: the answer does not depend on the order of what is held; a device that no other replica holds is never refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from muster_cluster_agent.domain.fleet import Device
from muster_cluster_agent.domain.model import Share, Slice
from muster_kernel.mig import CARDS
from muster_kernel.quantities import MILLI


@dataclass(frozen=True, slots=True)
class Holding:
    """A share of one device, and the replica that has it. The replica is not GONE."""

    replica: str
    share: Share


def device_conflict(wanted: Sequence[Share], held: Iterable[Holding], devices: Mapping[str, Device]) -> str:
    """Return which device has no room for the shares of a new replica, and who holds it; empty: all have room.

    held: the shares of other replicas, on any devices. devices: what is known of devices, by UUID.
    """
    others: dict[str, list[Holding]] = {share.device: [] for share in wanted}
    for holding in held:
        if holding.share.device in others:
            others[holding.share.device].append(holding)
    for device, holdings in others.items():
        new = [share for share in wanted if share.device == device]
        if holdings and not _fit([*new, *(holding.share for holding in holdings)], devices.get(device)):
            return _described(device, sorted({holding.replica for holding in holdings}))
    return ""


def _described(device: str, replicas: Sequence[str]) -> str:
    more = f" and {len(replicas) - 1} more" if len(replicas) > 1 else ""
    return f"device {device} is still held by replica {replicas[0]}{more}; this is tried again until it has room"


def _fit(shares: Sequence[Share], device: Device | None) -> bool:
    """Return whether one device can have all these shares at once."""
    slices = [share.slice for share in shares if share.slice is not None]
    if slices:
        return len(slices) == len(shares) and _are_apart(slices, device)
    memory = device.memory_bytes if device is not None else 0
    if any(_is_whole(share, memory) for share in shares):
        return len(shares) == 1
    if sum(share.portion_milli for share in shares) > MILLI:
        return False
    return not memory or sum(_memory_of(share, memory) for share in shares) <= memory


def _is_whole(share: Share, memory: int) -> bool:
    """Return whether a share leaves nothing. A request of memory does where the device's memory is unknown (0)."""
    return share.whole or (not share.portion_milli and not (share.memory_bytes and memory))


def _memory_of(share: Share, memory: int) -> int:
    """Return the bytes that a share takes of a device with so much memory; those of a portion are rounded down."""
    return share.memory_bytes or share.portion_milli * memory // MILLI


def _are_apart(slices: Sequence[Slice], device: Device | None) -> bool:
    """Return whether no two slices are the same or overlap. Without the card's geometry a slice is its first slot."""
    card = CARDS.get(device.model) if device is not None else None
    taken: set[int] = set()
    for cut in slices:
        profile = card.profile(cut.profile) if card is not None else None
        slots = range(cut.start, cut.start + (profile.memory if profile is not None else 1))
        if not taken.isdisjoint(slots):
            return False
        taken.update(slots)
    named = [cut.uuid for cut in slices if cut.uuid]
    return len(named) == len(set(named))
