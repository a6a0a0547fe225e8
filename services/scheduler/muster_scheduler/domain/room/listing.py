"""From the books to arrays: the preemptible work of a pool, its queues, and who needs room.

Called by giving.py for one (cluster, node pool) at a time. Reads the books, changes nothing.
Holds: `Running` lists what `workloads` names in that order, each with all that is charged to it in the pool; a share of
a device beyond the columns' slots is left out, since nobody is placed there by columns either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from muster_kernel.quantities import GPU, MILLI
from muster_scheduler.domain.asked.requests import Grant, Kind, Role
from muster_scheduler.domain.asked.workloads import SECOND, Replica, Request, Workload
from muster_scheduler.domain.books.capacity import Capacity
from muster_scheduler.domain.books.standing import Standing
from muster_scheduler.domain.books.world import World, amount_of
from muster_scheduler.domain.fleet.columns import media_bit
from muster_scheduler.domain.fleet.nodes import Node
from muster_scheduler.domain.room.values import ALL, Bools, Held, Ints, Running, Taker, Tree

_MOST: Final = 1 << 60  # in the accounts' units
_FIELDS: Final = ("node", "cpu", "memory", "replicas", "slots", "milli", "bytes", "anonymous", "slices", "media")


def tree_of(world: World, standing: Standing) -> Tree:
    """The queues of a pool: fair shares as the standing has them, what each holds as the books say now."""
    table = standing.refreshed(world.queues)
    return Tree(table.parent, table.held.copy(), table.fair, table.deserved, table.counted, table.held - table.bound)


def _table(rows: Sequence[Sequence[int]]) -> Ints:
    return np.array(rows, np.int64).reshape(len(rows), 3)


def taker_of(
    request: Request, roles: tuple[Role, ...], queue: int, units: Sequence[int], eligible: Bools, domains: Ints | None
) -> Taker:
    """Who needs room; of several roles the one that costs most stands for all."""
    largest = max(roles, key=lambda role: (role.shape.kind is Kind.MEMORY, role.charge, role.shape.cpu, role.name))
    size = sum(role.size for role in roles)
    # What 100,000 replicas ask for may be more than a word holds: no queue has as much as this.
    amounts = np.array([min(each, _MOST) for each in units], np.int64)
    return Taker(queue, largest.shape, size, amounts, eligible, domains, request.priority)


def running_of(world: World, capacity: Capacity, workloads: Sequence[Workload], rows: dict[str, int]) -> Running:
    """These workloads as arrays. rows: the row of each project's queue."""
    held = held_of(world, capacity, workloads)
    units = _table([amount_of([r.grant for r in w.everyone() if r.accounted]) for w in workloads])
    placed = np.array([w.course.placed for w in workloads], np.int64)
    return Running(
        np.array([rows[w.project] for w in workloads], np.int64),
        units,
        np.ones(len(workloads), np.int64),
        units[:, 0] * ((world.now - placed) // SECOND) // GPU,
        placed,
        np.array([w.request.priority if w.request else 0 for w in workloads], np.int64),
        np.argsort(np.argsort(np.array([w.id for w in workloads], np.str_), kind="stable"), kind="stable"),
        held,
    )


def staying(workload: Workload) -> list[Replica]:
    """What would have to leave with a workload: all that is charged, without what leaves it anyway."""
    active = workload.active
    return [r for r in workload.everyone() if (not r.gone or r.kept) and not (active and r.leaving)]


def departing(workload: Workload) -> list[Replica]:
    """What leaves anyway: all of a workload that is taken down, or the replicas that one that goes on gives up."""
    active = workload.active
    return [r for r in workload.everyone() if r.charged and (r.leaving or not active)]


def held_of(
    world: World,
    capacity: Capacity,
    workloads: Sequence[Workload],
    part: Callable[[Workload], list[Replica]] = staying,
) -> Held:
    """What that part of each of these workloads is charged on the pool's nodes."""
    reader = _Reader(world, capacity)
    first = [0]
    for workload in workloads:
        for replica in part(workload):
            reader.read(replica.node, replica.grant)
        first.append(len(reader.cells) // len(_FIELDS))
    table = np.array(reader.cells, np.int64).reshape(first[-1], len(_FIELDS))
    columns = {name: np.ascontiguousarray(table[:, at]) for at, name in enumerate(_FIELDS)}
    # Columns know no named resources: who asks for one is placed by the books, and nobody makes room for it.
    return Held(np.array(first, np.int64), extra=np.zeros((first[-1], 0), np.int64), **columns)


class _Reader:
    """Grants as rows, flat one after the other: one for whole cards and work without any, else one for each share.

    cells: in the order of `_FIELDS`.
    """

    def __init__(self, world: World, capacity: Capacity) -> None:
        self._nodes = world.inventory.nodes
        self._capacity = capacity
        self.cells: list[int] = []

    def read(self, key: tuple[str, str], grant: Grant) -> None:
        """Adds the rows of a grant; none where the node is none of the pool's."""
        node, shares = self._nodes.get(key), grant.shares
        there = self._capacity.nodes
        if node is None or not 0 <= node.ordinal < len(there) or there[node.ordinal] is not node:
            return
        bits = self._capacity.bits_of(node)
        if shares and shares[0].kind is not Kind.WHOLE:
            self._read_parts(node, bits, grant)
            return
        mask = 0
        for share in shares:
            mask |= bits.get(share.device, 0)
        self.cells += (node.ordinal, grant.cpu, grant.memory, 1, mask, MILLI, ALL, grant.slots, 0, 0)

    def _read_parts(self, node: Node, bits: dict[str, int], grant: Grant) -> None:
        cpu, memory, replicas = grant.cpu, grant.memory, 1
        for share in grant.shares:
            bit = bits.get(share.device, 0)
            media = media_bit(node.devices[bit.bit_length() - 1].model, share.profile) if bit else 0
            held = bit, share.milli, share.bytes, 0, share.mask, media
            self.cells += (node.ordinal, cpu, memory, replicas, *held)
            cpu = memory = replicas = 0
