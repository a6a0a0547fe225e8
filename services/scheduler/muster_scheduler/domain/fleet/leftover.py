"""What is left free in one node pool, in all: asked for every head that finds no room, so it is counted as it changes.

Kept by the capacity index beside its bitmaps; read by reasoning. A node that changed is counted anew when somebody
asks, so a change and its undo cost one entry in a set.
Holds: cards and MIG slices are counted apart, since no request may take the one for the other; slices count as the
accounts charge them, by their compute. A total is the sum over the nodes that take work from everybody; the few others
(tainted, closing, out of service) are held against whoever asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from muster_kernel.mig import compute_of
from muster_kernel.quantities import GPU, PORTION_STEP, UNITS_PER_MILLI, UNITS_PER_SEVENTH
from muster_scheduler.domain.fleet.eligibility import ANY_NODE, Eligibility, excluded
from muster_scheduler.domain.fleet.nodes import Device, Mode, Node

_NONE: Final = (0, 0)


class Leftover:
    """The free devices of the nodes of one pool, in 1/7,000 GPU."""

    __slots__ = ("_free", "_nodes", "_special", "_stale", "_totals")

    def __init__(self, nodes: Sequence[Node]) -> None:
        """`nodes` by their ordinals; one whose state changes comes with a new index, and so with a new one of this."""
        self._nodes = nodes
        self._free = [_NONE] * len(nodes)
        self._special = [n for n, node in enumerate(nodes) if not node.open or node.closes or node.taints]
        self._stale = set(range(len(nodes)))
        self._totals = [0, 0]

    def mark(self, ordinal: int) -> None:
        """Something of that node was taken or given back."""
        self._stale.add(ordinal)

    def mark_many(self, ordinals: set[int]) -> None:
        """As `mark` of each."""
        self._stale |= ordinals

    def of(self, asked: Eligibility, now: int, *, sliced: bool = False) -> int:
        """What the nodes that this eligibility may use have free. sliced: of MIG slices, else of cards."""
        totals = self._totals
        for ordinal in self._stale:
            before, free = self._free[ordinal], free_units(self._nodes[ordinal])
            totals[0] += free[0] - before[0]
            totals[1] += free[1] - before[1]
            self._free[ordinal] = free
        self._stale.clear()
        nodes, free_of = self._nodes, self._free
        if asked.types is not None or asked.avoided or asked.closed or asked.kept:
            return sum(free_of[n][sliced] for n in range(len(nodes)) if excluded(asked, nodes[n], now) is None)
        shut = (n for n in self._special if excluded(asked, nodes[n], now) is not None)
        return totals[sliced] - sum(free_of[n][sliced] for n in shut)

    def check(self) -> None:
        """The counted total is what the nodes say."""
        for sliced in (False, True):
            free = sum(free_units(node)[sliced] for node in self._nodes if excluded(ANY_NODE, node, 0) is None)
            kept = self.of(ANY_NODE, 0, sliced=sliced)
            if kept != free:
                raise AssertionError(f"{kept} of 1/7,000 GPU counted as left over, the nodes have {free}")


def free_units(node: Node) -> tuple[int, int]:
    """What a node could still give of cards and of MIG slices, in 1/7,000 GPU."""
    if node.slots:
        return node.free_slots * GPU, 0
    cards = slices = 0
    for device in node.devices:
        if device.mig:
            slices += _slice_units(device)
        else:
            cards += GPU if device.whole_free else device.share_free * PORTION_STEP * UNITS_PER_MILLI
    return cards, slices


def _slice_units(device: Device) -> int:
    if device.mode not in {Mode.IDLE, Mode.SLICED}:
        return 0
    return GPU - UNITS_PER_SEVENTH * sum(compute_of(share.profile) for share in device.entries.values())
