"""Where a replica has to go, by the books and by brute force: every node is asked by `fleet.fitting.fit`.

Used by tests of domain/deciding. Slow and obvious: no index, no columns, no arrays.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import NamedTuple

from muster_kernel.mig import CARDS
from muster_scheduler.domain.asked.requests import Grant, Holder, Kind, Shape
from muster_scheduler.domain.books.inventory import Inventory
from muster_scheduler.domain.fleet.fitting import fit
from muster_scheduler.domain.fleet.nodes import Device, Mig, Mode, Node
from muster_scheduler.domain.journal import Journal


class Expected(NamedTuple):
    """Where a replica goes: a node, its devices and starts as in `taking.Run`, and what it is charged."""

    node: int
    mask: int
    start: int
    units: int


class Oracle:
    """The same pool as the index's, as books."""

    def __init__(self, nodes: Sequence[Node], *, spread: bool = False) -> None:
        self.inventory = Inventory(Journal())
        self.inventory.put_nodes(nodes)
        self.nodes = list(nodes)
        self.spread = spread

    def place(self, name: str, shape: Shape) -> Expected | None:
        """Charges one replica to the best of all nodes, each of which is asked; None where it fits nowhere."""
        best: tuple[tuple[int, ...], int, Grant] | None = None
        for at, node in enumerate(self.nodes):
            grant = fit(node, shape, Mig.DYNAMIC)
            if not node.open or not isinstance(grant, Grant):
                continue
            key = _key(node, shape)
            key = tuple(-part for part in key) if self.spread else key
            if best is None or (key, at) < best[:2]:
                best = key, at, grant
        if best is None:
            return None
        _, at, grant = best
        self.inventory.charge(Holder(name, 1, 1, "", 0, 0), self.nodes[at].key, grant)
        slots = [self.nodes[at].device(share.device) for share in grant.shares]
        by_slot = sorted((d.slot, s.start) for d, s in zip(slots, grant.shares, strict=True) if d is not None)
        start = sum(start << 4 * position for position, (_, start) in enumerate(by_slot))
        return Expected(at, sum(1 << slot for slot, _ in by_slot), start, grant.charge)


def _cpu_key(milli: int) -> int:
    if milli < 1024:
        return milli // 64
    octave = milli.bit_length() - 1
    return min(191, 16 + (octave - 10) * 16 + (milli >> octave - 4) - 16)


def _key(node: Node, shape: Shape) -> tuple[int, ...]:
    by_idle = (min(16, node.idle), _cpu_key(node.free_cpu))
    if shape.kind in {Kind.NONE, Kind.WHOLE}:
        return by_idle
    if shape.kind is Kind.SLICE:
        return (max(_longest(device) for device in node.devices if device.mig and device.healthy),)
    needed = shape.milli // 10 if shape.kind is Kind.PORTION else 0
    if shape.kind is Kind.MEMORY:
        needed = min(shape.bytes * 100 // device.memory for device in node.devices)
    free = [d.share_free for d in node.devices if d.mode is Mode.SHARED and d.free_milli > 0]
    enough = [share for share in free if share >= needed - 1]
    return (0, min(enough), 0) if enough else (1, *by_idle)


def _longest(device: Device) -> int:
    card = CARDS[device.model]
    runs = [p.memory for p in card.profiles.values() for s in p.starts if not p.mask(s) & device.mask]
    return max(runs, default=0)


def plain(*names: str) -> list[ModuleType]:
    """Modules of the scheduler's domain as they are where numba is missing: apart from those that are loaded."""
    prefix = "muster_scheduler.domain."
    apart = [name for name in sys.modules if name.startswith((f"{prefix}deciding", f"{prefix}compiling"))]
    kept = {name: sys.modules.pop(name) for name in apart}
    numba = sys.modules.get("numba")
    sys.modules["numba"] = None  # type: ignore[assignment]
    try:
        return [importlib.import_module(prefix + name) for name in names]
    finally:
        del sys.modules["numba"]
        if numba is not None:
            sys.modules["numba"] = numba
        for name in [name for name in sys.modules if name.startswith((f"{prefix}deciding", f"{prefix}compiling"))]:
            del sys.modules[name]
        sys.modules.update(kept)
