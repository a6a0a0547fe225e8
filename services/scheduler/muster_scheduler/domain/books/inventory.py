"""The fleet as it is charged: clusters, node pools, nodes, devices. The one place where capacity changes hands.

Called by the state machine (charges and releases), by cluster reports (what is there) and by placement (what fits).
Holds: what runs on a device never exceeds it, nor does what runs together with what is promised; a device stays in the
books while anything is charged to it, also when its agent no longer reports it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from muster_scheduler.domain.asked.requests import Grant, Holder, Share
from muster_scheduler.domain.asked.terms import Label
from muster_scheduler.domain.books.capacity import Capacity
from muster_scheduler.domain.books.runs import count_extra, finder, put_many, put_run, take_back_many, take_back_run
from muster_scheduler.domain.fleet.checks import check_node
from muster_scheduler.domain.fleet.columns import Columns
from muster_scheduler.domain.fleet.layouts import LayoutChange
from muster_scheduler.domain.fleet.nodes import Device, Node
from muster_scheduler.domain.fleet.orders import Order, holding
from muster_scheduler.domain.journal import Journal

NodeKey = tuple[str, str]
Charges = tuple[Sequence[Holder], Sequence[Grant]]
_NOTHING: Final = Grant(0, 0)


class Inventory:
    """All nodes of all clusters, indexed by (cluster, node pool)."""

    def __init__(self, journal: Journal) -> None:
        """Begins without nodes."""
        self._journal = journal
        self.nodes: dict[NodeKey, Node] = {}
        self.changing: dict[NodeKey, None] = {}  # nodes whose MIG layout changes
        self._capacity: dict[tuple[str, str], Capacity] = {}
        self._owners: dict[str, NodeKey] = {}  # device -> node; whether that still holds, says the node
        self._pools: dict[str, tuple[str, ...]] = {}
        self._reported: dict[tuple[str, str], None] = {}  # (cluster, pool) whose nodes are others since `prepare`

    # -- asking ------------------------------------------------------------------------------------------------------

    def capacity(self, cluster: str, pool: str) -> Capacity | None:
        """The index of one node pool of one cluster, or None where it has no node."""
        return self._capacity.get((cluster, pool))

    def columns(self, cluster: str, pool: str) -> Columns | None:
        """What is free in one node pool of one cluster, as columns; to be read only. None where it has no node."""
        capacity = self._capacity.get((cluster, pool))
        return capacity.columns if capacity else None

    def clusters_with(self, pool: str) -> tuple[str, ...]:
        """The clusters that have nodes in `pool`, by id."""
        return self._pools.get(pool, ())

    def clusters_labelled(self, label: Label) -> frozenset[str]:
        """The clusters of which a node has it, in whatever pool."""
        return frozenset(cluster for (cluster, _), there in self._capacity.items() if there.usable.has_label(label))

    def largest_device(self, cluster: str, pool: str) -> int:
        """Bytes of the largest card of a node pool."""
        capacity = self._capacity.get((cluster, pool))
        return capacity.largest if capacity else 0

    def in_cluster(self, cluster: str) -> Iterator[Node]:
        """The nodes of a cluster, by name."""
        for key in sorted(self.nodes):
            if key[0] == cluster:
                yield self.nodes[key]

    def owner(self, uuid: str) -> NodeKey | None:
        """The node on which a device of that name is open or charged; None where it is neither."""
        key = self._owners.get(uuid)
        node = self.nodes.get(key) if key else None
        device = node.device(uuid) if node else None
        return key if device is not None and (device.healthy or device.entries) else None

    # -- the mutator -------------------------------------------------------------------------------------------------

    def charge(self, holder: Holder, key: NodeKey, grant: Grant) -> None:
        """Charges a grant to its node and devices."""
        node = self.nodes[key]
        self._apply(holder, node, node.entries.get(holder), grant)

    def charge_run(self, key: NodeKey, charges: Sequence[tuple[Holder, Grant]]) -> None:
        """Charges grants of several holders, none of whom holds anything there yet, to one node at the cost of one."""
        node = self.nodes[key]
        put_run(node, charges)
        self._journal.note(take_back_run, node, charges)
        capacity = self._capacity.get((node.cluster, node.pool))
        if capacity is not None and node.ordinal >= 0:
            capacity.update(node)

    def charge_many(self, capacity: Capacity, ordinals: Sequence[int], charges: Charges) -> None:
        """Charges many grants, one a row, to nodes of one pool; its columns say so already, as `charge_run` otherwise.

        ordinals: of their nodes.
        """
        nodes = capacity.nodes
        run = [nodes[ordinal] for ordinal in ordinals], *charges
        put_many(*run)
        self._journal.note(take_back_many, *run)
        capacity.written(ordinals)

    def release(self, holder: Holder, key: NodeKey) -> Grant | None:
        """Takes back what a holder holds of a node. None where it holds nothing there."""
        node = self.nodes.get(key)
        grant = node.entries.get(holder) if node else None
        if node is None or grant is None:
            return None
        self._apply(holder, node, grant, None)
        return grant

    def _apply(self, holder: Holder, node: Node, before: Grant | None, after: Grant | None) -> None:
        _write(holder, node, before or _NOTHING, after)
        self._journal.note(_write, holder, node, after or _NOTHING, before)
        capacity = self._capacity.get((node.cluster, node.pool))
        if capacity is not None and node.ordinal >= 0:
            capacity.update(node)

    # -- what agents report ------------------------------------------------------------------------------------------

    def look_again(self, key: NodeKey) -> None:
        """Somebody on that node may be asked to leave from now on, or no longer; undone with the journal."""
        node = self.nodes.get(key)
        capacity = self.capacity(node.cluster, node.pool) if node is not None else None
        if node is not None and capacity is not None:
            capacity.holdings.mark(node.ordinal)
            self._journal.note(capacity.holdings.mark, node.ordinal)

    def put_nodes(self, nodes: Iterable[Node]) -> None:
        """Takes nodes as reported; what is charged to a node of that name stays charged."""
        arriving = list(nodes)
        pools = {(node.cluster, node.pool) for node in arriving}
        pools |= {(n.cluster, n.pool) for node in arriving if (n := self.nodes.get(node.key))}
        # Noted first, so that it is undone last: the index is rebuilt over the nodes that are back by then.
        self._journal.note(self._reindex, pools)
        for node in arriving:
            known = self.nodes.get(node.key)
            if known is not None:
                _carry_over(known, node)
            self._journal.put(self.nodes, node.key, node)
            self._note_layout(node)
            for device in node.devices:
                if device.healthy and self._owners.get(device.uuid) != node.key:
                    self._journal.put(self._owners, device.uuid, node.key)
        self._reindex(pools)

    def move_nodes(self, moves: Sequence[tuple[Node, str]]) -> None:
        """Puts nodes into other pools of their cluster; what is charged to them stays charged."""
        pools = {(node.cluster, at) for node, pool in moves for at in (node.pool, pool)}
        self._journal.note(self._reindex, pools)  # first, and so undone last, as in `put_nodes`
        for node, pool in moves:
            self._journal.set(node, "pool", pool)
        self._reindex(pools)

    def order(self, node: Node, order: Order) -> None:
        """Puts an operator's order on a node, or takes it off; undone with the journal."""
        key = {(node.cluster, node.pool)}
        self._journal.note(self._reindex, key)  # first, and so undone last, as in `put_nodes`
        state, deadline = holding(node, order)
        values = (*zip(("ordered", "ordered_by", "ordered_deadline"), order, strict=True), ("state", state))
        for name, value in (*values, ("drain_deadline", deadline)):
            self._journal.set(node, name, value)
        self._reindex(key)

    def change_layout(self, node: Node, change: LayoutChange | None, failure: str) -> None:
        """Begins, goes on with or (None) ends the change of a node's MIG layout; undone with the journal."""
        key = {(node.cluster, node.pool)}
        self._journal.note(self._reindex, key)  # first, and so undone last, as in `put_nodes`
        self._journal.set(node, "layout", change)
        self._journal.set(node, "layout_failure", failure)
        self._note_layout(node)
        self._reindex(key)

    def _note_layout(self, node: Node) -> None:
        if node.layout is not None:
            self._journal.put(self.changing, node.key, None)
        elif node.key in self.changing:
            self._journal.drop(self.changing, node.key)

    def imagine(self, nodes: Sequence[Node]) -> None:
        """Has nodes of one pool be otherwise until the journal is rolled back: then the index is the one of before."""
        key = nodes[0].cluster, nodes[0].pool
        there = {node.key: node for node in self._capacity[key].nodes}
        self._journal.note(self._capacity.__setitem__, key, self._capacity[key])
        for node in nodes:
            _carry_over(there[node.key], node)
            self._journal.put(self.nodes, node.key, node)
            there[node.key] = node
        self._capacity[key] = Capacity(self._journal, list(there.values()))

    def drop_node(self, key: NodeKey) -> None:
        """A node that no longer exists: forgotten, or kept closed while anything is charged to it."""
        node = self.nodes.get(key)
        if node is None:
            return
        self._journal.note(self._reindex, {(node.cluster, node.pool)})
        if node.entries or node.ordered:  # an order holds when the node is back
            self._journal.set(node, "present", value=False)
        else:
            self._journal.drop(self.nodes, key)
            self._journal.drop(self.changing, key)
        self._reindex({(node.cluster, node.pool)})

    def forget_node(self, key: NodeKey) -> None:
        """A node of which there is no row any more."""
        node = self.nodes.get(key)
        if node is not None:
            self._journal.drop(self.nodes, key)
            self._journal.drop(self.changing, key)
            self._reindex({(node.cluster, node.pool)})

    def prepare(self) -> None:
        """Makes what searches read of pools whose nodes are others: called once a report of them is in the books."""
        for key in self._reported:
            capacity = self._capacity.get(key)
            if capacity is not None:
                capacity.prepare()
        self._reported.clear()

    def _reindex(self, pools: set[tuple[str, str]]) -> None:
        self._reported |= dict.fromkeys(pools)
        for cluster, pool in pools:
            nodes = sorted((n for n in self.nodes.values() if (n.cluster, n.pool) == (cluster, pool)), key=_by_name)
            self._capacity.pop((cluster, pool), None)
            if nodes:
                self._capacity[cluster, pool] = Capacity(self._journal, nodes)
        by_pool: dict[str, list[str]] = {}
        for cluster, pool in sorted(self._capacity):
            by_pool.setdefault(pool, []).append(cluster)
        self._pools = {pool: tuple(clusters) for pool, clusters in by_pool.items()}

    # -- invariants --------------------------------------------------------------------------------------------------

    def check(self, promised: frozenset[Holder] = frozenset()) -> None:
        """Raises AssertionError where the books do not agree or something is given twice.

        promised: holders of claims. What they are promised may still be held by those who leave: neither the running
        nor the promised alone with what stays may exceed a device.
        """
        for node in self.nodes.values():
            check_node(node, promised)
        for capacity in self._capacity.values():
            capacity.check()
        for node in self.nodes.values():
            index = self._capacity[node.cluster, node.pool]
            if index.nodes[node.ordinal] is not node:
                raise AssertionError(f"{node.key} is indexed as another node")
        changing = {key for key, node in self.nodes.items() if node.layout is not None}
        if changing != self.changing.keys():
            raise AssertionError(f"nodes whose layout changes are {changing}, and {set(self.changing)} are noted")


def _by_name(node: Node) -> str:
    return node.name


def _write(holder: Holder, node: Node, before: Grant, after: Grant | None) -> None:
    """What a holder holds of a node, instead of what it held so far."""
    now = after or _NOTHING
    node.used_cpu += now.cpu - before.cpu
    node.used_memory += now.memory - before.memory
    node.used_slots += now.slots - before.slots
    if before.extra or now.extra:
        count_extra(node, before.extra, now.extra)
    if after is None:
        node.entries.pop(holder, None)
    else:
        node.entries[holder] = after
    _write_devices(holder, node, before.shares, now.shares)


def _write_devices(holder: Holder, node: Node, before: tuple[Share, ...], after: tuple[Share, ...]) -> None:
    find = finder(node, len(before))
    for share in before:
        device = find(share.device)
        if device is not None:
            device.entries.pop(holder, None)
            device.tally()
    for share in after:
        device = node.device(share.device)
        if device is None:
            # Its agent no longer reports it, or never did since the restart: booked all the same, given to nobody.
            device = Device(share.device, "", 0, len(node.devices), healthy=False)
            node.devices.append(device)
        device.entries[holder] = share
        device.tally()


def _carry_over(known: Node, node: Node) -> None:
    """Moves what is charged to the known node into the newly reported one."""
    node.entries = dict(known.entries)
    node.used_cpu, node.used_memory, node.used_slots = known.used_cpu, known.used_memory, known.used_slots
    node.used_extra = dict(known.used_extra)
    reported = {device.uuid: device for device in node.devices}
    for device in known.devices:
        if not device.entries:
            continue
        now = reported.get(device.uuid)
        if now is None:
            now = Device(device.uuid, device.model, device.memory, device.slot, healthy=False, mig=device.mig)
            node.devices.append(now)
        now.entries = dict(device.entries)
    for device in node.devices:
        device.tally()
