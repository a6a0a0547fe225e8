"""What making room for a waiting workload comes to, in the numbers of this moment.

Called by explain.py for what waits for want of room. Each way in which others would have to move or leave
(room/giving.py) is tried again on the live state and taken back; a way that is barred says by what. What elastic
gangs can do without is not told: where it is enough, the cycle has taken it.
Holds: the state is as it was afterwards; the work is bounded by `_SITES` and by what each way bounds itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import islice
from typing import Final, NamedTuple

from muster_kernel.quantities import format_bytes, format_gpu, format_milli_cpu
from muster_scheduler.domain.answers.viewing import EVERYONE, Viewer
from muster_scheduler.domain.answers.wording import gpus
from muster_scheduler.domain.asked.workloads import SECOND, Workload
from muster_scheduler.domain.books.standing import Standing
from muster_scheduler.domain.books.standings import standing_of
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.placement.place import Budget
from muster_scheduler.domain.room.giving import ask_of, from_others, from_own
from muster_scheduler.domain.room.listing import tree_of
from muster_scheduler.domain.room.moving import by_moving
from muster_scheduler.domain.room.sites import Ask, Room, Site, sites_of
from muster_scheduler.domain.room.values import NoRoom, Obstacle, Tree

_SITES: Final = 3  # pools of clusters that are looked into
_SHOWN: Final = (gpus, lambda milli: f"{format_milli_cpu(milli)} CPU", format_bytes)  # by resource of the accounts


class Way(StrEnum):
    """How others could make room, in the order in which the cycle tries it; RESERVE: for whom some of it is kept."""

    MOVE = "move"
    RECLAIM = "reclaim"
    PREEMPT = "preempt"
    RESERVE = "reserve"


class Attempt(NamedTuple):
    """What one way comes to. lack: what bars it, in a word; empty where it would make room now."""

    way: Way
    lack: str
    text: str


def attempts(
    world: World, workload: Workload, pools: Sequence[str] | None = None, viewer: Viewer = EVERYONE
) -> tuple[Attempt, ...]:
    """What the ways to make room come to for a workload that has quota but no place. pools: only these of its own."""
    if workload.preempted_by:
        return (
            Attempt(Way.RECLAIM, "returning", "it gave up its own place, and displaces no other workload to return"),
        )
    mark = world.journal.mark()
    found: dict[Attempt, None] = {}
    sites = list(islice(sites_of(world, workload, pools), _SITES))
    several = len({site.pool for site in sites}) > 1
    for site in sites:
        where = f"in node pool {site.pool}: " if several else ""
        found |= dict.fromkeys(each._replace(text=where + each.text) for each in _at(site, workload, viewer))
        world.journal.rollback(mark)
    return tuple(found)


def _at(site: Site, workload: Workload, viewer: Viewer) -> Iterator[Attempt]:
    ask, standing = ask_of(site, (workload,), Budget()), standing_of(site.world, site.pool)
    row = standing.projects.get(workload.project)
    if ask is None or ask.over or row is None:
        return
    moved = by_moving(ask)
    if moved:
        yield Attempt(Way.MOVE, "", f"{_workloads(len(moved[0].victims))} would move elsewhere for it")
        return
    tree = tree_of(site.world, standing)
    ask = ask._replace(taker=ask.taker._replace(queue=row))
    mark = site.world.journal.mark()
    yield _reclaim(ask, standing, tree, viewer)
    site.world.journal.rollback(mark)  # what the next way plans for it may be on the same node
    if tree.loose[row].any():
        yield _preempt(ask, standing)
    yield from _out_of_reach(site, standing, viewer)


def _reclaim(ask: Ask, standing: Standing, tree: Tree, viewer: Viewer) -> Attempt:
    made = from_others(ask, standing, tree)
    if not isinstance(made, NoRoom):
        return _would_leave(Way.RECLAIM, made, "of other projects")
    project, shown = ask.members[0].project, _SHOWN[made.resource]
    first, second = made.numbers
    match made.obstacle:
        case Obstacle.SHARE:
            text = f"{project} would hold {shown(first)}, and its fair share is {shown(second)}"
        case Obstacle.NOTHING if second and not viewer.everywhere:  # less what is free, it is what others hold
            text = f"what is free, and what others hold beyond their shares, is less than the {shown(second)} it needs"
        case Obstacle.NOTHING if second:
            there = f"at most {shown(first)} of the {shown(second)} that it needs"
            text = f"free, or held by others beyond their shares: {there}"
        case Obstacle.PLACES:
            text = f"{_would_fit(made)} even if others gave back all that they hold beyond their shares"
        case Obstacle.VICTIMS:
            text = "the evictions would take a project below its fair share"
        case _:
            text = "no other project holds preemptible work beyond its fair share"
    return Attempt(Way.RECLAIM, made.obstacle.value, text + _as_far(made))


def _preempt(ask: Ask, standing: Standing) -> Attempt:
    made = from_own(ask, standing)
    if not isinstance(made, NoRoom):
        return _would_leave(Way.PREEMPT, made, "of its own project")
    if made.obstacle is Obstacle.NOTHING:
        text = f"no preemptible work of {ask.members[0].project} ranks below it"
    else:
        text = f"{_would_fit(made)} even if all preemptible work of its project that ranks below it left"
    return Attempt(Way.PREEMPT, made.obstacle.value, text + _as_far(made))


def _would_leave(way: Way, rooms: tuple[Room, ...], whose: str) -> Attempt:
    return Attempt(way, "", f"{_workloads(len(rooms[0].victims))} {whose} would leave for it")


def _out_of_reach(site: Site, standing: Standing, viewer: Viewer) -> Iterator[Attempt]:
    """What nobody may be asked for in this pool: work that is not preemptible, or has hardly begun."""
    books = site.world.queues
    bound = sum(books.account(project, site.pool).bound.gpu for project in standing.projects)
    if bound:
        much = f"{format_gpu(bound)} of the {gpus(standing.total.gpu)}" if viewer.everywhere else "some of the GPUs"
        text = f"work that is not preemptible holds {much} there"
        yield Attempt(Way.RECLAIM, "non-preemptible", text)
    young, least = _young(site), site.world.limits.minimum_run
    if young:
        text = f"{_workloads(young)} may not be asked to leave before having run for {least // SECOND} s"
        yield Attempt(Way.RECLAIM, "minimum-run", text)


def _young(site: Site) -> int:
    world = site.world
    if not world.limits.minimum_run:
        return 0
    there = (ids for place, ids in world.placed.items() if place[:2] == (site.cluster, site.pool))
    running = (world.workloads[each] for ids in there for each in ids)
    asked = (w for w in running if w.active and w.request is not None and w.request.preemptible)
    return sum(1 for w in asked if w.placed + world.limits.minimum_run > world.now)


def _would_fit(refusal: NoRoom) -> str:
    most, size = refusal.numbers
    return f"{most} of its {size} replicas would fit" if size > 1 else "it would not fit"


def _as_far(refusal: NoRoom) -> str:
    return "" if refusal.exact else " (as far as was searched)"


def _workloads(count: int) -> str:
    return f"{count} {'workload' if count == 1 else 'workloads'}"
