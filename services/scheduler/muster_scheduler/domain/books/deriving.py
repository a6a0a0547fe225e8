"""All that follows from the truth, made anew from it: the queue, the timers, and who is to be looked at for what.

Called once a state has been read back from the database, and after an abort that may have changed anything
(restoring.py).
Holds: afterwards the next decision is the one that would have been taken without it; one look too many does no harm.
"""

from __future__ import annotations

from operator import attrgetter

from muster_kernel.lifecycle import FINAL
from muster_scheduler.domain.books.entering import may_leave
from muster_scheduler.domain.books.leaving import Leaving
from muster_scheduler.domain.books.stretches import Stretches
from muster_scheduler.domain.books.timers import Timers
from muster_scheduler.domain.books.world import World


def derive(world: World) -> None:
    """Makes the queue, the timers and the sets of those who want a look."""
    world.freed.clear()
    world.relented.clear()
    world.waiting = Stretches(name for name, project in world.queues.projects.items() if project.user_limits)
    world.timers, world.reopenings, world.over = Timers(), Timers(), Timers()
    for node in world.inventory.nodes.values():
        world.watch_node(node)
    claims = ((name, world.workloads[name].claim) for name in world.claims)
    world.ready = {name: None for name, claim in claims if claim is not None and not claim.waits_for}
    kept = ((w.id, w.reservation) for w in world.workloads.values() if w.reservation)
    world.reserved = {(reserved.cluster, reserved.pool): name for name, reserved in kept}
    _note_who_is_there(world)
    everybody = [world.workloads[workload_id] for workload_id in sorted(world.workloads)]
    for workload in everybody:
        world.note_times(workload)
        if workload.phase in FINAL:
            world.over.at(workload.finished, workload.id)
    world.waiting.fill(filter(world.is_ready, everybody))


def _note_who_is_there(world: World) -> None:
    """Of those that hold something, few of all that wait: who may lack replicas, may grow, has lost some, or leaves."""
    there = [world.workloads[name] for members in world.placed.values() for name in members]
    there.sort(key=attrgetter("id"))
    world.hungry = {w.id: None for w in there if w.independent and w.active}
    world.elastic = {w.id: None for w in there if w.replicas and w.surplus_wanted}
    world.short = {w.id: None for w in there if w.below_since}
    world.departing = Leaving(world.journal)
    world.departing.fill(filter(may_leave, there), map(world.workloads.__getitem__, world.claims))
