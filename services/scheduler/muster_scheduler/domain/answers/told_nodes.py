"""What keeps which nodes of the fleet out, counted: the first thing that a node fails for one replica, in words.

Called by explain.py. Of a node that is too small even without anybody that is said, whatever else is in the way now.
Holds: every node is counted once; nothing is changed.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from muster_kernel.reasons import Constraint
from muster_scheduler.domain.answers.closed import closed_in_words
from muster_scheduler.domain.answers.remedies import short_role
from muster_scheduler.domain.answers.unhealthy import disputed_on, unhealthy_on
from muster_scheduler.domain.answers.wording import (
    IDLE_PHRASES,
    PHRASES,
    closed_models_in_words,
    disputed,
    elsewhere,
    in_mig,
    not_supported,
    not_tolerated,
    refused_by_policy,
    too_little,
    unhealthy,
    without_data,
    without_objects,
    wrong_type,
)
from muster_scheduler.domain.asked.requests import Kind, Shape
from muster_scheduler.domain.asked.workloads import KIND_WORDS, Request, Workload
from muster_scheduler.domain.books.eligible import eligibility_of
from muster_scheduler.domain.books.models import asked_of
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.fleet.closures import closure_of
from muster_scheduler.domain.fleet.clusters import Standing
from muster_scheduler.domain.fleet.eligibility import excluded, models_of_node, types_of_node, untolerated
from muster_scheduler.domain.fleet.nodes import Node
from muster_scheduler.domain.fleet.objects import in_words
from muster_scheduler.domain.placement.cluster_choice import unsupported
from muster_scheduler.domain.placement.place import amount_before, mig_of
from muster_scheduler.domain.placement.slicing import fit_there
from muster_scheduler.domain.placement.trial import emptied

Phrase = tuple[str, str]
"""What is said of one node and of several."""

# What no node keeps for ever: one that would be too small even without anybody is said to be that.
_PASSING: Final = frozenset(
    {
        *IDLE_PHRASES,
        Constraint.RESOURCE,
        Constraint.RESERVED,
        Constraint.CLOSES_TOO_SOON,
        Constraint.REFUSED_BEFORE,
    }
)


_OF_CARDS: Final = frozenset(
    {
        Constraint.NO_GPU,
        Constraint.NO_IDLE_GPU,
        Constraint.TOO_FEW_GPUS,
        Constraint.NO_PORTION,
    }
)


class Looked(NamedTuple):
    """Every node with the first constraint that it fails for one replica of `shape`, or FITS.

    never: not even an idle node holds one.
    """

    shape: Shape
    never: bool
    nodes: tuple[tuple[Node, Constraint], ...]


def look(world: World, workload: Workload, request: Request) -> Looked:
    """The nodes as the largest role of the request sees them; the one that no node holds, where there is one."""
    largest = max(request.roles, key=lambda role: (role.charge, role.shape.cpu), default=None)
    if largest is None:
        return Looked(Shape(), never=False, nodes=())
    short = short_role(world, workload, request)
    shape = (short or largest).shape
    nodes = world.inventory.nodes.values()
    found = tuple((node, constraint_of(world, workload, request, shape, node)) for node in nodes)
    return Looked(shape, short is not None, found)


def excluded_nodes(
    world: World, workload: Workload, request: Request, looked: Looked
) -> tuple[tuple[Constraint, int, str], ...]:
    """By constraint and words how many nodes it keeps out, the most first; those that would do last."""
    found = Counter(_said_of(world, workload, request, looked.shape, each) for each in looked.nodes)
    order = sorted(found.items(), key=lambda item: (item[0][0] is Constraint.FITS, -item[1], item[0]))
    return tuple((said[0], number, said[1][number != 1]) for said, number in order)


def _said_of(
    world: World, workload: Workload, request: Request, shape: Shape, seen: tuple[Node, Constraint]
) -> tuple[Constraint, Phrase]:
    node, constraint = seen
    small = _too_small(world, shape, node) if constraint in _PASSING else None
    cards = _cards_in_mig(shape, node)
    if cards and (small[0] if small else constraint) in _OF_CARDS:
        return small[0] if small else constraint, in_mig(cards)
    if small is not None:
        return small
    mig = mig_of(world, node.cluster)
    if constraint in IDLE_PHRASES and (sick := unhealthy_on(world, node, shape, mig)):
        twice = disputed_on(world, node)
        return Constraint.UNHEALTHY, disputed(len(twice)) if len(twice) == sick else unhealthy(sick)
    named = _named(world, workload, request, node, constraint) or _misplaced(world, request, node, constraint)
    if constraint is Constraint.RESOURCE:
        named = too_little([name for name, most in shape.extra if node.free_extra(name) < most], free=True)
    return constraint, named or PHRASES[constraint]


def _cards_in_mig(shape: Shape, node: Node) -> int:
    """How many cards of a node give slices alone, where it is no slice that is asked for."""
    return sum(device.mig for device in node.devices) if shape.kind in {Kind.WHOLE, Kind.PORTION} else 0


def _too_small(world: World, shape: Shape, node: Node) -> tuple[Constraint, Phrase] | None:
    """What it would lack even without anybody on it."""
    idle = fit_there(world, emptied(node), shape, mig_of(world, node.cluster))
    if idle is Constraint.RESOURCE:
        return idle, too_little([name for name, most in shape.extra if node.extra.get(name, 0) < most], free=False)
    return (idle, IDLE_PHRASES.get(idle) or PHRASES[idle]) if isinstance(idle, Constraint) else None


def _named(world: World, workload: Workload, request: Request, node: Node, constraint: Constraint) -> Phrase | None:
    """What of the node itself keeps it out, by its name."""
    asked = eligibility_of(world.queues, workload, world.limits.grace)
    match constraint:
        case Constraint.NODE_UNAVAILABLE | Constraint.CLOSES_TOO_SOON:
            closure = closure_of(asked, node, world.now)
            return closed_in_words(closure, world.now) if closure else None
        case Constraint.TAINTED:
            return not_tolerated(untolerated(asked, node))
        case Constraint.WRONG_NODE_TYPE:
            return wrong_type(sorted(types_of_node(node)), sorted(asked.types or ()))
        case Constraint.MODEL_CLOSED:
            closed = asked_of(world, workload, amount_before(world, request, node.pool).gpu).closed
            return closed_models_in_words(sorted(closed & models_of_node(node)))
    return None


def _misplaced(world: World, request: Request, node: Node, constraint: Constraint) -> Phrase | None:
    """What of its cluster and node pool keeps it out, by their names."""
    match constraint:
        case Constraint.CLUSTER_NOT_SUPPORTED:
            return _refusal(world, request, node)
        case Constraint.WRONG_POOL if not any(map(world.inventory.clusters_with, request.pools)):
            return elsewhere("node pool", node.pool, request.pools)
        case Constraint.DATA_MISSING:
            if request.data is not None and node.cluster != request.data.cluster:
                return without_data(request.data.cluster)
            return without_objects(in_words(_missing(world, request, node)))
        case Constraint.WRONG_CLUSTER if node.cluster in request.excluded:
            return refused_by_policy(node.cluster)
        case Constraint.WRONG_CLUSTER if not any(map(world.clusters.get, request.clusters)):
            return elsewhere("cluster", node.cluster, request.clusters)
    return None


def _missing(world: World, request: Request, node: Node) -> list[str]:
    """Which of the objects that it mounts are not in the cluster of the node."""
    cluster = world.clusters.get(node.cluster)
    return cluster.missing_of(request.mounts) if cluster is not None else []


def _refusal(world: World, request: Request, node: Node) -> tuple[str, str] | None:
    """What its cluster does not support, of one node and of several; None: nothing."""
    cluster = world.clusters.get(node.cluster)
    if cluster is None or cluster.profile is None:
        return None
    lack = unsupported(request, cluster.profile)
    fields = {*request.fields, KIND_WORDS[request.kind]}.intersection(cluster.profile.refused_fields)
    return None if lack is None else not_supported(lack, sorted(fields))


def constraint_of(world: World, workload: Workload, request: Request, shape: Shape, node: Node) -> Constraint:
    """The first constraint that a node fails for one replica, or FITS."""
    cluster = world.clusters.get(node.cluster)
    if node.cluster in request.excluded:
        return Constraint.WRONG_CLUSTER
    if request.clusters and node.cluster not in request.clusters:
        otherwise = request.data.spec_clusters if request.data is not None else (*request.clusters,)
        return Constraint.WRONG_CLUSTER if otherwise and node.cluster not in otherwise else Constraint.DATA_MISSING
    if node.pool not in request.pools:
        return Constraint.WRONG_POOL
    if _refusal(world, request, node) is not None:
        return Constraint.CLUSTER_NOT_SUPPORTED
    if _missing(world, request, node):
        return Constraint.DATA_MISSING
    if cluster is None or cluster.standing(world.now, world.limits.stale_after) is not Standing.READY:
        return Constraint.CLUSTER_SILENT
    out = excluded(asked_of(world, workload, amount_before(world, request, node.pool).gpu), node, world.now)
    if out is not None:
        return out
    outcome = fit_there(world, node, shape, mig_of(world, node.cluster))
    return outcome if isinstance(outcome, Constraint) else Constraint.FITS
