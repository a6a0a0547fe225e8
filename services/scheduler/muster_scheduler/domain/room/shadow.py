"""Nodes that are kept for another, as somebody sees them who makes room: nothing is free there but what he is given.

Called for the columns of a site. What is free on reserved nodes stays free for the head they are kept for, while the
place of a victim goes to whoever may take it: a reservation protects from those who come later, not from fair shares.
Holds: lifting a workload from these columns frees exactly what it holds. The replicas that a node takes stay as they
are: whoever makes room may have more replicas than its victim.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from muster_scheduler.domain.books.capacity import Capacity
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.fleet.columns import CLOSED, IDLE, SLICED, Columns

_TAKEN = np.uint8(255)


def shut(world: World, capacity: Capacity, columns: Columns, kept: Collection[tuple[str, str]]) -> Columns:
    """A copy of the columns on which these nodes have nothing free; the same ones where none of them is here."""
    known = (node for key in kept if (node := world.inventory.nodes.get(key)) is not None)
    here = sorted(node.ordinal for node in known if world.inventory.capacity(node.cluster, node.pool) is capacity)
    if not here:
        return columns
    made = columns.scratch()
    for amounts in (made.cpu, made.memory, made.extra, made.idle, made.milli, made.bytes):
        amounts[here] = np.minimum(amounts[here], 0)
    modes, masks = made.mode[here], made.mask[here]
    masks[modes == SLICED] = _TAKEN
    modes[modes == IDLE] = CLOSED
    made.mode[here], made.mask[here] = modes, masks
    return made
