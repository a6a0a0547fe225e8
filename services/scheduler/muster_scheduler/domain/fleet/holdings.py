"""Who holds whole cards on the nodes of one pool, as arrays: what a search for room could free there is bounded by it.

Kept by the capacity index beside its columns; read by room/bounds.py for every class that might ask others to leave. A
node that changed is read anew when somebody asks, so a change and its undo cost one entry in a set.
Holds: what a node says here follows from its entries and from who runs alone, not from how its workloads are otherwise.
So it says too much: of those who may not be asked to leave, and of shared cards, which count as free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from muster_scheduler.domain.fleet.columns import SLOTS
from muster_scheduler.domain.fleet.nodes import Device, Mode, Node

Ints32 = NDArray[np.int32]

NOBODY: Final = -1
MANY: Final = 1 << 20  # cards of a node on which more hold some than there are slots: nobody counts them
_NEVER_FREE: Final = frozenset({Mode.UNHEALTHY, Mode.FOREIGN})


class Whole(NamedTuple):
    """By node: int32[n] cards that are idle or shared; int32[n, 16] who holds whole ones, and how many of them.

    holder: the number of a project, NOBODY where there is none; each workload has a slot of its own.
    """

    free: Ints32
    holder: Ints32
    cards: Ints32


class Holdings:
    """The whole cards of one pool, by node."""

    __slots__ = ("_nodes", "_stale", "_whole", "projects")

    def __init__(self, nodes: Sequence[Node]) -> None:
        """`nodes` by their ordinals; one whose state changes comes with a new index, and so with a new one of this."""
        self._nodes = nodes
        self._stale = set(range(len(nodes)))
        self._whole: Whole | None = None
        self.projects: dict[str, int] = {}  # their numbers, in the order in which they were met

    def mark(self, ordinal: int) -> None:
        """Something of that node was taken or given back."""
        self._stale.add(ordinal)

    def mark_many(self, ordinals: set[int]) -> None:
        """As `mark` of each."""
        self._stale |= ordinals

    def read(self, project_of: Callable[[str], str | None]) -> Whole:
        """Who holds what now; to be read only. project_of: of a workload's id; None: it does not run.

        A node on which that has changed has to be marked.
        """
        whole = self._whole
        if whole is None:
            shape = len(self._nodes), SLOTS
            whole = Whole(np.zeros(shape[0], np.int32), np.full(shape, NOBODY, np.int32), np.zeros(shape, np.int32))
            self._whole = whole
        for ordinal in sorted(self._stale):
            self._write(whole, ordinal, project_of)
        self._stale.clear()
        return whole

    def _write(self, whole: Whole, ordinal: int, project_of: Callable[[str], str | None]) -> None:
        free, held = whole_cards(self._nodes[ordinal])
        found = [(project, cards) for name, cards in held.items() if (project := project_of(name)) is not None]
        if len(found) > SLOTS:
            free, found = MANY, []
        number = self.projects.setdefault
        whole.free[ordinal] = free
        whole.holder[ordinal] = NOBODY
        whole.holder[ordinal, : len(found)] = [number(project, len(self.projects)) for project, _ in found]
        whole.cards[ordinal] = 0
        whole.cards[ordinal, : len(found)] = [cards for _, cards in found]


def whole_cards(node: Node) -> tuple[int, dict[str, int]]:
    """How many cards are idle or shared, and how many each workload holds as a whole, alone on them."""
    if not node.open:
        return 0, {}
    held: dict[str, int] = {}
    for holder, grant in node.entries.items() if node.slots else ():
        if grant.slots:
            held[holder.workload] = held.get(holder.workload, 0) + grant.slots
    if node.slots:
        return max(0, node.slots - node.foreign_slots - node.used_slots), held
    free = 0
    for device in node.devices:
        if device.mode is Mode.WHOLE and len(device.entries) == 1:
            (holder,) = device.entries
            held[holder.workload] = held.get(holder.workload, 0) + 1
        elif _may_be_idle(device):
            free += 1
    return free, held


def _may_be_idle(device: Device) -> bool:
    """Whether nobody holds it whole. What two hold whole is promised to one of them, who does not leave."""
    return not device.mig and device.mode is not Mode.WHOLE and device.mode not in _NEVER_FREE
