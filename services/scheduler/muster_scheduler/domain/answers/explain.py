"""Why a workload waits, for a person: the dominant reason, what excludes which nodes, and what would let it start.

Called when somebody asks, never by a cycle. Reads the live state; `explain` tries changes under a mark of the journal
and takes them back, so that what it says would help has really been tried.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from muster_kernel.lifecycle import WAITING
from muster_kernel.reasons import IN_VAIN, NEVER, TOO_CLOSE, TOO_FAR_APART, Constraint, WaitingReason
from muster_kernel.sentences import Reason
from muster_scheduler.domain.answers.allowances import larger
from muster_scheduler.domain.answers.attempts import Attempt, Way, attempts
from muster_scheduler.domain.answers.closed import limited, opened
from muster_scheduler.domain.answers.endings import who_would_have_to_end
from muster_scheduler.domain.answers.estimates import WITHOUT_ROOM, Estimate, estimate, kept_for
from muster_scheduler.domain.answers.full_nodes import with_more_replicas
from muster_scheduler.domain.answers.growing import Growth, growth_of
from muster_scheduler.domain.answers.nearest import nearest
from muster_scheduler.domain.answers.permitting import allowing, tolerating
from muster_scheduler.domain.answers.raising import enough_quota
from muster_scheduler.domain.answers.remedies import (
    closer,
    looser,
    other_clusters,
    other_pools,
    other_types,
    what_would_fit,
    with_objects,
)
from muster_scheduler.domain.answers.shares import QueueShare, shares_of
from muster_scheduler.domain.answers.told_nodes import excluded_nodes, look
from muster_scheduler.domain.answers.trying import barred, has_room
from muster_scheduler.domain.answers.unhealthy import healthy_again
from muster_scheduler.domain.answers.viewing import EVERYONE, Viewer
from muster_scheduler.domain.answers.wording import asks
from muster_scheduler.domain.asked.quarantine import pool_place
from muster_scheduler.domain.asked.refusals import Refusal
from muster_scheduler.domain.asked.workloads import SECOND, Request, Workload
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.life.quarantine import QUARANTINED
from muster_scheduler.domain.placement.reasoning import why_not
from muster_scheduler.domain.turning.reservation import behind

_MOST_REFUSALS: Final = 3
_LATELY: Final = 3600 * SECOND
_OF_QUOTA: Final = frozenset({WaitingReason.OVER_QUOTA, WaitingReason.OVER_LIMIT, WaitingReason.NO_WEIGHT})
_ELSEWHERE: Final = {
    WaitingReason.NO_POOL: other_pools,
    WaitingReason.NO_CLUSTER: other_clusters,
    WaitingReason.DATA_MISSING: with_objects,
}
"""What helps a workload that no place may take as it is."""
_NOT_PERMITTED: Final = frozenset({WaitingReason.WRONG_NODE_TYPE, WaitingReason.NOT_TOLERATED})
_RELEASES: Final = (
    "its spec is changed: the new generation is tried at once",
    "an operator releases it: muster quarantine release",
)
_AS_KEPT: Final = NEVER | {WaitingReason.NOT_EVALUATED, WaitingReason.CLAIM}


class Brief(NamedTuple):
    """What every explanation begins with."""

    asks: str
    pool: str


class Explanation(NamedTuple):
    """The whole answer. `excluded`: (constraint, nodes, phrase), the most frequent first; FITS last.

    Of what runs and has not all replicas that it would have, all of it is about the next one. attempts: what making
    room comes to, where room lacks. shares: its project's and department's in its first pool,
    where room or quota lacks. nearest: the nodes that come closest and what each lacks. message: the text about one
    that does not wait, with the names that its viewer may know; of one that pauses, how it ended. figures: whether the
    viewer may read those of its department. refusals: the last ones of agents, the newest first.
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
    nearest: tuple[str, ...] = ()
    growth: Growth | None = None
    message: str = ""
    figures: bool = True
    refusals: tuple[Refusal, ...] = ()


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
        return Explanation(None, "", "", message=workload.message)
    brief = brief_of(workload)
    if workload.id in world.quarantined or (workload.phase in WAITING and _waits_for_place_aside(world, request)):
        return Explanation(
            QUARANTINED,
            brief.asks,
            workload.pool or brief.pool,
            unblockers=_RELEASES if workload.inference else _RELEASES[1:],
        )
    if workload.phase not in WAITING:
        return _running(world, workload, brief, viewer)
    reason = dominant(world, workload)
    helps = _helps(world, workload, request, reason, viewer)
    rank = world.waiting.ahead(workload.id) + 1 if workload.id in world.waiting else 0
    looked = look(world, workload, request)
    return Explanation(
        reason,
        brief.asks,
        brief.pool,
        rank,
        excluded_nodes(world, workload, request, looked),
        tuple(helps),
        _room(world, workload, reason, viewer),
        shares_of(world, workload.project, brief.pool, viewer) if reason.code in WITHOUT_ROOM | _OF_QUOTA else (),
        estimate(world, workload, reason),
        nearest(looked) if reason.code in WITHOUT_ROOM | NEVER else (),
        message=workload.message if reason.code is WaitingReason.BACKOFF else "",
        figures=viewer.sees_department(world.queues.department_name(workload.project)),
        refusals=_refusals(world, workload),
    )


def _refusals(world: World, workload: Workload) -> tuple[Refusal, ...]:
    """The last refusals of which the place is still excluded, or was lately."""
    lately = [each for each in workload.refusals if world.now <= each.until + _LATELY]
    return (*lately[: -_MOST_REFUSALS - 1 : -1],)


def _waits_for_place_aside(world: World, request: Request) -> bool:
    """Whether the first node pool of its choice is set aside."""
    return bool(request.pools) and pool_place(request.pools[0]) in world.places_aside


def _running(world: World, workload: Workload, brief: Brief, viewer: Viewer) -> Explanation:
    """Of what does not wait: what keeps it from more replicas, where it would have more."""
    growth = growth_of(world, workload, viewer)
    message = viewer.filled(workload.message, world.workloads.get(workload.preempted_by))
    told = Explanation(
        None,
        brief.asks,
        workload.pool or brief.pool,
        growth=growth,
        message=message,
        refusals=_refusals(world, workload),
    )
    if growth is None or growth.asked.request is None:
        return told
    looked = look(world, growth.asked, growth.asked.request)
    return told._replace(
        excluded=excluded_nodes(world, growth.asked, growth.asked.request, looked),
        unblockers=growth.helps,
        shares=shares_of(world, workload.project, workload.pool, viewer)
        if growth.code in WITHOUT_ROOM | _OF_QUOTA
        else (),
        nearest=nearest(looked) if growth.code in WITHOUT_ROOM | NEVER else (),
    )


def _helps(world: World, workload: Workload, request: Request, reason: Reason, viewer: Viewer) -> list[str]:
    """What would let it start; nothing where its room is made already."""
    if reason.code is WaitingReason.CLAIM:
        return []
    if reason.code is WaitingReason.BACKOFF:
        return [f"{text}, and its pause was over" for text in _after_its_pause(world, workload, request, viewer)]
    if reason.code in _ELSEWHERE:
        return _ELSEWHERE[reason.code](world, workload, request, viewer)
    if reason.code in NEVER:
        helps = what_would_fit(world, workload, request, viewer)
    else:
        helps = _unblockers(world, workload, request, viewer)
    if reason.code in TOO_CLOSE:
        return [*closer(world, workload, request, viewer), *helps]
    if reason.code in TOO_FAR_APART:
        return [*looser(world, workload, request, viewer), *helps]
    if reason.code in _NOT_PERMITTED:
        others = other_types(world, workload, request, viewer) if reason.code is WaitingReason.WRONG_NODE_TYPE else []
        permits = (allowing, tolerating)
        return [*others, *(text for permit in permits for text in permit(world, workload, request, viewer)), *helps]
    return helps


def _after_its_pause(world: World, workload: Workload, request: Request, viewer: Viewer) -> list[str]:
    """What it would need then; nothing where there is room for it already."""
    free = (pool for pool in request.pools if barred(world, workload, request, pool) is None)
    if any(has_room(world, workload, request, pool) for pool in free):
        return []
    return _helps(world, workload, request, _of_this_moment(world, workload, request), viewer)


def _room(world: World, workload: Workload, reason: Reason, viewer: Viewer) -> tuple[Attempt, ...]:
    """What making room came to, where room lacks; for whom it waits, where it was made."""
    if reason.code in WITHOUT_ROOM:
        return (*kept_for(world, workload, viewer), *attempts(world, workload, viewer=viewer))
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
    return _of_this_moment(world, workload, workload.request)


def _of_this_moment(world: World, workload: Workload, request: Request) -> Reason:
    """With the numbers of now: nobody looks again at a class that a release or another's ending cannot help."""
    lacking = why_not(world, workload)
    if lacking.code in IN_VAIN:  # the cycle looks at quotas first, which costs less; no quota helps here
        return lacking
    return _barred(world, workload, request) or behind(world, workload) or lacking


def _barred(world: World, workload: Workload, request: Request) -> Reason | None:
    """The first quota or limit that stands against it, where one does in each of its pools."""
    found: list[Reason] = []
    for pool in request.pools:
        stands = barred(world, workload, request, pool)
        if stands is None:
            return None
        found.append(stands.reason)
    return found[0] if found else None


def _unblockers(world: World, workload: Workload, request: Request, viewer: Viewer) -> list[str]:
    """What would let it start, the smallest change first; each was tried out on the live state and taken back."""
    found: list[str] = []
    for pool in request.pools:
        stands = barred(world, workload, request, pool)
        if stands is None:
            found += who_would_have_to_end(world, workload, request, pool, viewer)
            found += opened(world, workload, request, pool, viewer)
            found += limited(world, workload, request, pool, viewer)
            found += healthy_again(world, workload, request, pool)
            found += with_more_replicas(world, workload, request, pool, viewer)
            found += enough_quota(world, workload, request, pool, viewer)
        elif stands.reason.code is not WaitingReason.NO_PROJECT:
            found += larger(world, workload, request, pool, stands, viewer)
    return found
