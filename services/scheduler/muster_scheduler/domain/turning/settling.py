"""Many placements written into the books at once: what `cycle.settle` writes for one, at a fraction of its cost.

Called by turning/batching.py with what the kernel has decided: workloads of one replica that begin in one (cluster,
pool) and held nothing before.
Holds: books, decisions and their order are those of `settle`, one after the other; one undo brings all of it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import Any, Final, NamedTuple, TypeVar

from muster_kernel.lifecycle import Phase
from muster_kernel.reasons import ChangeReason
from muster_scheduler.domain.asked.quotas import Account
from muster_scheduler.domain.asked.requests import Grant, Holder
from muster_scheduler.domain.asked.workloads import Replica, Workload
from muster_scheduler.domain.books.capacity import Capacity
from muster_scheduler.domain.books.queues import Spell
from muster_scheduler.domain.books.world import World, amount_of
from muster_scheduler.domain.decisions import Assign, Decision, PhaseChange, Placed

V = TypeVar("V")
new: Final[Callable[..., Any]] = tuple.__new__  # of a named tuple: a quarter of the cost of calling its class


class Settled(NamedTuple):
    """Workloads and where their replicas go, one a row. ordinals: of the nodes; phases: which they enter."""

    workloads: Sequence[Workload]
    ordinals: Sequence[int]
    grants: Sequence[Grant]
    phases: Sequence[Phase]


def settle_all(world: World, cluster: str, capacity: Capacity, settled: Settled) -> None:
    """Writes all of it, in the order in which it was decided. The columns say already what the nodes hold."""
    pool = capacity.nodes[0].pool
    names = [workload.id for workload in settled.workloads]
    holders = _holders(settled.workloads)
    world.decisions += _decisions(cluster, names, settled, world.now)
    _write_workloads(world, cluster, pool, settled)
    world.touched.workloads.update(dict.fromkeys(names))
    _write_replicas(world, capacity, settled, holders)
    world.inventory.charge_many(capacity, settled.ordinals, (holders, settled.grants))
    for project, (members, grants) in _by_project(settled).items():
        _write_accounts(world, project, pool, members, grants)
        _write_members(world, (cluster, pool, project), [member.id for member in members])


def _holders(workloads: Iterable[Workload]) -> list[Holder]:
    found = []
    for workload in workloads:
        request = workload.request
        if request is not None:
            run = workload.id, request.generation, workload.attempt, request.roles[0].name, 0, 0
            found.append(new(Holder, run))
    return found


def _decisions(cluster: str, names: Sequence[str], settled: Settled, now: int) -> Iterator[Decision]:
    """What each placement tells: that it is placed, its phase, its record."""
    old = [workload.phase for workload in settled.workloads]
    attempts = [workload.attempt for workload in settled.workloads]
    desired = [workload.desired for workload in settled.workloads]
    why = repeat(ChangeReason.PLACED), repeat(""), repeat(now)
    placed = _each(Placed, names, repeat(now))
    changes = _each(PhaseChange, names, attempts, old, settled.phases, desired, *why)
    return chain.from_iterable(zip(placed, changes, _each(Assign, repeat(cluster), names), strict=True))


def _each(kind: type[V], *fields: Iterable[object]) -> Iterator[V]:
    """Named tuples by their columns, of which those that repeat have no end."""
    return map(new, repeat(kind), zip(*fields))  # noqa: B905


def _write_workloads(world: World, cluster: str, pool: str, settled: Settled) -> None:
    workloads, now = settled.workloads, world.now
    world.journal.note(_unwrite, workloads, _before(workloads))
    for workload, phase in zip(workloads, settled.phases, strict=True):
        workload.cluster = cluster
        workload.pool = pool
        workload.placed = now
        workload.first_placed = workload.first_placed or now
        workload.not_before = workload.idle_since = 0
        workload.preempted_by = workload.message = ""
        workload.snapshot_due = False
        workload.endpoints = workload.conditions = ()
        workload.phase = phase
        workload.reason = ChangeReason.PLACED
        workload.told = None
        workload.record += 1


def _before(workloads: Iterable[Workload]) -> list[tuple[Any, ...]]:
    """What is written over, of each; one value for those that follow one another and are alike."""
    found = []
    last: tuple[Any, ...] = ()
    for workload in workloads:
        values = _values(workload)
        last = last if values == last else values
        found.append(last)
    return found


def _values(w: Workload) -> tuple[Any, ...]:
    """What `_write_workloads` changes. Spelled out: an attrgetter of as many names takes three times as long."""
    place = w.cluster, w.pool, w.placed, w.first_placed, w.not_before, w.idle_since, w.preempted_by, w.message
    return *place, w.snapshot_due, w.endpoints, w.conditions, w.phase, w.reason, w.told, w.record


def _unwrite(workloads: Iterable[Workload], before: Iterable[tuple[Any, ...]]) -> None:
    for w, values in zip(workloads, before, strict=True):
        w.cluster, w.pool, w.placed, w.first_placed, w.not_before, w.idle_since, w.preempted_by, *others = values
        w.message, w.snapshot_due, w.endpoints, w.conditions, w.phase, w.reason, w.told, w.record = others


def _write_replicas(world: World, capacity: Capacity, settled: Settled, holders: Sequence[Holder]) -> None:
    keys = capacity.keys
    replicas = map(Replica, holders, [keys[ordinal] for ordinal in settled.ordinals], settled.grants)
    spots = {role: (role, 0) for role in {holder.role for holder in holders}}
    world.journal.note(_clear, settled.workloads)
    for workload, holder, replica in zip(settled.workloads, holders, replicas, strict=True):
        workload.replicas[spots[holder.role]] = replica
    world.touched.replicas.update(dict.fromkeys(holders))


def _clear(workloads: Iterable[Workload]) -> None:
    for workload in workloads:
        workload.replicas.clear()


def _by_project(settled: Settled) -> dict[str, tuple[list[Workload], list[Grant]]]:
    found: dict[str, tuple[list[Workload], list[Grant]]] = {}
    for workload, grant in zip(settled.workloads, settled.grants, strict=True):
        if workload.project not in found:
            found[workload.project] = [], []
        members, grants = found[workload.project]
        members.append(workload)
        grants.append(grant)
    return found


def _write_accounts(
    world: World, project: str, pool: str, members: Sequence[Workload], grants: Sequence[Grant]
) -> None:
    if world.limits.usage_weight:
        world.queues.settle(project, pool, world.now, world.limits.usage_half_life)
        world.touched.usage[project, pool] = None
    bound = [request is not None and not request.preemptible for request in [each.request for each in members]]
    fixed = [grant for grant, stays in zip(grants, bound, strict=True) if stays]
    world.queues.charge_many(project, pool, Account(amount_of(grants), amount_of(fixed)), _spells(members, grants))


def _spells(members: Sequence[Workload], grants: Sequence[Grant]) -> dict[str, dict[str, Spell]]:
    """What each holds from now on, by user and workload; equal spells are one value."""
    known = {charge: Spell(1, charge) for charge in {grant.charge for grant in grants}}
    found: dict[str, dict[str, Spell]] = {workload.owner: {} for workload in members}
    for workload, grant in zip(members, grants, strict=True):
        found[workload.owner][workload.id] = known[grant.charge]
    return found


def _write_members(world: World, place: tuple[str, str, str], names: Sequence[str]) -> None:
    there = world.placed.get(place)
    if there is None:
        there = {}
        world.journal.put(world.placed, place, there)
    fresh = [name for name in names if name not in there]
    world.journal.note(_leave, there, fresh)
    there.update(zip(fresh, repeat(None)))


def _leave(members: dict[str, None], names: Iterable[str]) -> None:
    for name in names:
        del members[name]
