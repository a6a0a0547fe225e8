"""From the books to arrays: the preemptible work of a pool, its queues, and who needs room.

Called by evictions.py for one (cluster, node pool) at a time. Reads the books, changes nothing.
Holds: `Running` lists what `workloads` names in that order, each with all that is charged to it in the pool; a share of
a device beyond the columns' slots is left out, since nobody is placed there by columns either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from muster_kernel.quantities import GPU, MILLI
from muster_scheduler.domain.asked.requests import Grant, Kind, Role, Share
from muster_scheduler.domain.asked.workloads import SECOND, Replica, Request, Workload
from muster_scheduler.domain.books.capacity import Capacity
from muster_scheduler.domain.books.standing import Standing
from muster_scheduler.domain.books.world import World, amount_of
from muster_scheduler.domain.fleet.columns import SLOTS, media_bit
from muster_scheduler.domain.fleet.nodes import Node
from muster_scheduler.domain.room.values import ALL, Bools, Held, Ints, Running, Taker, Tree

Entry = tuple[int, int, int, int, int, int, int, int, int]  # a row of Held, in the order of `_FIELDS`
_MOST: Final = 1 << 60  # in the accounts' units
_FIELDS: Final = ("node", "cpu", "memory", "slots", "milli", "bytes", "anonymous", "slices", "media")


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
    units = [amount_of(r.grant for r in w.everyone() if r.accounted) for w in workloads]
    gpus = np.array([each.gpu for each in units], np.int64)
    placed = np.array([w.placed for w in workloads], np.int64)
    return Running(
        np.array([rows[w.project] for w in workloads], np.int64),
        _table(units),
        np.ones(len(workloads), np.int64),
        gpus * ((world.now - placed) // SECOND) // GPU,
        placed,
        np.array([w.request.priority if w.request else 0 for w in workloads], np.int64),
        np.argsort(np.argsort(np.array([w.id for w in workloads], np.str_), kind="stable"), kind="stable"),
        held,
    )


def staying(workload: Workload) -> list[Replica]:
    """What would have to leave with a workload: all that is charged, without what leaves it anyway."""
    return [each for each in workload.everyone() if each.charged and not (workload.active and each.leaving)]


def departing(workload: Workload) -> list[Replica]:
    """What leaves anyway: all of a workload that is taken down, or the replicas that one that goes on gives up."""
    return [each for each in workload.everyone() if each.charged and (each.leaving or not workload.active)]


def held_of(
    world: World,
    capacity: Capacity,
    workloads: Sequence[Workload],
    part: Callable[[Workload], list[Replica]] = staying,
) -> Held:
    """What that part of each of these workloads is charged on the pool's nodes."""
    reader = _Reader(world, capacity)
    first = [0]
    entries: list[Entry] = []
    extra: list[list[int]] = []
    for workload in workloads:
        for replica in part(workload):
            entries += reader.entries(replica.node, replica.grant)
            extra += [reader.named(replica.grant, at) for at in range(len(entries) - len(extra))]
        first.append(len(entries))
    table = np.array(entries, np.int64).reshape(len(entries), len(_FIELDS))
    columns = {name: np.ascontiguousarray(table[:, at]) for at, name in enumerate(_FIELDS)}
    names = len(capacity.columns.resources)
    return Held(np.array(first, np.int64), extra=np.array(extra, np.int64).reshape(len(entries), names), **columns)


class _Reader:
    """Grants as entries; the slots of a node's devices are looked up once a node."""

    def __init__(self, world: World, capacity: Capacity) -> None:
        self._nodes = world.inventory.nodes
        self._capacity = capacity
        self._slots: dict[tuple[str, str], dict[str, int]] = {}

    def entries(self, key: tuple[str, str], grant: Grant) -> Iterator[Entry]:
        """One entry for whole cards and work without any, one for each share of a card otherwise."""
        node = self._nodes.get(key)
        if node is None or node.ordinal < 0 or self._capacity.nodes[node.ordinal] is not node:
            return
        slots = self._slots_of(key, node)
        if not grant.shares or grant.shares[0].kind is Kind.WHOLE:
            mask = sum(1 << slots[share.device] for share in grant.shares if share.device in slots)
            yield node.ordinal, grant.cpu, grant.memory, mask, MILLI, ALL, grant.slots, 0, 0
            return
        cpu, memory = grant.cpu, grant.memory
        for share in grant.shares:
            at = slots.get(share.device)
            mask = 0 if at is None else 1 << at
            media = 0 if at is None else media_bit(node.devices[at].model, share.profile)
            yield (node.ordinal, cpu, memory, mask, *_amounts(share), 0, share.mask, media)
            cpu = memory = 0

    def named(self, grant: Grant, at: int) -> list[int]:
        """The named resources of a grant; they stand on the first of its entries."""
        names = self._capacity.columns.resources
        held = dict(grant.extra) if at == 0 else {}
        return [held.get(name, 0) for name in names]

    def _slots_of(self, key: tuple[str, str], node: Node) -> dict[str, int]:
        known = self._slots.get(key)
        if known is None:
            known = {device.uuid: slot for slot, device in enumerate(node.devices[:SLOTS])}
            self._slots[key] = known
        return known


def _amounts(share: Share) -> tuple[int, int]:
    return share.milli, share.bytes
