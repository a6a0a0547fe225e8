"""Many placements written into the books at once: what `cycle.settle` writes for one, at a fraction of its cost.

Called by turning/batching.py with what the kernel has decided: workloads of one replica that begin in one (cluster,
pool) and held nothing before.
Holds: books, decisions and their order are those of `settle`, one after the other; one undo brings all of it back. Each
of them costs what it leaves behind: nothing is made for it that alike ones could share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any, NamedTuple

from muster_kernel.lifecycle import DesiredPhase, Phase
from muster_kernel.reasons import ChangeReason
from muster_scheduler.domain.asked.quotas import Account
from muster_scheduler.domain.asked.requests import Grant, Holder
from muster_scheduler.domain.asked.workloads import Replica, Workload
from muster_scheduler.domain.books.capacity import Capacity
from muster_scheduler.domain.books.queues import Spell
from muster_scheduler.domain.books.world import World, amount_of
from muster_scheduler.domain.decisions import Begun, Burst
from muster_scheduler.domain.tuples import new


class Start(NamedTuple):
    """How a workload stands before it is placed; one value for those who follow one another and are alike.

    values: what placing it writes over, as `values_of` reads it. begun: how its phase moves by that.
    """

    values: tuple[Any, ...]
    begun: Begun


class Part(NamedTuple):
    """The rows from `first` to before `end`: all of one project."""

    project: str
    first: int
    end: int


class Settled(NamedTuple):
    """Workloads and where their replicas go, one a row. ordinals: of the nodes.

    order: the rows in the order in which they were decided; None: as they stand.
    """

    names: Sequence[str]
    workloads: Sequence[Workload]
    starts: Sequence[Start]
    ordinals: Sequence[int]
    grants: Sequence[Grant]
    parts: Sequence[Part]
    order: Sequence[int] | None


def settle_all(world: World, cluster: str, capacity: Capacity, settled: Settled) -> None:
    """Writes all of it. The columns say already what the nodes hold."""
    pool = capacity.nodes[0].pool
    names = settled.names
    holders = _holders(settled)
    world.decide(_burst(cluster, settled, world.now))
    _write_workloads(world, (cluster, pool), capacity, settled, holders)
    world.touched.workloads.update(dict.fromkeys(names))
    world.touched.replicas.update(dict.fromkeys(holders))
    world.inventory.charge_many(capacity, settled.ordinals, (holders, settled.grants))
    for project, first, end in settled.parts:
        rows = slice(first, end)
        _write_accounts(world, (project, pool), names[rows], settled.workloads[rows], settled.grants[rows])
        _write_members(world, (cluster, pool, project), names[rows])


def values_of(w: Workload) -> tuple[Any, ...]:
    """What bears upon placing a workload in a batch; from the sixth on, what `_write_workloads` changes.

    Spelled out: an attrgetter of as many names takes three times as long.
    """
    return (
        w.claim,
        w.reservation,
        w.desired,
        w.attempt,
        w.phase,
        w.reason,
        w.record,
        w.cluster,
        w.pool,
        w.placed,
        w.first_placed,
        w.not_before,
        w.idle_since,
        w.preempted_by,
        w.message,
        w.snapshot_due,
        w.endpoints,
        w.conditions,
        w.told,
    )


def start_of(values: tuple[Any, ...], entered: Phase) -> Start:
    """The start of a workload that stands so, and enters that phase."""
    desired: DesiredPhase = values[2]
    return Start(values, Begun(values[3], values[4], entered, desired))


def _holders(settled: Settled) -> list[Holder]:
    found = []
    for name, workload, start in zip(settled.names, settled.workloads, settled.starts, strict=True):
        request = workload.request
        if request is not None:
            found.append(new(Holder, (name, request.generation, start.begun.attempt, request.roles[0].name, 0, 0)))
    return found


def _burst(cluster: str, settled: Settled, now: int) -> Burst:
    """What the placements tell, in the order in which they were decided."""
    names, begun, order = settled.names, [start.begun for start in settled.starts], settled.order
    if order is None:
        return Burst(cluster, now, tuple(names), tuple(begun))
    return Burst(cluster, now, tuple([names[row] for row in order]), tuple([begun[row] for row in order]))


def _write_workloads(
    world: World, place: tuple[str, str], capacity: Capacity, settled: Settled, holders: Sequence[Holder]
) -> None:
    workloads, starts, now, keys = settled.workloads, settled.starts, world.now, capacity.keys
    (cluster, pool), placed = place, ChangeReason.PLACED
    world.journal.note(_unwrite, workloads, starts)
    spots = {role: (role, 0) for role in {holder.role for holder in holders}}
    replicas = map(Replica, holders, [keys[ordinal] for ordinal in settled.ordinals], settled.grants)
    for workload, start, replica in zip(workloads, starts, replicas, strict=True):
        workload.cluster = cluster
        workload.pool = pool
        workload.placed = now
        workload.first_placed = workload.first_placed or now
        workload.not_before = workload.idle_since = 0
        workload.preempted_by = workload.message = ""
        workload.snapshot_due = False
        workload.endpoints = workload.conditions = ()
        workload.phase = start.begun.after
        workload.reason = placed
        workload.told = None
        workload.record += 1
        workload.replicas[spots[replica.holder.role]] = replica


def _unwrite(workloads: Iterable[Workload], starts: Iterable[Start]) -> None:
    for w, start in zip(workloads, starts, strict=True):
        _, _, _, _, w.phase, w.reason, w.record, w.cluster, w.pool, w.placed, *others = start.values
        w.first_placed, w.not_before, w.idle_since, w.preempted_by, w.message, w.snapshot_due, *last = others
        w.endpoints, w.conditions, w.told = last
        w.replicas.clear()


def _write_accounts(
    world: World, place: tuple[str, str], names: Sequence[str], members: Sequence[Workload], grants: Sequence[Grant]
) -> None:
    if world.limits.usage_weight:
        world.queues.settle(*place, world.now, world.limits.usage_half_life)
        world.touched.usage[place] = None
    bound = [request is not None and not request.preemptible for request in [each.request for each in members]]
    amount = amount_of(grants)
    fixed = amount if all(bound) else amount_of([grant for grant, stays in zip(grants, bound, strict=True) if stays])
    world.queues.charge_many(*place, Account(amount, fixed), _spells(names, members, grants))


def _spells(names: Sequence[str], members: Sequence[Workload], grants: Sequence[Grant]) -> dict[str, dict[str, Spell]]:
    """What each holds from now on, by user and workload; equal spells are one value."""
    owners = [workload.owner for workload in members]
    known = {charge: Spell(1, charge) for charge in {grant.charge for grant in grants}}
    first = owners[0]
    if len(known) == 1 and owners.count(first) == len(owners):
        return {first: dict.fromkeys(names, *known.values())}
    found: dict[str, dict[str, Spell]] = {owner: {} for owner in owners}
    for owner, name, grant in zip(owners, names, grants, strict=True):
        found[owner][name] = known[grant.charge]
    return found


def _write_members(world: World, place: tuple[str, str, str], names: Sequence[str]) -> None:
    there = world.placed.get(place)
    if there is None:
        there = {}
        world.journal.put(world.placed, place, there)
    fresh = names if there.keys().isdisjoint(names) else [name for name in names if name not in there]
    world.journal.note(_leave, there, fresh)
    there.update(zip(fresh, repeat(None)))


def _leave(members: dict[str, None], names: Iterable[str]) -> None:
    for name in names:
        del members[name]
