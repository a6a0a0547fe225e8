"""What is left free in one node pool, in all: asked for every head that finds no room, so it is counted as it changes.

Kept by the capacity index beside its bitmaps; read by reasoning. A node that changed is counted anew when somebody
asks, so a change and its undo cost one entry in a set.
Holds: the total is the sum over the nodes that take work from everybody; the few others (tainted, closing, out of
service) are held against whoever asks.
"""

from __future__ import annotations

from collections.abc import Sequence

from muster_kernel.quantities import GPU, PORTION_STEP, UNITS_PER_MILLI
from muster_scheduler.domain.fleet.eligibility import ANY_NODE, Eligibility, excluded
from muster_scheduler.domain.fleet.nodes import Device, Mode, Node


class Leftover:
    """The free devices of the nodes of one pool, in 1/7,000 GPU."""

    __slots__ = ("_free", "_nodes", "_special", "_stale", "_total")

    def __init__(self, nodes: Sequence[Node]) -> None:
        """`nodes` by their ordinals; one whose state changes comes with a new index, and so with a new one of this."""
        self._nodes = nodes
        self._free = [0] * len(nodes)
        self._special = [n for n, node in enumerate(nodes) if not node.open or node.closes or node.taints]
        self._stale = set(range(len(nodes)))
        self._total = 0

    def mark(self, ordinal: int) -> None:
        """Something of that node was taken or given back."""
        self._stale.add(ordinal)

    def mark_many(self, ordinals: set[int]) -> None:
        """As `mark` of each."""
        self._stale |= ordinals

    def of(self, asked: Eligibility, now: int) -> int:
        """What the nodes that this eligibility may use have free."""
        for ordinal in self._stale:
            free = free_units(self._nodes[ordinal])
            self._total += free - self._free[ordinal]
            self._free[ordinal] = free
        self._stale.clear()
        nodes = self._nodes
        if asked.types is not None or asked.avoided or asked.kept:
            return sum(self._free[n] for n in range(len(nodes)) if excluded(asked, nodes[n], now) is None)
        shut = (n for n in self._special if excluded(asked, nodes[n], now) is not None)
        return self._total - sum(self._free[n] for n in shut)

    def check(self) -> None:
        """The counted total is what the nodes say."""
        free = sum(free_units(node) for node in self._nodes if excluded(ANY_NODE, node, 0) is None)
        if self.of(ANY_NODE, 0) != free:
            raise AssertionError(f"{self.of(ANY_NODE, 0)} of 1/7,000 GPU counted as left over, the nodes have {free}")


def free_units(node: Node) -> int:
    """What a node's devices could still give, in 1/7,000 GPU; slices by their memory."""
    if node.slots:
        return node.free_slots * GPU
    return sum(_device_units(device) for device in node.devices)


def _device_units(device: Device) -> int:
    if device.whole_free:
        return GPU
    if device.mig and device.mode in {Mode.IDLE, Mode.SLICED}:
        slices = device.card.slices if device.card else 7
        return GPU * (slices - device.mask.bit_count()) // slices
    return device.share_free * PORTION_STEP * UNITS_PER_MILLI
