"""When past use has faded enough for queues below their fair share to look again.

Called by the state machine before a cycle, and when it says when it wants to be called again. Once in 1/256 of the half
life, which moves no weight by more than 1 in 370.
"""

from __future__ import annotations

from typing import Final

from muster_scheduler.domain.asked.quarantine import pool_place
from muster_scheduler.domain.books.standings import standing_of
from muster_scheduler.domain.books.world import World

_TIMES: Final = 256  # looks in a half life


def look_at_usage(world: World) -> None:
    """Where weights depend on past use and time has passed: whoever waits and holds less than its share is tried."""
    if not world.limits.usage_weight:
        return
    period = world.now * _TIMES // world.limits.usage_half_life
    if period == world.weighed:
        return
    world.weighed = period
    pools = sorted({pool for _, pool in world.waiting.demand})
    for pool in filter(lambda name: world.attends_place(pool_place(name)), pools):
        standing = standing_of(world, pool)
        shares = standing.shares[0] or ()
        for project, row in standing.projects.items():
            waits = (project, pool) in world.waiting.demand
            if waits and shares and world.queues.account(project, pool).allocated < shares[row].fair:
                world.waiting.wake_project(project)
    world.attending_place = ""


def next_look(world: World) -> int | None:
    """When the next look is due; None where nothing waits, or past use does not count."""
    if not world.limits.usage_weight or not world.waiting.demand:
        return None
    return -(-(world.weighed + 1) * world.limits.usage_half_life // _TIMES)
