"""What a workload asks for: one shape per role, a gang as a list of roles.

Values only. Made by stream/ from an admission, read by placement, accounts and explanations.
Amounts are integers in base units: milli-CPU, bytes, milli-GPU, and 1/7,000 GPU for what the accounts charge.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from muster_kernel.mig import compute_of
from muster_kernel.quantities import GPU, UNITS_PER_MILLI, UNITS_PER_SEVENTH, memory_units

Amounts = tuple[tuple[str, int], ...]
"""Named resources beside CPU, memory and devices, in whole units, by name; ephemeral-storage is one of them."""
STORAGE: Final = "ephemeral-storage"
"""The one named resource that counts bytes."""


class Kind(StrEnum):
    """How a replica takes devices."""

    NONE = "none"
    WHOLE = "whole"
    PORTION = "portion"
    MEMORY = "memory"
    SLICE = "slice"


class Shape(NamedTuple):
    """What one replica needs on its node."""

    cpu: int = 0  # milli-CPU
    memory: int = 0  # bytes
    kind: Kind = Kind.NONE
    devices: int = 0  # distinct devices
    milli: int = 0  # PORTION: milli-GPU of each device
    bytes: int = 0  # MEMORY: device memory of each device
    profile: str = ""  # SLICE: the MIG profile of each device
    extra: Amounts = ()


class Role(NamedTuple):
    """`size` identical replicas. `charge` is what one costs in the accounts before it is placed, in 1/7,000 GPU."""

    name: str
    size: int
    shape: Shape
    charge: int


class Share(NamedTuple):
    """What one replica holds of one device. `start` and `mask` are set for a slice."""

    device: str
    kind: Kind
    milli: int = 0
    bytes: int = 0
    profile: str = ""
    start: int = 0
    mask: int = 0


class Grant(NamedTuple):
    """What one replica holds of its node; `charge` is what that costs in the accounts, in 1/7,000 GPU."""

    cpu: int
    memory: int
    shares: tuple[Share, ...] = ()
    slots: int = 0  # anonymous devices
    charge: int = 0
    extra: Amounts = ()


class Holder(msgspec.Struct, frozen=True, order=True, gc=False, cache_hash=True):
    """Who holds a grant: one replica of one run of one workload.

    Such a struct is made in a third of a named tuple's time, knows its hash, and the garbage collector never walks it:
    it refers to nothing that could refer to it.
    """

    workload: str
    generation: int
    attempt: int
    role: str
    rank: int
    k: int


def charge_of(shape: Shape, device_memory: int = 0) -> int:
    """What one replica of this shape costs, in 1/7,000 GPU.

    A memory request costs a fraction of the device chosen (`device_memory` bytes); 0 bytes counts the device as whole.
    """
    match shape.kind:
        case Kind.NONE:
            return 0
        case Kind.WHOLE:
            return shape.devices * GPU
        case Kind.PORTION:
            return shape.devices * shape.milli * UNITS_PER_MILLI
        case Kind.MEMORY:
            each = memory_units(shape.bytes, device_memory) if device_memory else GPU
            return shape.devices * each
        case Kind.SLICE:
            return shape.devices * compute_of(shape.profile) * UNITS_PER_SEVENTH


def total_charge(roles: tuple[Role, ...]) -> int:
    """What the whole gang costs before placement, in 1/7,000 GPU."""
    charge = 0
    for _, size, _, each in roles:  # a plain loop: asked at every arrival and every end
        charge += size * each
    return charge


def replica_count(roles: tuple[Role, ...]) -> int:
    """How many replicas the gang has."""
    return sum(role.size for role in roles)
