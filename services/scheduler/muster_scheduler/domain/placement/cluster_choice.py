"""Which clusters may be given a workload, and in which order they are tried.

Called by the cycle and by whoever makes room, for each pool in turn, and by explanations.
Holds: the order depends on what the workload asks for, on its project, and on what the clusters have; it is a wish:
whoever finds a place in a later cluster takes it.
"""

from __future__ import annotations

from typing import Final

from muster_kernel.reasons import Unsupported
from muster_scheduler.domain.asked.terms import Terms
from muster_scheduler.domain.asked.workloads import KIND_WORDS, Request, Workload
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.fleet.clusters import Cluster, Profile, Standing, refused

_NONE: Final[frozenset[str]] = frozenset()


def eligible(world: World, request: Request, cluster: Cluster | None) -> bool:
    """Whether the cluster may be given this request now: admitted there, able to run it, and fresh."""
    return able(request, cluster) and ready(world, cluster)


def able(request: Request, cluster: Cluster | None) -> bool:
    """Whether the cluster is allowed, supports all that the request asks for, and has what it mounts."""
    return cluster is not None and supports(request, cluster) and not cluster.missing_of(request.mounts)


def supports(request: Request, cluster: Cluster) -> bool:
    """Whether the cluster is allowed and its profile supports all that the request asks for."""
    if cluster.profile is None or not request.may_use(cluster.id):
        return False
    return unsupported(request, cluster.profile) is None


def unsupported(request: Request, profile: Profile) -> Unsupported | None:
    """The first thing in the request that a cluster with this profile refuses; None: nothing."""
    if KIND_WORDS[request.kind] in profile.refused_fields:
        return Unsupported.FIELDS
    for role in request.roles:
        lack = refused(profile, role.shape, request.fields)
        if lack is not None:
            return lack
    return None


def ready(world: World, cluster: Cluster | None) -> bool:
    """Whether new work may be given to the cluster now."""
    if cluster is None:
        return False
    return cluster.standing(world.now, world.limits.stale_after) is Standing.READY


def clusters_for(world: World, workload: Workload, request: Request, pool: str) -> list[str]:
    """The eligible clusters that have nodes in the pool, in the order in which they are tried.

    First those that the workload prefers, in its order; then those that have its data; then the project's own; then by
    most idle devices; then by id.
    """
    found = [c for c in world.inventory.clusters_with(pool) if eligible(world, request, world.clusters.get(c))]
    if len(found) > 1:
        project, terms = world.queues.projects.get(workload.project), request.terms
        home = project.home if project else ""
        found.sort(key=lambda cluster: (cluster != home, -_idle(world, cluster, pool), cluster))
        if terms.preferred_clusters or terms.data is not None:
            _wished_first(world, terms, found)
    return found


def _wished_first(world: World, terms: Terms, clusters: list[str]) -> None:
    """Moves those that are preferred, then those with the data, to the front; the others keep their order."""
    rank = {cluster: n for n, cluster in enumerate(terms.preferred_clusters)}
    near = world.inventory.clusters_labelled(terms.data) if terms.data is not None else _NONE
    clusters.sort(key=lambda cluster: (rank.get(cluster, len(rank)), cluster not in near))


def _idle(world: World, cluster: str, pool: str) -> int:
    capacity = world.inventory.capacity(cluster, pool)
    return capacity.total if capacity else 0
