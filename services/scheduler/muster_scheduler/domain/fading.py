"""When past use has faded enough for queues below their fair share to look again.

Called by the state machine before a cycle, and when it says when it wants to be called again. Once in 1/256 of the half
life, which moves no weight by more than 1 in 370.
"""

from __future__ import annotations

from typing import Final

from muster_scheduler.domain.world import World

_TIMES: Final = 256  # looks in a half life


def look_at_usage(world: World) -> None:
    """Where weights depend on past use and time has passed, whoever waits is weighed anew."""
    if not world.limits.usage_weight:
        return
    period = world.now * _TIMES // world.limits.usage_half_life
    if period != world.weighed:
        world.weighed = period
        for _, pool in world.waiting.demand:
            world.unweighed[pool] = None


def next_look(world: World) -> int | None:
    """When the next look is due; None where nothing waits, or past use does not count."""
    if not world.limits.usage_weight or not world.waiting.demand:
        return None
    return -(-(world.weighed + 1) * world.limits.usage_half_life // _TIMES)
