"""Why a workload waits, for a person: the dominant reason, what excludes which nodes, and what would let it start.

Called when somebody asks, never by a cycle. Reads the live state; `explain` tries changes under a mark of the journal
and takes them back, so that what it says would help has really been tried.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from muster_kernel.lifecycle import WAITING
from muster_kernel.reasons import IN_VAIN, NEVER, TOO_FAR_APART, Constraint, WaitingReason
from muster_kernel.sentences import Reason
from muster_scheduler.domain.answers.allowances import larger
from muster_scheduler.domain.answers.attempts import Attempt, Way, attempts
from muster_scheduler.domain.answers.endings import who_would_have_to_end
from muster_scheduler.domain.answers.estimates import WITHOUT_ROOM, Estimate, estimate, kept_for
from muster_scheduler.domain.answers.raising import enough_quota
from muster_scheduler.domain.answers.remedies import (
    looser,
    other_clusters,
    other_pools,
    other_types,
    short_role,
    what_would_fit,
)
from muster_scheduler.domain.answers.shares import QueueShare, shares_of
from muster_scheduler.domain.answers.unhealthy import healthy_again, unhealthy_on
from muster_scheduler.domain.answers.viewing import EVERYONE, Viewer
from muster_scheduler.domain.answers.wording import (
    IDLE_PHRASES,
    PHRASES,
    asks,
    elsewhere,
    not_supported,
    too_little,
    unhealthy,
)
from muster_scheduler.domain.asked.requests import Shape
from muster_scheduler.domain.asked.workloads import SECOND, Request, Workload
from muster_scheduler.domain.books.models import asked_of, bar
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.fleet.clusters import Standing
from muster_scheduler.domain.fleet.eligibility import excluded
from muster_scheduler.domain.fleet.nodes import Node, fit
from muster_scheduler.domain.placement.place import amount_before, mig_of, unsupported
from muster_scheduler.domain.placement.reasoning import why_not
from muster_scheduler.domain.placement.trial import emptied
from muster_scheduler.domain.turning.reservation import behind

_OF_QUOTA: Final = frozenset({WaitingReason.OVER_QUOTA, WaitingReason.OVER_LIMIT, WaitingReason.NO_WEIGHT})
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
_AS_KEPT: Final = NEVER | {WaitingReason.NOT_EVALUATED, WaitingReason.CLAIM}


class Brief(NamedTuple):
    """What every explanation begins with."""

    asks: str
    pool: str


class Explanation(NamedTuple):
    """The whole answer. `excluded`: (constraint, nodes, phrase), the most frequent first; FITS last.

    attempts: what making room comes to, where room lacks. shares: its project's and department's in its first pool,
    where room or quota lacks.
    """

    reason: Reason | None
    asks: str
    pool: str
    rank: int = 0
    excluded: tuple[tuple[Constraint, int, str], ...] = ()
    unblockers: tuple[str, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    shares: tuple[QueueShare, ...] = ()
    estimate: Estimate | None = None


def brief_of(workload: Workload) -> Brief:
    """What is published with a changed reason: cheap, since hundreds may be told at once."""
    request = workload.request
    if request is None:
        return Brief("", "")
    return Brief(asks(request), request.pools[0] if request.pools else "")


def explain(world: World, workload: Workload, viewer: Viewer = EVERYONE) -> Explanation:
    """The whole answer, from the state of this moment, as its viewer may read it."""
    request = workload.request
    if request is None:
        return Explanation(None, "", "")
    brief = brief_of(workload)
    if workload.phase not in WAITING:
        return Explanation(None, brief.asks, workload.pool or brief.pool)
    reason = dominant(world, workload)
    helps = _helps(world, workload, request, reason, viewer)
    rank = world.waiting.ahead(workload.id) + 1 if workload.id in world.waiting else 0
    return Explanation(
        reason,
        brief.asks,
        brief.pool,
        rank,
        _excluded(world, workload, request),
        tuple(helps),
        _room(world, workload, reason, viewer),
        shares_of(world, workload.project, brief.pool) if reason.code in WITHOUT_ROOM | _OF_QUOTA else (),
        estimate(world, workload, reason),
    )


def _helps(world: World, workload: Workload, request: Request, reason: Reason, viewer: Viewer) -> list[str]:
    """What would let it start; nothing where its room is made already."""
    if reason.code is WaitingReason.CLAIM:
        return []
    if reason.code is WaitingReason.NO_POOL:
        return other_pools(world, workload, request, viewer)
    if reason.code is WaitingReason.NO_CLUSTER:
        return other_clusters(world, workload, request, viewer)
    if reason.code in NEVER:
        helps = what_would_fit(world, workload, request, viewer)
    else:
        helps = _unblockers(world, workload, request, viewer)
    if reason.code in TOO_FAR_APART:
        return [*looser(world, workload, request, viewer), *helps]
    if reason.code is WaitingReason.WRONG_NODE_TYPE:
        return [*other_types(world, workload, request, viewer), *helps]
    return helps


def _room(world: World, workload: Workload, reason: Reason, viewer: Viewer) -> tuple[Attempt, ...]:
    """What making room came to, where room lacks; for whom it waits, where it was made."""
    if reason.code in WITHOUT_ROOM:
        return (*kept_for(world, workload, viewer), *attempts(world, workload))
    leaving = [world.workloads[each] for each in workload.claim.waits_for] if workload.claim else []
    return (Attempt(Way.RECLAIM, "", f"{viewer.names(leaving)} {_verb(leaving)} for it"),) if leaving else ()


def _verb(leaving: list[Workload]) -> str:
    return "leaves" if len(leaving) == 1 else "leave"


def dominant(world: World, workload: Workload) -> Reason:
    """The one reason."""
    if workload.claim is not None:
        return Reason(WaitingReason.CLAIM, (len(workload.claim.waits_for),))
    if workload.not_before > world.now:
        return Reason(WaitingReason.BACKOFF, ((workload.not_before - world.now + SECOND - 1) // SECOND,))
    kept = world.waiting.reason(workload.id) or Reason(WaitingReason.NOT_EVALUATED)
    if kept.code in _AS_KEPT or workload.request is None:
        return kept
    # The numbers are those of now: nobody looks again at a class that a release or another's ending cannot help.
    lacking = why_not(world, workload)
    if lacking.code in IN_VAIN:  # the cycle looks at quotas first, which costs less; no quota helps here
        return lacking
    return _barred(world, workload, workload.request) or behind(world, workload) or lacking


def _barred(world: World, workload: Workload, request: Request) -> Reason | None:
    """The first quota or limit that stands against it, where one does in each of its pools."""
    found: list[Reason] = []
    for pool in request.pools:
        barred = bar(world, workload, amount_before(world, request, pool), pool)
        if barred is None:
            return None
        found.append(barred.reason)
    return found[0] if found else None


def _excluded(world: World, workload: Workload, request: Request) -> tuple[tuple[Constraint, int, str], ...]:
    largest = max(request.roles, key=lambda role: (role.charge, role.shape.cpu), default=None)
    if largest is None:
        return ()
    short = short_role(world, workload, request)
    shape = (short or largest).shape
    found = Counter(_said_of(world, workload, request, shape, node) for node in world.inventory.nodes.values())
    order = sorted(found.items(), key=lambda item: (item[0][0] is Constraint.FITS, -item[1], item[0]))
    return tuple((said[0], number, said[1][number != 1]) for said, number in order)


def _said_of(
    world: World, workload: Workload, request: Request, shape: Shape, node: Node
) -> tuple[Constraint, tuple[str, str]]:
    constraint = constraint_of(world, workload, request, shape, node)
    if constraint in _PASSING:
        idle = fit(emptied(node), shape, mig_of(world, node.cluster))
        if idle is Constraint.RESOURCE:
            return idle, too_little([name for name, most in shape.extra if node.extra.get(name, 0) < most], free=False)
        if isinstance(idle, Constraint) and idle is not Constraint.NODE_UNAVAILABLE:
            return idle, IDLE_PHRASES.get(idle) or PHRASES[idle]
    if constraint is Constraint.RESOURCE:
        return constraint, too_little([name for name, most in shape.extra if node.free_extra(name) < most], free=True)
    sick = unhealthy_on(node, shape, mig_of(world, node.cluster)) if constraint in IDLE_PHRASES else 0
    if sick:
        return Constraint.UNHEALTHY, unhealthy(sick)
    refusal = _refusal(world, request, node) if constraint is Constraint.CLUSTER_NOT_SUPPORTED else None
    if refusal is not None:
        return constraint, refusal
    if constraint is Constraint.WRONG_POOL and not any(map(world.inventory.clusters_with, request.pools)):
        return constraint, elsewhere("node pool", node.pool, request.pools)
    if constraint is Constraint.WRONG_CLUSTER and not any(map(world.clusters.get, request.clusters)):
        return constraint, elsewhere("cluster", node.cluster, request.clusters)
    return constraint, PHRASES[constraint]


def _refusal(world: World, request: Request, node: Node) -> tuple[str, str] | None:
    """What its cluster does not support, of one node and of several; None: nothing."""
    cluster = world.clusters.get(node.cluster)
    if cluster is None or cluster.profile is None:
        return None
    lack = unsupported(request, cluster.profile)
    fields = request.fields.intersection(cluster.profile.refused_fields)
    return None if lack is None else not_supported(lack, sorted(fields))


def constraint_of(world: World, workload: Workload, request: Request, shape: Shape, node: Node) -> Constraint:
    """The first constraint that a node fails for one replica, or FITS."""
    cluster = world.clusters.get(node.cluster)
    if request.clusters and node.cluster not in request.clusters:
        return Constraint.WRONG_CLUSTER
    if node.pool not in request.pools:
        return Constraint.WRONG_POOL
    if _refusal(world, request, node) is not None:
        return Constraint.CLUSTER_NOT_SUPPORTED
    if cluster is None or cluster.standing(world.now, world.limits.stale_after) is not Standing.READY:
        return Constraint.CLUSTER_SILENT
    out = excluded(asked_of(world, workload, amount_before(world, request, node.pool).gpu), node, world.now)
    if out is not None:
        return out
    outcome = fit(node, shape, mig_of(world, node.cluster))
    return outcome if isinstance(outcome, Constraint) else Constraint.FITS


def _unblockers(world: World, workload: Workload, request: Request, viewer: Viewer) -> list[str]:
    """What would let it start, the smallest change first; each was tried out on the live state and taken back."""
    found: list[str] = []
    for pool in request.pools:
        barred = bar(world, workload, amount_before(world, request, pool), pool)
        if barred is None:
            found += who_would_have_to_end(world, workload, request, pool, viewer)
            found += healthy_again(world, workload, request, pool)
            found += enough_quota(world, workload, request, pool, viewer)
        elif barred.reason.code is not WaitingReason.NO_PROJECT:
            found += larger(world, workload, request, pool, barred, viewer)
    return found
