"""The scheduler as a state machine: events in, decisions out, everything undone where the transaction failed.

handlers.py drives it: `begin(now)`, `apply(event)` for what a batch consumed, `propose(budget)` for a cycle, then
`commit()` after the database has committed, or `abort()` after it has not. Between begin and commit nobody else may
look: readers take the same lock.
Holds: after `abort` the truth is exactly what it was at `begin` (`digest` proves it); the next decision follows from
the truth alone, so a rebuild from the database decides the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Final

from muster_kernel.lifecycle import LifecycleEvent
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.limits import Limits
from muster_scheduler.domain.asked.quarantine import Quarantined, pool_place
from muster_scheduler.domain.asked.workloads import Workload
from muster_scheduler.domain.books.restoring import keep, remember, restore
from muster_scheduler.domain.books.touched import Touched
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.decisions import Burst, Decision, PhaseChange, Taken, each
from muster_scheduler.domain.life import (
    admission,
    departure,
    fleet,
    inventories,
    layouts,
    quarantine,
    refusals,
    reports,
    tenancy,
)
from muster_scheduler.domain.placement.place import Budget
from muster_scheduler.domain.turning import cycle, fading

E = LifecycleEvent


@dataclass(frozen=True, slots=True)
class Plan:
    """What an open transaction has to write and to publish. Valid until `commit` or `abort`.

    taken: its decisions, those of a burst as one value.
    """

    taken: tuple[Taken, ...]
    touched: Touched
    oddities: tuple[str, ...]  # what reports said that cannot be true; for the log
    dropped_inventories: tuple[str, ...]  # inventories in parts that were given up, and why; for the log
    again_at: int | None  # when the next cycle has something to do by time alone; None: never
    unfinished: bool  # the budget was spent before the queue was

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """Every decision alone, in their order; made anew whenever asked for."""
        return tuple(each(self.taken))


class State:
    """The one aggregate."""

    def __init__(self, limits: Limits | None = None) -> None:
        """Begins with nothing known."""
        self.world = World(limits)
        self._open = False
        self._before = remember(self.world)

    # -- transactions ------------------------------------------------------------------------------------------------

    def begin(self, now: int) -> None:
        """Opens a transaction at `now`, microseconds since 1970. Time never runs backwards in here."""
        if self._open:
            raise RuntimeError("a transaction is open already: commit or abort it first")
        self._open = True
        self._before = remember(self.world)
        self.world.now = max(self.world.now, now)

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open."""
        return self._open

    def apply(self, event: events.Event) -> None:
        """Take one event. A new generation of a workload, or a new record of a pool, ends its quarantine."""
        if isinstance(event, events.NodePoolChanged):
            quarantine.release_place(self.world, pool_place(event.pool.name))
        before = self._generation(event)
        _HANDLERS[type(event)](self.world, event)
        if before is not None and before != self._generation(event):
            self.release(event.workload)  # type: ignore[union-attr]  # only an admission has a generation here

    def _generation(self, event: events.Event) -> int | None:
        if not isinstance(event, events.Admitted) or event.workload not in self.world.quarantined:
            return None
        return self.world.workloads[event.workload].generation

    def set_aside(self, found: Quarantined) -> None:
        """Sets a workload aside that a cycle failed on: the next ones decide without it."""
        if found.workload in self.world.workloads:
            quarantine.set_aside(self.world, found)

    def release(self, workload_id: str) -> bool:
        """Lets a workload in again; False where it is not set aside."""
        return quarantine.release(self.world, workload_id)

    def propose(self, budget: Budget | None = None) -> bool:
        """Runs one cycle. Whether its budget was spent before the queue was."""
        budget = budget or Budget()
        fleet.watch_clocks(self.world)
        fading.look_at_usage(self.world)
        cycle.run(self.world, budget)
        return budget.spent

    def plan(self, *, unfinished: bool = False) -> Plan:
        """What the open transaction decided and changed so far."""
        layouts.tell_due(self.world)
        self._tell_replicas()
        return Plan(
            tuple(self.world.decisions),
            self.world.touched,
            tuple(self.world.oddities),
            tuple(self.world.dropped_inventories),
            self.next_time(),
            unfinished,
        )

    def _tell_replicas(self) -> None:
        """News of replicas travels as a PhaseChange of its own where no phase changed after it."""
        world = self.world
        told = {d.workload for d in world.decisions if isinstance(d, PhaseChange)}
        told.update(*(d.workloads for d in world.decisions if isinstance(d, Burst)))
        for workload_id in world.stirred:
            if workload_id not in told:
                w = world.workloads[workload_id]
                world.decide(PhaseChange(w.id, w.attempt, w.phase, w.phase, w.desired, w.reason, w.message, world.now))
        world.stirred.clear()

    def commit(self) -> None:
        """The database has it: the changes stay."""
        self.world.journal.clear()
        self.world.inventory.prepare()
        keep(self.world)
        self._close()

    def abort(self) -> None:
        """The database has not: everything is as it was at `begin`."""
        self.world.journal.rollback()
        restore(self.world, self._before)
        self._close()

    def _close(self) -> None:
        self.world.decisions.clear()
        self.world.touched = Touched()
        self.world.oddities.clear()
        self.world.dropped_inventories.clear()
        self.world.stirred.clear()
        self.world.farewell.clear()
        self._open = False

    # -- asking ------------------------------------------------------------------------------------------------------

    def next_time(self) -> int | None:
        """When a cycle has something to do by time alone, or None."""
        world = self.world
        if world.relented:
            return world.now  # others may take more by that
        due = (world.timers.next(), world.reopenings.next(), fading.next_look(world))
        return min((at for at in due if at is not None), default=None)

    def restart_clocks(self, now: int, unread: Collection[str] = ()) -> None:
        """Start every clock of silence again: after a takeover, and after the bus was lost.

        unread: clusters whose reports cannot be read. They count as never heard, so that they get no new work.
        """
        self.world.now = max(self.world.now, now)
        for cluster in self.world.clusters.values():
            cluster.fresh = 0 if cluster.id in unread else self.world.now
            if cluster.behind_since:
                cluster.behind_since = self.world.now
        self.world.orphans.clear()

    def check(self) -> None:
        """Raises AssertionError where the books do not agree."""
        from muster_scheduler.domain.books.checks import check  # noqa: PLC0415 - tests and simulation only

        check(self.world)

    def digest(self) -> str:
        """A hash over the whole truth, independent of the order in which it came about."""
        return hashlib.sha256(repr(canonical(self.world)).encode()).hexdigest()


def canonical(world: World) -> object:
    """The truth as nested tuples in a fixed order."""
    nodes = [
        (
            n.key,
            n.pool,
            n.said,
            n.state.value,
            n.ordered.value if n.ordered else "",
            n.ordered_deadline,
            n.layout,
            n.layout_failure,
            n.present,
            n.used_cpu,
            n.used_memory,
            n.used_slots,
            sorted(n.used_extra.items()),
            sorted(n.entries.items()),
            [(d.uuid, d.healthy, d.foreign, d.mode.value, d.free_milli, d.free_bytes, d.mask) for d in n.devices],
        )
        for _, n in sorted(world.inventory.nodes.items())
    ]
    clusters = [
        (
            c.id,
            c.instance,
            repr(c.profile),
            c.start,
            c.inventory_sequence,
            c.full_needed,
            c.silent,
            c.lost_timeout,
            c.dead_man,
            c.left,
            c.names_objects,
            [(name, sorted(found.names), found.truncated) for name, found in sorted(c.objects.items())],
            c.held,
            c.incoming and (c.incoming.id, [(n, part.checksum) for n, part in sorted(c.incoming.parts.items())]),
        )
        for _, c in sorted(world.clusters.items())
    ]
    projects = [
        (
            p.name,
            p.department,
            p.version,
            sorted(p.quotas.items()),
            p.rules,
            p.node_types,
            p.rank,
            p.user_limits,
            p.models,
            p.home,
        )
        for _, p in sorted(world.queues.projects.items())
    ]
    departments = [
        (d.name, d.version, sorted(d.quotas.items()), d.rules, d.node_types, d.rank, d.models)
        for _, d in sorted(world.queues.departments.items())
    ]
    books = world.queues
    spells = sorted((key, sorted(spells.items())) for key, spells in books.spells.items())
    accounts = (sorted(books.accounts.items()), sorted(books.above.items()), spells, sorted(books.usage.items()))
    workloads = [_of_workload(w) for _, w in sorted(world.workloads.items())]
    pools = sorted(world.pools.known.values())
    aside = sorted(world.quarantined)
    return nodes, clusters, projects, departments, pools, accounts, sorted(world.claims), workloads, aside


_KEYED: Final = ("replicas", "leaving", "rolling", "avoid", "replacements", "failures")
_plain: Final = attrgetter(*(each.name for each in fields(Workload) if each.name not in _KEYED))
_keyed: Final = attrgetter(*_KEYED)


def _of_workload(workload: Workload) -> tuple[object, ...]:
    return (*_plain(workload), *(sorted(each.items(), key=_key) for each in _keyed(workload)))


def _key(item: tuple[Any, Any]) -> Any:
    return item[0]


def _on_suspend(world: World, event: events.SuspendRequested) -> None:
    admission.on_request(world, event.workload, E.SUSPEND, event.id)


def _on_resume(world: World, event: events.ResumeRequested) -> None:
    admission.on_request(world, event.workload, E.RESUME, event.id)


def _on_delete(world: World, event: events.DeletionRequested) -> None:
    admission.on_request(world, event.workload, E.DELETE, event.id)


def _on_replica(world: World, event: events.ReplicaReported) -> None:
    if fleet.accept(world, event.cluster, event.order) is not None:
        reports.on_report(world, event)


def _on_assignment_refused(world: World, event: events.AssignmentRefused) -> None:
    if fleet.accept(world, event.cluster, event.order) is not None:
        refusals.on_assignment_refused(world, event)


_HANDLERS: Final[dict[type, Callable[[World, Any], None]]] = {
    events.Admitted: admission.on_admitted,
    events.Rejected: admission.on_rejected,
    events.SuspendRequested: _on_suspend,
    events.ResumeRequested: _on_resume,
    events.DeletionRequested: _on_delete,
    events.Archived: admission.on_archived,
    events.ProjectChanged: tenancy.on_project,
    events.ProjectRemoved: tenancy.on_project_removed,
    events.DepartmentChanged: tenancy.on_department,
    events.DepartmentRemoved: tenancy.on_department_removed,
    events.NodePoolChanged: tenancy.on_node_pool,
    events.NodePoolRemoved: tenancy.on_node_pool_removed,
    events.ClusterRegistered: fleet.on_registered,
    events.ClusterAdopted: fleet.on_adopted,
    events.ClusterLeft: departure.on_left,
    events.NodeForcedGone: fleet.on_forced_gone,
    events.NodeOrdered: fleet.on_ordered,
    events.NodeLayoutOrdered: layouts.on_layout_ordered,
    events.LayoutReported: inventories.on_layout_reported,
    events.InventoryReported: inventories.on_inventory,
    events.InventoryPartReported: inventories.on_inventory_part,
    events.ReplicaReported: _on_replica,
    events.AssignmentRefused: _on_assignment_refused,
    events.AssignmentsHeld: fleet.on_held,
    events.HeartbeatSeen: fleet.on_heartbeat,
    events.ScaleAdvised: admission.on_scale_advised,
    events.IdleReported: admission.on_idle,
}
