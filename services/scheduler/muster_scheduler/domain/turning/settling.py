"""Many placements written into the books at once: what `cycle.settle` writes for one, at a fraction of its cost.

Called by turning/batching.py with what the kernel has decided: workloads of one replica that begin in one (cluster,
pool) and held nothing before.
Holds: books, decisions and their order are those of `settle`, one after the other; one undo brings all of it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

from muster_kernel.lifecycle import Phase
from muster_kernel.reasons import ChangeReason
from muster_scheduler.domain.asked.quotas import Account, Amount
from muster_scheduler.domain.asked.requests import Grant, Holder
from muster_scheduler.domain.asked.workloads import Replica, Request, Workload
from muster_scheduler.domain.books.capacity import Capacity
from muster_scheduler.domain.books.queues import Spell
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.decisions import Assign, PhaseChange, Placed
from muster_scheduler.domain.fleet.nodes import Node

_WRITTEN: Final = (
    "cluster",
    "pool",
    "placed",
    "first_placed",
    "not_before",
    "preempted_by",
    "idle_since",
    "snapshot_due",
    "endpoints",
    "conditions",
    "phase",
    "reason",
    "message",
    "told",
    "record",
)
_values: Final = attrgetter(*_WRITTEN)


class Settled(NamedTuple):
    """One workload and where its replica goes. phase: the one that it enters."""

    workload: Workload
    request: Request
    node: Node
    grant: Grant
    phase: Phase


def settle_all(world: World, cluster: str, pool: str, capacity: Capacity, settled: Sequence[Settled]) -> None:
    """Writes all of it, in the order in which it was decided. The columns say already what the nodes hold."""
    _write_workloads(world, cluster, pool, settled)
    _write_nodes(world, capacity, settled)
    for project, members in _by_project(settled).items():
        _write_accounts(world, project, pool, members)
        _write_members(world, (cluster, pool, project), members)


def _write_workloads(world: World, cluster: str, pool: str, settled: Sequence[Settled]) -> None:
    now, touched, tell = world.now, world.touched, world.decisions.append
    world.journal.note(_unwrite, [(each.workload, _values(each.workload)) for each in settled])
    for workload, request, node, grant, phase in settled:
        name, before, attempt = workload.id, workload.phase, workload.attempt
        role = request.roles[0].name
        holder = Holder(name, request.generation, attempt, role, 0, 0)
        workload.cluster, workload.pool, workload.placed = cluster, pool, now
        workload.first_placed = workload.first_placed or now
        workload.not_before, workload.idle_since = 0, 0
        workload.preempted_by, workload.message, workload.snapshot_due = "", "", False
        workload.endpoints, workload.conditions = (), ()
        workload.phase, workload.reason, workload.told = phase, ChangeReason.PLACED, None
        workload.record += 1
        workload.replicas[role, 0] = Replica(holder, (cluster, node.name), grant)
        touched.workloads[name] = None
        touched.replicas[holder] = None
        tell(Placed(name, now))
        tell(PhaseChange(name, attempt, before, phase, workload.desired, ChangeReason.PLACED, "", now))
        tell(Assign(cluster, name))


def _unwrite(before: Iterable[tuple[Workload, tuple[Any, ...]]]) -> None:
    for workload, values in before:
        for name, value in zip(_WRITTEN, values, strict=True):
            setattr(workload, name, value)
        workload.replicas.clear()


def _write_nodes(world: World, capacity: Capacity, settled: Sequence[Settled]) -> None:
    charges: dict[int, list[tuple[Holder, Grant]]] = {}
    for workload, request, node, grant, _ in settled:
        holder = workload.replicas[request.roles[0].name, 0].holder
        charges.setdefault(node.ordinal, []).append((holder, grant))
    for ordinal, run in charges.items():
        world.inventory.charge_run(capacity.nodes[ordinal].key, run, written=True)


def _by_project(settled: Sequence[Settled]) -> dict[str, list[Settled]]:
    found: dict[str, list[Settled]] = {}
    for each in settled:
        found.setdefault(each.workload.project, []).append(each)
    return found


def _write_accounts(world: World, project: str, pool: str, members: Sequence[Settled]) -> None:
    if world.limits.usage_weight:
        world.queues.settle(project, pool, world.now, world.limits.usage_half_life)
        world.touched.usage[project, pool] = None
    deserved = world.queues.quota(project, pool).deserved
    gpu, cpu, memory = held = world.queues.account(project, pool).held
    bound = [0, 0, 0]
    spells: dict[str, dict[str, Spell]] = {}
    for workload, request, _, grant, _ in members:
        gpu, cpu, memory = gpu + grant.charge, cpu + grant.cpu, memory + grant.memory
        spells.setdefault(workload.owner, {})[workload.id] = Spell(1, grant.charge)
        if not request.preemptible:
            bound = [bound[0] + grant.charge, bound[1] + grant.cpu, bound[2] + grant.memory]
        elif gpu > deserved:
            world.unweighed[pool] = None
    taken = Amount(gpu, cpu, memory).plus(held, -1)
    world.queues.charge_many(project, pool, Account(taken, Amount(*bound)), spells)


def _write_members(world: World, place: tuple[str, str, str], members: Sequence[Settled]) -> None:
    there = world.placed.get(place)
    if there is None:
        there = {}
        world.journal.put(world.placed, place, there)
    fresh = [name for each in members if (name := each.workload.id) not in there]
    world.journal.note(_leave, there, fresh)
    there.update(dict.fromkeys(fresh))


def _leave(members: dict[str, None], names: Iterable[str]) -> None:
    for name in names:
        del members[name]
