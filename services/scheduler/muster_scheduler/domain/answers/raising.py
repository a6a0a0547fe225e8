"""The smallest quota with which a workload would get its room from others: tried in the live state and taken back.

Called for what waits although, or because, its project has not more quota. Which quota would be enough is found by the
fair shares alone; room is then looked for once. Holds: the state is as it was afterwards.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from muster_kernel.quantities import GPU
from muster_scheduler.domain.answers.attempts import attempts
from muster_scheduler.domain.answers.rivals import own_first
from muster_scheduler.domain.answers.shares import all_shares
from muster_scheduler.domain.answers.trying import taken_back
from muster_scheduler.domain.answers.viewing import Viewer
from muster_scheduler.domain.answers.wording import gpus
from muster_scheduler.domain.asked.quotas import NO_QUOTA
from muster_scheduler.domain.asked.workloads import Request, Workload
from muster_scheduler.domain.books.queues import Project
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.placement.place import amount_before


def enough_quota(world: World, workload: Workload, request: Request, pool: str, viewer: Viewer) -> list[str]:
    """The smallest quota of its project, in whole GPUs more, with which others would make room."""
    project = world.queues.projects.get(workload.project)
    held = world.queues.account(workload.project, pool).allocated
    needed = held + amount_before(world, request, pool).gpu
    deserved = world.queues.quota(workload.project, pool).deserved
    if project is None or needed <= deserved:
        return []
    steps = range(1, -(-(needed - deserved) // GPU) + 1)
    fewest = bisect_left(
        steps, True, key=lambda more: _shares_admit(world, project, pool, deserved + more * GPU, needed)
    )
    least = min(needed, deserved + steps[fewest] * GPU) if fewest < len(steps) else needed
    for tried in dict.fromkeys((least, needed)):
        told = _room_with(world, workload, project, pool, tried, viewer)
        if told:
            return [f"{workload.project} deserved {gpus(tried)} in node pool {pool} {told}"]
    return []


def _room_with(world: World, workload: Workload, project: Project, pool: str, deserved: int, viewer: Viewer) -> str:
    """Who would leave for it if its project deserved so much, in 1/7,000 GPU; empty where nobody would."""
    with _deserving(world, project, pool, deserved):
        made = room_made(world, workload, pool)
        first = own_first(world, workload, pool, viewer) if made else ""
        return f"({made}){first}" if made else ""


def room_made(world: World, workload: Workload, pool: str) -> str:
    """Who would leave for it; empty where nobody would."""
    return next((each.text for each in attempts(world, workload, [pool]) if not each.lack), "")


def _shares_admit(world: World, project: Project, pool: str, deserved: int, needed: int) -> bool:
    """Whether the project's share would be as much as it needs."""
    with _deserving(world, project, pool, deserved):
        share = all_shares(world, pool).get(project.name)
        return share is not None and max(share.fair, share.deserved) >= needed


@contextmanager
def _deserving(world: World, project: Project, pool: str, deserved: int) -> Iterator[None]:
    with taken_back(world):
        quota = project.quotas.get(pool, NO_QUOTA)._replace(deserved=deserved)
        world.queues.put(replace(project, quotas={**project.quotas, pool: quota}))
        yield
