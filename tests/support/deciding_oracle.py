"""What the engine has to decide, by the books and by brute force: every node is asked by `nodes.fit`, head after head.

Used by tests of domain/deciding. Slow and obvious: no index, no columns, no arrays. Shares are given, since they have
oracles of their own.
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
from muster_scheduler.domain.deciding.values import Ask, QueueSpec
from muster_scheduler.domain.fleet.nodes import Device, Mig, Mode, Node, fit
from muster_scheduler.domain.journal import Journal

_MIB = 1 << 20


class Expected(NamedTuple):
    """One decision: as `values.Decision`, without the number of its class."""

    id: str
    node: int
    mask: int
    start: int
    units: int


class Oracle:
    """The same pool as the engine's, as books."""

    def __init__(self, nodes: Sequence[Node], queues: Sequence[QueueSpec], *, spread: bool = False) -> None:
        self.inventory = Inventory(Journal())
        self.inventory.put_nodes(nodes)
        self.nodes = list(nodes)
        self.queues = {queue.name: queue for queue in queues}
        self.held = {name: [0, 0, 0] for name in [*self.queues, ""]}
        self.bound = {name: [0, 0, 0] for name in [*self.queues, ""]}
        self.spread = spread

    def decide(self, asks: Sequence[Ask], shares: dict[str, list[int]]) -> tuple[list[Expected], set[str]]:
        """Decisions in order, and the ids that wait. shares: per queue and resource, -1 where it is not named."""
        waiting = sorted(asks, key=lambda ask: (-ask.priority, ask.queued, ask.id))
        left, found = waiting, list[Expected]()
        while left:
            queue = self._turn({ask.queue for ask in left}, shares)
            ask = next(ask for ask in left if ask.queue == queue)
            left = [other for other in left if other is not ask]
            expected = self._place(ask) if self._may(ask) else None
            if expected is None:
                left = [other for other in left if other[1:4] + other[5:] != ask[1:4] + ask[5:]]
            else:
                found.append(expected)
        placed = {expected.id for expected in found}
        return found, {ask.id for ask in waiting} - placed

    def _line(self, queue: str) -> list[str]:
        return [queue, *self._line(self.queues[queue].parent)] if queue else [""]

    def _turn(self, wanting: set[str], shares: dict[str, list[int]]) -> str:
        alive = {name for queue in wanting for name in self._line(queue)}
        at = ""
        while children := [n for n in alive if n and self.queues[n].parent == at]:
            at = min(children, key=lambda name: (self._fullness(name, shares[name]), name))
        return at

    def _fullness(self, name: str, shares: list[int]) -> int:
        worst = 0
        for resource in range(3):
            share, held, deserved = shares[resource], self.held[name][resource], self.queues[name].deserved[resource]
            if share == -1 or held <= 0:
                continue
            if share == 0:
                worst = max(worst, (1 << 61) + held)
            else:
                over = deserved is not None and held >= deserved
                worst = max(worst, (held << 20) // share + (1 << 60 if over else 0))
        return worst

    def _may(self, ask: Ask) -> bool:
        for name in self._line(ask.queue)[:-1]:
            for resource, more in enumerate(_amounts(ask, ask.units)):
                limit, deserved = self.queues[name].limit[resource], self.queues[name].deserved[resource]
                if more and limit is not None and self.held[name][resource] + more > limit:
                    return False
                bound = 0 if ask.preemptible else self.bound[name][resource] + more
                if more and deserved is not None and bound > deserved:
                    return False
        return True

    def _place(self, ask: Ask) -> Expected | None:
        best: tuple[tuple[int, ...], int, Grant] | None = None
        for at, node in enumerate(self.nodes):
            grant = fit(node, ask.shape, Mig.DYNAMIC)
            if not node.open or not isinstance(grant, Grant):
                continue
            key = _key(node, ask.shape)
            key = tuple(-part for part in key) if self.spread else key
            if best is None or (key, at) < best[:2]:
                best = key, at, grant
        if best is None:
            return None
        _, at, grant = best
        self.inventory.charge(Holder(ask.id, 1, 1, "", 0, 0), self.nodes[at].key, grant)
        for name in self._line(ask.queue):
            for resource, more in enumerate(_amounts(ask, grant.charge)):
                self.held[name][resource] += more
                self.bound[name][resource] += 0 if ask.preemptible else more
        slots = [self.nodes[at].device(share.device) for share in grant.shares]
        by_slot = sorted((d.slot, s.start) for d, s in zip(slots, grant.shares, strict=True) if d is not None)
        start = sum(start << 4 * position for position, (_, start) in enumerate(by_slot))
        return Expected(ask.id, at, sum(1 << slot for slot, _ in by_slot), start, grant.charge)


def _amounts(ask: Ask, units: int) -> tuple[int, int, int]:
    return units, ask.shape.cpu, -(-ask.shape.memory // _MIB)


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
