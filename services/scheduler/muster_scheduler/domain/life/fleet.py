"""Clusters: who speaks for them, what they have, whether they are silent, and what becomes of what they held.

Called by `State.apply` for reports and operators' commands, and by the cycle for the clocks.
Nodes are taken in by inventories.py.
Holds: a cluster is bound to one agent instance until an operator adopts another; what is missing from a list of held
assignments is judged on the whole list, never on a part of it; silence takes nothing back by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from muster_kernel.lifecycle import ACTIVE, RELEASING, LifecycleEvent, Phase
from muster_kernel.reasons import ChangeReason, FailureClass
from muster_kernel.versions import too_far_apart
from muster_scheduler.domain.asked.limits import ORPHAN_AFTER
from muster_scheduler.domain.asked.quarantine import cluster_place
from muster_scheduler.domain.asked.workloads import SECOND, ReplicaState, Workload
from muster_scheduler.domain.books.course import advance, gone
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.decisions import Assign, Release
from muster_scheduler.domain.events import (
    AssignmentsHeld,
    ClusterAdopted,
    ClusterRegistered,
    HeartbeatSeen,
    NodeForcedGone,
    NodeOrdered,
    Order,
)
from muster_scheduler.domain.fleet.clusters import Cluster, Orphan
from muster_scheduler.domain.fleet.orders import order_of
from muster_scheduler.domain.fleet.snapshots import HeldParts, SnapshotPart
from muster_scheduler.domain.life import layouts, reports
from muster_scheduler.domain.life.failures import faults_in_a_row
from muster_scheduler.domain.life.refusals import lift_permanent_refusals

E = LifecycleEvent


def on_registered(world: World, event: ClusterRegistered) -> None:
    """A cluster may report from now on; registering again changes its setting, and brings one back that has left."""
    known = world.clusters.get(event.cluster)
    if known is None:
        known = Cluster(event.cluster, fresh=world.now)
        world.journal.put(world.clusters, event.cluster, known)
    if known.left:
        world.journal.set(known, "left", value=False)
        world.journal.set(known, "fresh", world.now)
    world.journal.set(known, "lost_timeout", event.lost_timeout)
    world.touched.clusters[event.cluster] = None


def accept(world: World, cluster_id: str, order: Order) -> Cluster | None:
    """The cluster of a report, if it speaks for it: registered, and bound to this instance (the first one binds)."""
    cluster = world.clusters.get(cluster_id)
    if cluster is None or cluster.left or not order.instance:
        return None
    if not cluster.instance:
        world.journal.set(cluster, "instance", order.instance)
        world.touched.clusters[cluster_id] = None
    if cluster.instance != order.instance:
        cluster.notice(order.instance, world.now)
        return None
    if order.start < cluster.start:
        return None
    if order.start > cluster.start:
        world.journal.set(cluster, "start", order.start)
        world.journal.set(cluster, "full_needed", value=True)
        drop_parts(world, cluster)
        world.touched.clusters[cluster_id] = None
    # Any other observation than the last one is a new one: an agent's clock may be set back while it works.
    if order.observed != cluster.observed or not cluster.fresh:
        _freshen(world, cluster, order.observed)
    return cluster


def drop_parts(world: World, cluster: Cluster) -> None:
    """Gives up an incomplete inventory: it is whole by now, or another one counts."""
    if cluster.incoming is not None:
        world.journal.set(cluster, "incoming", None)
        world.touched.parts_over[cluster.id] = None


def speaks_for(world: World, cluster_id: str, order: Order) -> bool:
    """Whether a report comes from the agent instance to which the cluster is bound; nothing is bound by asking."""
    cluster = world.clusters.get(cluster_id)
    return cluster is not None and bool(order.instance) and cluster.instance == order.instance


def _freshen(world: World, cluster: Cluster, observed: int) -> None:
    stale = cluster.silent or world.now - cluster.fresh > world.limits.stale_after
    world.journal.set(cluster, "observed", observed)
    world.journal.set(cluster, "fresh", world.now)
    if cluster.silent:
        world.journal.set(cluster, "silent", value=False)
        world.touched.clusters[cluster.id] = None
    if stale:
        world.waiting.wake_all()


def on_heartbeat(world: World, event: HeartbeatSeen) -> None:
    """The agent lives, and says after which silence its replicas end by themselves.

    Every heartbeat says it, because silence is counted from the last one: the deadline that holds then is in it.
    """
    cluster = accept(world, event.cluster, event.order)
    if cluster is None:
        return
    if cluster.dead_man != event.dead_man:
        world.journal.set(cluster, "dead_man", event.dead_man)
        world.touched.clusters[cluster.id] = None
    found = (event.version, _why_unfit(event.version, world.limits.version))
    if (cluster.version, cluster.unfit) != found:
        relieved = cluster.unfit and not found[1]
        for name, value in zip(("version", "unfit"), found, strict=True):
            world.journal.set(cluster, name, value)
        if relieved:
            world.waiting.wake_all()
    if cluster.unreachable != event.unreachable:
        world.journal.set(cluster, "unreachable", event.unreachable)
        if not event.unreachable:
            world.waiting.wake_all()


def _why_unfit(version: str, own: str) -> str:
    """Why an agent of that version gets no new work, for people; empty: it does. own: of the scheduler."""
    if not too_far_apart(version, own):
        return ""
    return (
        f"its agent has version {version} and the scheduler {own}: a cluster gets no new work while they are more than "
        "one minor release apart"
    )


def on_held(world: World, event: AssignmentsHeld) -> None:
    """The agent's snapshot, or a part of it: statuses of what it holds, strays that are to go, the end of a silence."""
    cluster = accept(world, event.cluster, event.order)
    if cluster is None:
        return
    place = event.place or SnapshotPart(event.order.sequence, 1, 1)
    seen = (event.order.start, place.snapshot)
    for held in event.held:
        workload = world.workloads.get(held.workload)
        if workload is None:
            key = (event.cluster, held.workload)
            known = world.orphans.get(key)
            since = world.now if known is None else known.since
            world.journal.put(world.orphans, key, Orphan(since, held.generation, held.attempt, seen))
        elif not _is_ours(workload, event.cluster, held.generation, held.attempt):
            _correct(world, workload, event.cluster, held.generation, held.attempt)
        else:
            for status in held.replicas:
                reports.take_status(world, workload, held.generation, held.attempt, status, event.order)
    if _completes(world, cluster, event.order.start, place):
        for key in [k for k, orphan in world.orphans.items() if k[0] == event.cluster and orphan.seen != seen]:
            world.journal.drop(world.orphans, key)
        _end_silence(world, event.cluster)


def _completes(world: World, cluster: Cluster, start: int, place: SnapshotPart) -> bool:
    """Notes a part of the list of held assignments; whether every part of that list is here now."""
    known = cluster.held
    if known is not None and known.key > (start, place.snapshot):
        return False  # given again later than its successor: its statuses count, what it lacks does not
    taken, since = {place.number}, world.now
    if known is not None:
        since = known.since
        if (*known.key, known.total) == (start, place.snapshot, place.total):
            taken |= set(known.taken)
    whole = len(taken) == place.total
    held = None if whole else HeldParts(start, place.snapshot, place.total, tuple(sorted(taken)), since)
    if held != known:
        world.journal.set(cluster, "held", held)
        world.touched.clusters[cluster.id] = None
    return whole


def _is_ours(workload: Workload, cluster: str, generation: int, attempt: int) -> bool:
    if workload.cluster != cluster:
        return False
    runs = {(replica.holder.generation, replica.holder.attempt) for replica in workload.everyone()}
    return (generation, attempt) in runs or (generation, attempt) == (workload.revision, workload.attempt)


def _correct(world: World, workload: Workload, cluster: str, generation: int, attempt: int) -> None:
    """The agent holds an attempt that is over in the books. A record answers: the current one, else a tombstone."""
    if workload.cluster == cluster and workload.phase in ACTIVE:
        world.decide(Assign(cluster, workload.id))
    else:
        world.decide(Release(cluster, workload.id, generation, attempt, world.limits.grace, "Superseded"))


def _end_silence(world: World, cluster: str) -> None:
    for workload in workloads_of(world, cluster):
        if workload.snapshot_due:
            world.set(workload, snapshot_due=False)
            reports.judge(world, workload)


def workloads_of(world: World, cluster: str) -> list[Workload]:
    """What holds something in a cluster, by id."""
    ids = {w for (where, _, _), members in world.placed.items() if where == cluster for w in members}
    return [world.workloads[workload_id] for workload_id in sorted(ids)]


def on_adopted(world: World, event: ClusterAdopted) -> None:
    """Another agent instance speaks for the cluster from now on; what the old one held is declared gone."""
    cluster = world.clusters.get(event.cluster)
    if cluster is None or cluster.instance == event.instance:
        return
    for workload in workloads_of(world, event.cluster):
        declare_gone(world, workload, None, "its cluster was adopted by another agent")
    lift_permanent_refusals(world, event.cluster)
    cluster.strangers.pop(event.instance, None)
    fresh = {"instance": event.instance, "start": 0, "full_needed": True, "silent": False, "dead_man": 0}
    for name, value in fresh.items():
        world.journal.set(cluster, name, value)
    world.journal.set(cluster, "held", None)  # the new one counts its starts anew: nothing of it would seem newer
    world.touched.clusters[event.cluster] = None
    layouts.tell_again(world, event.cluster)


def on_ordered(world: World, event: NodeOrdered) -> None:
    """An operator cordons or drains a node, or takes that back; what runs there goes by the deadline of a drain."""
    node = world.inventory.nodes.get((event.cluster, event.node))
    if node is None or order_of(node) == event.order:
        return
    world.inventory.order(node, event.order)
    for workload_id in sorted({holder.workload for holder in node.entries}):
        world.watch(world.workloads[workload_id])
    world.touched.nodes[node.key] = None
    if not node.present and event.order.state is None:
        world.inventory.drop_node(node.key)  # only the order kept it in the books
    world.waiting.wake_pool(node.pool)


def on_forced_gone(world: World, event: NodeForcedGone) -> None:
    """An operator vouches that nothing runs on the node any more."""
    for workload in workloads_of(world, event.cluster):
        declare_gone(world, workload, event.node, f"an operator declared node {event.node} gone")


def declare_gone(world: World, workload: Workload, node: str | None, why: str) -> None:
    """Takes replicas (of one node, or all) for gone without the agent's word."""
    hit = [r for r in workload.everyone() if not r.gone and (node is None or r.node[1] == node)]
    if not hit:
        return
    if workload.phase is Phase.UNKNOWN and len(hit) == len([r for r in workload.everyone() if not r.gone]):
        give_up(world, workload, why)
        return
    for replica in hit:
        if workload.phase not in RELEASING and not replica.ended:
            news = replica.news._replace(failure=FailureClass.INFRASTRUCTURE, message=why)
            world.set_replica(replica, state=ReplicaState.FAILED, news=news)
        reports.end_of(world, workload, replica)


def give_up(world: World, workload: Workload, why: str) -> None:
    """An Unknown workload's replicas count as gone: it is queued again as the next attempt."""
    world.decide(
        Release(workload.cluster, workload.id, workload.revision, workload.attempt, world.limits.grace, "GivenUp")
    )
    faults = faults_in_a_row(workload.faults, world.now - workload.placed)
    for replica in workload.everyone():
        if not replica.gone:
            gone(world, workload, replica)
    world.clear_run(workload)
    world.set(workload, attempt=workload.attempt + 1, faults=faults, snapshot_due=False)
    advance(world, workload, E.GIVEN_UP, ChangeReason.CLUSTER_LOST, why)


def heard_until(world: World, cluster_id: str) -> int:
    """The moment until which it is known what the agent of a cluster has said, in microseconds since 1970.

    Silence is judged of that time alone: what was not read yet may be a sign of life.
    """
    return min(world.now, world.read_until.get(cluster_id, world.now))


def note_read(world: World, until: Mapping[str, int]) -> None:
    """Note until when the reports of each cluster are read, in microseconds since 1970; 0: they were not read yet.

    Where reading goes on after a pause, Kafka was away. Agents could not report either and connect again only now, so
    their silence is counted from now on.
    """
    before, pause = world.read_until, world.limits.stale_after
    world.journal.set(world, "read_until", until)
    again = sorted(name for name, at in until.items() if 0 < before.get(name, 0) < at - pause)
    if again:
        start_clocks(world, again)


def start_clocks(world: World, clusters: Iterable[str]) -> None:
    """Count the silence of clusters from now on: their reports could not be read before."""
    for cluster in (world.clusters[name] for name in clusters if name in world.clusters):
        world.journal.set(cluster, "fresh", world.now)
    world.waiting.wake_all()


def watch_clocks(world: World) -> None:
    """Clusters that have become silent, lost ones where that was chosen, and strays that are to be released."""
    for cluster_id in filter(lambda name: world.attends_place(cluster_place(name)), sorted(world.clusters)):
        cluster = world.clusters[cluster_id]
        if not cluster.instance:
            continue
        quiet = heard_until(world, cluster_id) - cluster.fresh
        if not cluster.silent and quiet > world.limits.silent_after:
            _fall_silent(world, cluster)
        if cluster.silent and cluster.released_after and quiet > cluster.released_after * SECOND:
            for workload in workloads_of(world, cluster_id):
                declare_gone(world, workload, None, f"cluster {cluster_id} was silent for {quiet // SECOND} s")
    world.attending_place = ""
    for (cluster_id, workload_id), orphan in sorted(world.orphans.items()):
        if world.now - orphan.since > ORPHAN_AFTER:
            world.journal.drop(world.orphans, (cluster_id, workload_id))
            run = (orphan.generation, orphan.attempt)
            world.decide(Release(cluster_id, workload_id, *run, world.limits.grace, "NoRow"))


def _fall_silent(world: World, cluster: Cluster) -> None:
    world.journal.set(cluster, "silent", value=True)
    world.journal.set(cluster, "held", None)  # what was said before the silence does not end it
    world.touched.clusters[cluster.id] = None
    for workload in workloads_of(world, cluster.id):
        if workload.phase in ACTIVE:
            world.set(workload, snapshot_due=True, below_since=0)
            advance(world, workload, E.CLUSTER_SILENT, ChangeReason.CLUSTER_SILENT)
