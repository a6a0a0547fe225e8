"""What a replica has of each of its devices, and what a pod was given of them (kubernetes.md 7.1).

Used where a scheduler of the cluster splits devices: HAMi or KAI. Pure.
Holds: all devices of a replica are split alike; an annotation is anybody's to edit, so that none of them raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from muster_cluster_agent.domain.model import Share
from muster_kernel.quantities import MILLI


@dataclass(frozen=True, slots=True)
class Part:
    """What a replica has of each of its devices; the whole device where both are 0."""

    portion_milli: int = 0
    memory_bytes: int = 0

    @property
    def whole(self) -> bool:
        """Whether it is the whole device."""
        return not self.portion_milli and not self.memory_bytes

    def shares(self, devices: Iterable[str]) -> tuple[Share, ...]:
        """Return this part of each device."""
        return tuple(Share(device, self.whole, self.portion_milli, self.memory_bytes) for device in devices)


@dataclass(frozen=True, slots=True)
class Allocation:
    """The UUIDs of the devices that a pod was given. problem: why they cannot be read."""

    devices: tuple[str, ...] = ()
    problem: str = ""


def part_of(shares: Sequence[Share]) -> Part:
    """Return what a replica has of each of its devices, which `problem_of` has found equal."""
    first = shares[0]
    if first.whole or first.portion_milli >= MILLI:
        return Part()
    return Part(first.portion_milli, first.memory_bytes)


def problem_of(shares: Sequence[Share], node: str, giver: str) -> str:
    """Return why shares of a node's devices cannot be given; empty: they can. giver: the name of what gives them."""
    sliced = [share.device for share in shares if share.slice is not None]
    if sliced:
        return (
            f"device {sliced[0]} of node {node} is given by {giver}, which has no MIG slices; "
            "ask for a portion or memory"
        )
    if len({(share.whole, share.portion_milli, share.memory_bytes) for share in shares}) > 1:
        return f"{giver} gives a replica on node {node} equal parts of its devices, and these differ"
    return ""


def text_of(part: Part) -> str:
    """Return a part as a pod's annotation has it."""
    if part.portion_milli:
        return f"portion={part.portion_milli}"
    return f"bytes={part.memory_bytes}" if part.memory_bytes else "whole"


def part_in(text: str) -> Part | None:
    """Return the part that an annotation says; None: a claim gives the pod's devices."""
    kind, _, amount = text.partition("=")
    number = int(amount) if amount.isascii() and amount.isdigit() and len(amount) <= len(str(1 << 63)) else 0
    if not kind:
        return None
    return Part(number if kind == "portion" else 0, number if kind == "bytes" else 0)


def given(found: Allocation | None, assigned: Sequence[str], *, listed: bool) -> tuple[str, ...] | None:
    """Return the devices that a pod has; None: none yet, or another number than it was assigned.

    listed: whether the devices of its node are known. What is not known is no loss of a device.
    """
    if found is None or len(found.devices) != len(assigned):
        return None
    return tuple(sorted(found.devices)) if listed else ()


def differs(found: Allocation | None, assigned: Sequence[str], *, bound: bool) -> bool:
    """Return whether a pod has fewer or more devices than its replica is charged for.

    bound: it has a node. The scheduler that splits devices writes what it gives before it binds a pod: another one has
    bound a pod that is bound without it.
    """
    return bound if found is None else len(found.devices) != len(assigned)
