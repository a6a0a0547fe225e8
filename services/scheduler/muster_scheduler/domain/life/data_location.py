"""Workloads whose volumes outlive a run go where their data is (kubernetes.md 10.4).

Called by reports, by admission, and when a cluster leaves. Holds: a workload whose volumes a run has mounted in a
cluster is placed nowhere else, unless a later revision of its spec excludes that cluster or the cluster leaves the
fleet.
"""

from __future__ import annotations

from typing import Final

from muster_kernel.lifecycle import WAITING
from muster_scheduler.domain.asked.workloads import DataLocation, ReplicaState, Request, Workload
from muster_scheduler.domain.books.claims import drop_claim
from muster_scheduler.domain.books.course import enqueue
from muster_scheduler.domain.books.world import World

_VOLUMES: Final = "pvcs"
_MOUNTED: Final = frozenset({ReplicaState.STARTING, ReplicaState.READY, ReplicaState.SUCCEEDED})
"""States of a replica of which a container has run, and so has had its volumes."""


def bind_to_data(world: World, workload: Workload, state: ReplicaState) -> None:
    """A replica is in that state: from the first that has mounted its volumes on, the workload stays in its cluster.

    A cluster that ignores volumes keeps no data, and binds nothing.
    """
    request = workload.request
    if request is None or not request.keeps_data or request.data is not None or state not in _MOUNTED:
        return
    if request.clusters and workload.cluster not in request.clusters:
        return  # a revision that excludes the cluster rolls over there, and moves at its next placement
    cluster = world.clusters.get(workload.cluster)
    if cluster is None or cluster.profile is None or _VOLUMES in cluster.profile.ignored_fields:
        return
    place = DataLocation(workload.cluster, request.clusters)
    _set(world, workload, request._replace(clusters=(place.cluster,), data=place))


def keep_binding(known: Request | None, later: Request) -> Request:
    """The request of a later revision: bound as the one before, unless its spec excludes the cluster with the data."""
    place = known.data if known is not None else None
    if place is None or not later.keeps_data or (later.clusters and place.cluster not in later.clusters):
        return later
    return later._replace(clusters=(place.cluster,), data=DataLocation(place.cluster, later.clusters))


def unbind_from(world: World, cluster: str) -> None:
    """The data of a cluster that leaves is gone: workloads that it bound may run elsewhere."""
    for workload in [*world.workloads.values()]:
        request = workload.request
        if request is None or request.data is None or request.data.cluster != cluster:
            continue
        waits = workload.phase in WAITING
        if waits:
            world.waiting.remove(workload.id)
            drop_claim(world, workload)
        _set(world, workload, request._replace(clusters=request.data.spec_clusters, data=None))
        if waits:
            enqueue(world, workload)


def _set(world: World, workload: Workload, request: Request) -> None:
    world.set(workload, request=request)
    world.touched.requests[workload.id] = None
