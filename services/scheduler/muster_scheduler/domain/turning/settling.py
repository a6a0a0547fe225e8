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

from muster_kernel.lifecycle import Phase
from muster_kernel.reasons import ChangeReason
from muster_scheduler.domain.asked.courses import Course, begun, stepped
from muster_scheduler.domain.asked.quotas import Account
from muster_scheduler.domain.asked.requests import Grant, Holder
from muster_scheduler.domain.asked.workloads import Replica, Workload
from muster_scheduler.domain.books.accounts import Spell
from muster_scheduler.domain.books.capacity import Capacity
from muster_scheduler.domain.books.world import World, amount_of
from muster_scheduler.domain.decisions import Begun, Burst


class Start(NamedTuple):
    """How a workload stands before it is placed; one value for those who follow one another and are alike.

    values: what placing it writes over, as `values_of` reads it. begun: how its phase moves by that. course: the one
    that it is on then.
    """

    values: tuple[Any, ...]
    begun: Begun
    course: Course


class Part(NamedTuple):
    """The rows from `first` to before `end`: all of one project."""

    project: str
    first: int
    end: int


class Settled(NamedTuple):
    """Workloads and where their replicas go, one a row. ordinals: of the nodes; spots: role and index of the replicas.

    bound: whether nobody may take its place. order: the rows as they were decided, one after the other; None: as they
    stand.
    """

    names: Sequence[str]
    workloads: Sequence[Workload]
    starts: Sequence[Start]
    ordinals: Sequence[int]
    grants: Sequence[Grant]
    spots: Sequence[tuple[str, int]]
    bound: Sequence[bool]
    parts: Sequence[Part]
    order: Sequence[int] | None


def settle_all(world: World, cluster: str, capacity: Capacity, settled: Settled) -> None:
    """Writes all of it. The columns say already what the nodes hold."""
    pool = capacity.nodes[0].pool
    names = settled.names
    world.decide(_burst(cluster, settled, world.now))
    holders = _begin(world, (cluster, pool), capacity, settled)
    world.touched.placed.append((names, holders))
    world.inventory.charge_many(capacity, settled.ordinals, (holders, settled.grants))
    for project, first, end in settled.parts:
        if end - first == 1:  # as on a calm day, on which every project has one: what is for many costs more then
            world.enter_pool(settled.workloads[first])
            world.account(settled.workloads[first], pool, settled.grants[first:end])
        else:
            _write_accounts(world, (project, pool), settled, slice(first, end))
            _write_members(world, (cluster, pool, project), names[first:end])


def values_of(w: Workload) -> tuple[Any, ...]:
    """What bears upon placing a workload in a batch, and is written over by that."""
    return w.course, w.phase, w.told, w.cluster, w.pool


def start_of(values: tuple[Any, ...], entered: Phase, now: int) -> Start:
    """The start of a workload that stands so, and enters that phase now."""
    course: Course = values[0]
    after = stepped(begun(course, now), ChangeReason.PLACED, "", course.record + 1)
    return Start(values, Begun(course.attempt, values[1], entered, course.desired), after)


def _burst(cluster: str, settled: Settled, now: int) -> Burst:
    """What the placements tell, in the order in which they were decided."""
    names, begun, order = settled.names, [start.begun for start in settled.starts], settled.order
    if order is None:
        return Burst(cluster, now, tuple(names), tuple(begun))
    return Burst(cluster, now, tuple([names[row] for row in order]), tuple([begun[row] for row in order]))


def _begin(world: World, place: tuple[str, str], capacity: Capacity, settled: Settled) -> list[Holder]:
    """Every workload begins with its replica; the holders. In one pass: what it touches is far from the next one's."""
    (cluster, pool), keys = place, capacity.keys
    world.journal.note(_unwrite, settled.workloads, settled.starts)
    holders: list[Holder] = []
    _, workloads, starts, ordinals, grants, spots, *_ = settled
    for workload, start, ordinal, grant, spot in zip(workloads, starts, ordinals, grants, spots, strict=True):
        begun, request = start.begun, workload.request
        generation = request.run if request is not None else 0
        holder = Holder(workload.id, generation, begun.attempt, spot[0], spot[1], 0)
        holders.append(holder)
        workload.cluster = cluster
        workload.pool = pool
        workload.phase = begun.after
        workload.course = start.course
        workload.told = None
        workload.replicas[spot] = Replica(holder, keys[ordinal], grant)
    return holders


def _unwrite(workloads: Iterable[Workload], starts: Iterable[Start]) -> None:
    for w, start in zip(workloads, starts, strict=True):
        w.course, w.phase, w.told, w.cluster, w.pool = start.values
        w.replicas.clear()


def _write_accounts(world: World, place: tuple[str, str], settled: Settled, rows: slice) -> None:
    if world.limits.usage_weight:
        world.queues.settle(*place, world.now, world.limits.usage_half_life)
        world.touched.usage[place] = None
    grants, bound = settled.grants[rows], settled.bound[rows]
    amount = amount_of(grants)
    fixed = amount if all(bound) else amount_of([grant for grant, stays in zip(grants, bound, strict=True) if stays])
    spells = _spells(settled.names[rows], settled.workloads[rows], grants)
    world.queues.charge_many(*place, Account(amount, fixed), spells)


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
