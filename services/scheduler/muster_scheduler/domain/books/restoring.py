"""The queue and the timers after a transaction that was not written: only what it touched is put in order anew.

Called by the state machine at the begin, the commit and the abort of every transaction. Making all that is derived anew
costs seconds with a million waiting, and every question of what would happen ends with an abort.
Holds: afterwards whatever waits stands where the truth has it, every class that the transaction blocked is tried again,
and nothing that was due or given back before it is forgotten; one look too many does no harm.
"""

from __future__ import annotations

from typing import NamedTuple

from muster_scheduler.domain.books.deriving import derive
from muster_scheduler.domain.books.touched import Freed, Touched
from muster_scheduler.domain.books.world import World


class Before(NamedTuple):
    """What a cycle uses up, as it was when the transaction began."""

    freed: dict[tuple[str, str], Freed]
    relented: dict[str, None]
    crowded: dict[str, None]
    weighed: int
    risen: dict[tuple[str, str], None]
    fallen: dict[tuple[str, str], None]


def remember(world: World) -> Before:
    """What `restore` needs; next to nothing, since the last cycle has used it up."""
    freed = {key: Freed(dict(each.nodes), dict(each.projects)) for key, each in world.freed.items()}
    books = world.queues
    return Before(
        freed, dict(world.relented), dict(world.crowded), world.weighed, dict(books.risen), dict(books.fallen)
    )


def keep(world: World) -> None:
    """The transaction is written: what it blocked stays blocked, what was due has been looked at."""
    world.waiting.keep()
    world.timers.keep()
    world.reopenings.keep()
    world.over.keep()


def restore(world: World, before: Before) -> None:
    """After the journal's rollback: everything derived follows the truth again."""
    touched = world.touched
    if _beyond_workloads(touched):
        derive(world)
        return
    world.waiting.give_up()
    world.timers.give_up()
    world.reopenings.give_up()
    world.over.give_up()
    world.freed = before.freed
    world.relented = before.relented
    world.crowded |= before.crowded
    world.weighed = before.weighed
    world.queues.risen |= before.risen
    world.queues.fallen |= before.fallen
    for workload_id in sorted(touched.all_workloads()):
        world.waiting.remove(workload_id)
        workload = world.workloads.get(workload_id)
        if workload is not None:
            world.watch(workload)


def _beyond_workloads(touched: Touched) -> bool:
    """Whether clusters, nodes, quotas or settings have changed: rare, and anything may hang on them."""
    return bool(touched.clusters or touched.nodes or touched.projects or touched.departments or touched.pools)
