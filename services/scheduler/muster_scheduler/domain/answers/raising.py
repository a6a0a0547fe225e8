"""Whether a larger quota would let a workload take its room from others: tried in the live state and taken back.

Called for what waits although, or because, its project has not more quota. Holds: the state is as it was afterwards.
"""

from __future__ import annotations

from dataclasses import replace

from muster_scheduler.domain.answers.attempts import attempts
from muster_scheduler.domain.answers.wording import gpus
from muster_scheduler.domain.asked.quotas import NO_QUOTA
from muster_scheduler.domain.asked.workloads import Request, Workload
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.placement.place import amount_before


def enough_quota(world: World, workload: Workload, request: Request, pool: str) -> list[str]:
    """The smallest quota of its project with which others would make room, where it has less than that."""
    held = world.queues.account(workload.project, pool).allocated
    deserved = held + amount_before(world, request, pool).gpu
    if deserved <= world.queues.quota(workload.project, pool).deserved:
        return []
    made = room_with(world, workload, pool, deserved)
    return [f"{workload.project} deserved {gpus(deserved)} in node pool {pool} ({made})"] if made else []


def room_with(world: World, workload: Workload, pool: str, deserved: int) -> str:
    """Who would leave for it if its project deserved so much, in 1/7,000 GPU; empty where nobody would."""
    project = world.queues.projects.get(workload.project)
    if project is None:
        return ""
    mark = world.journal.mark()
    quota = project.quotas.get(pool, NO_QUOTA)._replace(deserved=deserved)
    world.queues.put(replace(project, quotas={**project.quotas, pool: quota}))
    made = next((each.text for each in attempts(world, workload) if not each.lack), "")
    world.journal.rollback(mark)
    return made
