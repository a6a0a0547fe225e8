"""Nodes of a cluster as its agent reports them: all in one record, all in parts, or what has changed.

Called by `State.apply`.
Holds: a delta after a gap waits for the next full inventory; one that comes in parts changes nothing before every part
of it is here, and the next full one supersedes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from muster_scheduler.domain.books.pools import pool_of
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.decisions import EndWish
from muster_scheduler.domain.events import InventoryPartReported, InventoryReported, LayoutReported
from muster_scheduler.domain.fleet import slots
from muster_scheduler.domain.fleet.clocks import tainted_since
from muster_scheduler.domain.fleet.clusters import Cluster
from muster_scheduler.domain.fleet.nodes import Node
from muster_scheduler.domain.fleet.orders import obey, order_of
from muster_scheduler.domain.fleet.snapshots import IncomingInventory, SnapshotId, missing
from muster_scheduler.domain.life import contradictions, layouts
from muster_scheduler.domain.life.fleet import accept, drop_parts
from muster_scheduler.domain.life.refusals import lift_permanent_refusals


def on_inventory(world: World, event: InventoryReported) -> None:
    """Nodes as they are: all, or what changed."""
    cluster = accept(world, event.cluster, event.order)
    if cluster is None:
        return
    if event.full:
        if cluster.full_needed or event.sequence >= cluster.inventory_sequence:
            _take_in(world, cluster, event)
    elif cluster.full_needed or event.sequence != cluster.inventory_sequence + 1:
        _miss_delta(world, cluster, event.sequence)
    else:
        _take_in(world, cluster, event)


def on_inventory_part(world: World, event: InventoryPartReported) -> None:
    """Some nodes of a full inventory, which is taken in once every part of it is here."""
    cluster = accept(world, event.cluster, event.order)
    if cluster is None:
        return
    snapshot, number, total = event.place
    wanted = SnapshotId(event.order.start, snapshot, total, event.digest)
    incoming = cluster.incoming
    if not cluster.full_needed and snapshot <= cluster.inventory_sequence:
        return  # a part that comes again after its inventory was taken in
    if incoming is not None and snapshot < incoming.id.sequence:
        return
    if incoming is None or incoming.id != wanted:
        _supersede(world, cluster)
        incoming = IncomingInventory(wanted, {})
    incoming = incoming.with_part(number, event.part)
    if not incoming.complete:
        _fall_behind(world, cluster)
        world.journal.set(cluster, "incoming", incoming)
        world.touched.parts[cluster.id, number] = None
    elif incoming.genuine:
        whole = (True, snapshot, incoming.profile, incoming.nodes(), (), incoming.objects())
        _take_in(world, cluster, InventoryReported(event.cluster, event.order, *whole))
    else:
        world.dropped_inventories.append(f"inventory {snapshot} of cluster {cluster.id} does not match its digest")
        _fall_behind(world, cluster)
        drop_parts(world, cluster)


def on_layout_reported(world: World, event: LayoutReported) -> None:
    """An agent answers a change of layout. Devices that the layout made count before the node opens."""
    if accept(world, event.cluster, event.order) is None:
        return
    node = world.inventory.nodes.get((event.cluster, event.node))
    if node is None:
        return  # its change ended with it
    change = node.layout
    if change is None or not change.applying:
        # It was answered before, or the books are older than the record: the record must not stay.
        world.decide(EndWish(event.cluster, event.node, event.revision, layouts.ANSWERED))
    elif change.revision == event.revision:
        layouts.end(world, node, layouts.ANSWERED, event.failure)
        if event.now is not None:
            _put_nodes(world, event.cluster, (event.now,), frozenset())


def _supersede(world: World, cluster: Cluster) -> None:
    incoming = cluster.incoming
    if incoming is not None:
        parts = missing(incoming.id.total, incoming.parts)
        said = f"inventory {incoming.id.sequence} of cluster {cluster.id} is given up: its parts {parts} did not come"
        world.dropped_inventories.append(said)
        drop_parts(world, cluster)


def _fall_behind(world: World, cluster: Cluster) -> None:
    if not cluster.behind_since:
        world.journal.set(cluster, "behind_since", world.now)


def _miss_delta(world: World, cluster: Cluster, sequence: int) -> None:
    """A change that cannot be applied: only a full inventory that was made after it will do."""
    if cluster.incoming is not None and sequence > cluster.incoming.id.sequence:
        _supersede(world, cluster)
    _fall_behind(world, cluster)
    world.journal.set(cluster, "full_needed", value=True)
    world.touched.clusters[cluster.id] = None


def _take_in(world: World, cluster: Cluster, event: InventoryReported) -> None:
    if event.full:
        drop_parts(world, cluster)
        world.journal.set(cluster, "behind_since", 0)
    world.journal.set(cluster, "inventory_sequence", event.sequence)
    world.journal.set(cluster, "full_needed", value=False)
    if event.profile is not None and event.profile != cluster.profile:
        world.journal.set(cluster, "profile", event.profile)
        lift_permanent_refusals(world, event.cluster)
        world.waiting.wake_all()
    world.touched.clusters[cluster.id] = None
    _take_objects(world, cluster, event)
    _take_nodes(world, event)


def _take_objects(world: World, cluster: Cluster, event: InventoryReported) -> None:
    reported, changed = event.objects, set[str]()
    if reported.named is not None and reported.named != cluster.names_objects:
        world.journal.set(cluster, "names_objects", reported.named)
        world.waiting.wake_all()  # what counted as there may be missing now, or the other way round
    entries = dict(reported.entries)
    for namespace in (cluster.objects.keys() - entries.keys()) if event.full else {*reported.removed}:
        if world.journal.drop(cluster.objects, namespace) is not None:
            changed.add(namespace)
    for namespace, objects in entries.items():
        if cluster.objects.get(namespace) != objects:
            world.journal.put(cluster.objects, namespace, objects)
            changed.add(namespace)
    for namespace in sorted(changed):
        world.touched.objects[cluster.id, namespace] = None
    if changed:
        world.waiting.wake_mounting(changed)


def _take_nodes(world: World, event: InventoryReported) -> None:
    nodes = tuple({node.name: node for node in event.nodes}.values())  # of a node named twice, the last counts
    reported = {node.name for node in nodes}
    vanished = set(event.removed) - reported
    if event.full:
        vanished |= {key[1] for key in world.inventory.nodes if key[0] == event.cluster and key[1] not in reported}
    for name in sorted(vanished):
        gone = world.inventory.nodes.get((event.cluster, name))
        if gone is not None:
            layouts.end(world, gone, layouts.NODE_GONE, "the node was deleted")
        world.inventory.drop_node((event.cluster, name))
    _put_nodes(world, event.cluster, nodes, vanished)


def _put_nodes(world: World, cluster: str, nodes: Sequence[Node], vanished: AbstractSet[str]) -> None:
    """Puts reported nodes into the books. vanished: names of those that were taken out of them before."""
    for node in nodes:
        known = world.inventory.nodes.get(node.key)
        if known is not None and known.ordered is not None:
            obey(node, order_of(known))
        if known is not None:
            node.layout, node.layout_failure = known.layout, known.layout_failure
        world.oddities += slots.add_devices(node, known)
    world.oddities += contradictions.settle(world.inventory, nodes)
    pools = _sorted(world, cluster, nodes)
    moved = [node for node in nodes if _closes_otherwise(world, node)]
    for node in nodes:
        known = world.inventory.nodes.get(node.key)
        if known is None or (known.windows, known.pool) != (node.windows, node.pool):
            world.watch_node(node)
    world.inventory.put_nodes(nodes)
    for workload_id in sorted({holder.workload for node in moved for holder in node.entries}):
        world.watch(world.workloads[workload_id])
    for name in sorted({node.name for node in nodes} | vanished):
        world.touched.nodes[cluster, name] = None
    for pool in sorted(pools):
        world.waiting.wake_pool(pool)


def _sorted(world: World, cluster: str, nodes: Sequence[Node]) -> set[str]:
    """Puts reported nodes into their pools. Which pools have other nodes by that, or the same ones otherwise."""
    labels = world.pools.labels(cluster)
    for node in nodes:
        node.pool = pool_of(node, labels)
    known = (world.inventory.nodes.get(node.key) for node in nodes)
    return {each.pool for each in (*nodes, *known) if each is not None}


def _closes_otherwise(world: World, node: Node) -> bool:
    """Whether the report sends away what runs on the node, now at another time, or no longer.

    No longer too: until then nobody had to look at a later clock of what runs there, such as its longest run time.
    """
    known = world.inventory.nodes.get(node.key)
    node.tainted = tainted_since(known, node, world.now)
    before = (known.closing(world.now), known.tainted) if known is not None else (0, 0)
    return (node.closing(world.now), node.tainted) != before
