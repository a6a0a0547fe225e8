"""What follows where a class of waiting workloads finds no place: it is not tried again until something changes.

Called by the cycle for heads that it looked at, and by the order of heads for what waits for a node pool that is set
aside.
"""

from __future__ import annotations

from typing import Final

from muster_kernel.reasons import IN_VAIN
from muster_kernel.sentences import Reason
from muster_scheduler.domain.books.classes import ClassKey
from muster_scheduler.domain.books.world import World

_TOLD_A_CYCLE: Final = 256  # members of a blocked class that are told so in one cycle


def block(world: World, key: ClassKey, reason: Reason, *, tell: bool = True) -> None:
    """The class waits until something that it could use changes; its members are told why, where that is new."""
    members = world.waiting.members(key, _TOLD_A_CYCLE) if tell else []
    world.waiting.block(key, reason)
    world.crowded.update(dict.fromkeys(key.pools[:1]))
    if reason.code in IN_VAIN:
        world.relented.update(dict.fromkeys(key.pools[:1]))
    for workload in map(world.workloads.__getitem__, members):
        if workload.told is not reason.code:  # as nearly all: a class that is blocked again has been told so
            world.tell(workload, reason)
