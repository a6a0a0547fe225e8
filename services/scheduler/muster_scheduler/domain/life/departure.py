"""A cluster leaves the fleet because an operator says so.

Called by `State.apply`. Holds: nothing is placed on a cluster that has left and no report of it counts until it is
registered again; its name stays known, so that records which are still on their way find it.
"""

from __future__ import annotations

from muster_kernel.lifecycle import ACTIVE, WAITING, LifecycleEvent
from muster_kernel.reasons import ChangeReason
from muster_scheduler.domain.asked.workloads import Ending
from muster_scheduler.domain.books.claims import drop_claim
from muster_scheduler.domain.books.course import advance
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.events import ClusterLeft
from muster_scheduler.domain.fleet.orders import Order
from muster_scheduler.domain.life import layouts
from muster_scheduler.domain.life.data_location import unbind_from
from muster_scheduler.domain.life.fleet import declare_gone, drop_parts, workloads_of
from muster_scheduler.domain.life.refusals import lift_permanent_refusals


def on_left(world: World, event: ClusterLeft) -> None:
    """Take a cluster out of the fleet: what it still holds is declared gone, and its nodes go."""
    cluster = world.clusters.get(event.cluster)
    if cluster is None or cluster.left:
        return
    _give_up_claims(world, event.cluster)
    # The nodes close first: a workload that restarts would otherwise wait for the devices that it had on them.
    for node in [*world.inventory.in_cluster(event.cluster)]:
        if node.ordered is not None:
            world.inventory.order(node, Order())
        layouts.end(world, node, layouts.NODE_GONE)
        world.inventory.drop_node(node.key)
        world.touched.nodes[node.key] = None
    text = f"cluster {event.cluster} has left the fleet"
    for workload in workloads_of(world, event.cluster):
        declare_gone(world, workload, None, text)
    for workload in [*world.workloads.values()]:
        # Replicas of these are replaced in the cluster that they are in: without it the workload needs a new place.
        if workload.cluster == event.cluster and workload.independent and workload.phase in ACTIVE:
            world.set(workload, ending=Ending.MOVED)
            advance(world, workload, LifecycleEvent.GANG_RESTART, ChangeReason.CLUSTER_LOST, text)
    for key in [key for key in world.orphans if key[0] == event.cluster]:
        world.journal.drop(world.orphans, key)
    unbind_from(world, event.cluster)
    for namespace in [*cluster.objects]:
        world.journal.drop(cluster.objects, namespace)
        world.touched.objects[cluster.id, namespace] = None
    drop_parts(world, cluster)
    lift_permanent_refusals(world, event.cluster)
    unknown = {"instance": "", "profile": None, "held": None, "left": True, "full_needed": True, "silent": False}
    unknown |= {"names_objects": False, "version": "", "unfit": ""}
    zero = ("start", "observed", "inventory_sequence", "lost_timeout", "dead_man", "behind_since")
    for name, value in {**unknown, **dict.fromkeys(zero, 0)}.items():
        world.journal.set(cluster, name, value)
    cluster.strangers.clear()
    world.touched.clusters[event.cluster] = None
    world.waiting.wake_all()


def _give_up_claims(world: World, cluster: str) -> None:
    """Room that is being made in the cluster is of no use any more: those who wait for it are queued again."""
    for workload_id in [*world.claims]:
        workload = world.workloads[workload_id]
        if workload.claim is not None and workload.claim.cluster == cluster:
            drop_claim(world, workload)
            if workload.phase in WAITING:
                world.waiting.add(workload)
