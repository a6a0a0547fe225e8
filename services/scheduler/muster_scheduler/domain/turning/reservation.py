"""For whom nodes are kept: the first blocked head of a pool that stays within its share, so that it does not starve.

Called by the cycle once no head is left to try. Small work that arrives later would else take each device that becomes
free; it may use the reserved nodes only where that does not delay the head (books/reserving.py). Where and by when the
head will fit is foreseen.py's.
Holds: at most one reservation a (cluster, pool), and one a workload. A reservation stays with its head until that has a
place, waits for another reason than room, or leaves its share; it is part of the truth, so that it never depends on
which classes happen to be tried. Only what changed is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from muster_kernel.reasons import FOR_ROOM, WaitingReason
from muster_kernel.sentences import Reason
from muster_scheduler.domain.asked.courses import Reservation
from muster_scheduler.domain.asked.quarantine import pool_place
from muster_scheduler.domain.asked.quotas import Amount
from muster_scheduler.domain.asked.requests import Grant, Kind
from muster_scheduler.domain.asked.workloads import Request, Workload
from muster_scheduler.domain.books.classes import ClassKey, Place
from muster_scheduler.domain.books.models import asked_of
from muster_scheduler.domain.books.reserving import keep, let_go, within
from muster_scheduler.domain.books.standing import Standing
from muster_scheduler.domain.books.standings import standing_of
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.gangs.place import place_gang
from muster_scheduler.domain.gangs.verdicts import Refusal
from muster_scheduler.domain.placement.place import Budget, amount_before, mig_of
from muster_scheduler.domain.placement.slicing import fit_there
from muster_scheduler.domain.room.sites import Site, sites_of
from muster_scheduler.domain.turning.foreseen import foresee

_NEVER: Final = 1 << 62
_TRIES: Final = 4  # heads of a pool for which room is foreseen in one cycle


class _Candidate(NamedTuple):
    """The first of a blocked class, in the order in which it would have its turn."""

    above: tuple[int, str]
    own: tuple[int, str]
    place: Place
    key: ClassKey


def note_changes(world: World) -> None:
    """Remembers the pools in which this transaction changed what reservations depend on."""
    waiting = dict.fromkeys((*world.waiting.blocked_pools(), *(pool for _, pool in world.reserved)))
    if waiting:
        world.crowded.update((pool, None) for pool in waiting if pool not in world.crowded and _stirred(world, pool))


def _stirred(world: World, pool: str) -> bool:
    touched = world.touched
    if touched.projects or touched.departments or touched.clusters or touched.pools:
        return True
    if any(node is None or node.pool == pool for node in map(world.inventory.nodes.get, touched.nodes)):
        return True
    if any(_is_over(world, world.workloads[head].reservation) for at, head in world.reserved.items() if at[1] == pool):
        return True
    found = map(world.workloads.get, touched.all_workloads())
    return any(w is None or w.pool == pool or (w.request and pool in w.request.pools) for w in found)


def reserve(world: World, budget: Budget) -> None:
    """Chooses for whom nodes are kept in pools where something changed; whoever that helps is worth a try again."""
    for pool in sorted(world.crowded):
        if world.limits.reserves and world.attends_place(pool_place(pool)):
            _look(world, pool, budget)
    world.attending_place = ""
    world.crowded.clear()


def _look(world: World, pool: str, budget: Budget) -> None:
    standing = standing_of(world, pool)
    for head in [head for (_, where), head in sorted(world.reserved.items()) if where == pool]:
        _renew(world, world.workloads[head], standing, budget)
    open_to = {c for c in world.inventory.clusters_with(pool) if (c, pool) not in world.reserved}
    if open_to:
        _choose(world, pool, sorted(_candidates(world, standing)), open_to, budget)


def _candidates(world: World, standing: Standing) -> Iterator[_Candidate]:
    """The first of each class that waits for room there first and would stay within its share."""
    books, pool = world.queues, standing.pool
    for bucket in world.waiting.blocked(pool):
        key, place = bucket.key, world.waiting.first(bucket)
        row = standing.projects.get(key.project)
        if place is None or row is None or bucket.reason is None:
            continue
        if bucket.reason.code not in FOR_ROOM or key.pools[0] != pool:
            continue
        head = world.workloads[place.id]
        more = bucket.each if _is_plain(key) else _amount(world, head, pool)
        if head.reservation is not None or not _in_share(world, key.project, more, standing):
            continue
        own = standing.fullness(row, books.account(key.project, pool).held), key.project
        parent, above = standing.queues[row].parent, own
        if parent >= 0:
            name = standing.queues[parent].name
            above = standing.fullness(parent, books.department_account(name, pool).held), name
        yield _Candidate(above, own, place, key)


def _is_plain(key: ClassKey) -> bool:
    """Whether what a member is charged does not hang on where it goes."""
    return all(role.shape.kind is not Kind.MEMORY for role in key.roles)


def _choose(world: World, pool: str, candidates: list[_Candidate], clusters: set[str], budget: Budget) -> None:
    """Gives each of these clusters the first head that will fit there."""
    for candidate in candidates[:_TRIES]:
        head = world.workloads[candidate.place.id]
        kept = _earliest(world, head, pool, clusters, budget) if clusters else None
        if kept is not None:
            keep(world, head, kept)
            clusters.discard(kept.cluster)


def _earliest(world: World, head: Workload, pool: str, clusters: set[str], budget: Budget) -> Reservation | None:
    """The reservation of the cluster in which the head will fit first; of equal ones the first in its order."""
    sites = [site for site in sites_of(world, head) if site.pool == pool and site.cluster in clusters]
    found = [kept for site in sites if (kept := _foreseen(world, head, site, budget)) is not None]
    return min(found, key=lambda kept: kept.until or _NEVER, default=None)


def _foreseen(world: World, head: Workload, site: Site, budget: Budget) -> Reservation | None:
    found = foresee(head, site, budget)
    if found is None:
        return None
    since = head.reservation.since if head.reservation else world.now
    beyond = not within(world, head.project, site.pool, _amount(world, head, site.pool))
    return Reservation(site.cluster, site.pool, found.nodes, since, found.until, beyond)


def _renew(world: World, head: Workload, standing: Standing, budget: Budget) -> None:
    """Keeps, mends or ends a reservation."""
    kept = head.reservation
    if kept is None:
        return
    reason = world.waiting.reason(head.id)
    waits = reason is not None and reason.code in FOR_ROOM
    asks = head.request is not None and kept.pool == head.request.pools[0]
    if not waits or not asks or not _in_share(world, head.project, _amount(world, head, kept.pool), standing):
        let_go(world, head)
        return
    beyond = not within(world, head.project, kept.pool, _amount(world, head, kept.pool))
    if _is_over(world, kept) or not _all_there(world, kept):
        site = next((s for s in sites_of(world, head) if (s.cluster, s.pool) == (kept.cluster, kept.pool)), None)
        again = _foreseen(world, head, site, budget) if site else None
        if again is None:
            let_go(world, head)
        else:
            keep(world, head, again)
    elif beyond != kept.beyond:
        keep(world, head, kept._replace(beyond=beyond))


def _is_over(world: World, kept: Reservation | None) -> bool:
    """Whether the time has passed by which the head was to fit."""
    return kept is not None and 0 < kept.until <= world.now


def _all_there(world: World, kept: Reservation) -> bool:
    nodes = (world.inventory.nodes.get((kept.cluster, name)) for name in kept.nodes)
    return all(node is not None and node.open and node.pool == kept.pool for node in nodes)


def _amount(world: World, head: Workload, pool: str) -> Amount:
    return amount_before(world, head.request, pool) if head.request else Amount()


def _in_share(world: World, project: str, more: Amount, standing: Standing) -> bool:
    """Whether a project and its department would hold no more than their fair shares with it, or than they deserve."""
    row = standing.projects.get(project)
    while row is not None and row >= 0:
        queue = standing.queues[row]
        books = world.queues
        department = standing.departments.get(queue.name) == row
        account = (books.department_account if department else books.account)(queue.name, standing.pool)
        for share, held, asks in zip(standing.shares, account.held, more, strict=True):
            if share is not None and asks and held + asks > max(share[row].fair, share[row].deserved):
                return False
        row = queue.parent
    return row is not None


def behind(world: World, workload: Workload) -> Reason | None:
    """That it would fit if nothing were kept for others; None where nothing is, or it would not."""
    request = workload.request
    if request is None or not world.reserved:
        return None
    kept = {pool: asked_of(world, workload, _amount(world, workload, pool).gpu).kept for pool in request.pools}
    pools = [pool for pool in request.pools if any(_would_hold(world, key, request) for key in kept[pool])]
    for site in sites_of(world, workload, pools):
        free = place_gang(site.capacity.columns, site.topology, site.roles, site.wish, site.mask)
        if not isinstance(free, Refusal):
            return Reason(WaitingReason.RESERVED, (len(kept[site.pool]),))
    return None


def _would_hold(world: World, key: tuple[str, str], request: Request) -> bool:
    """Whether a node has room for a replica: where no kept one has, it is not these that keep somebody out."""
    node = world.inventory.nodes.get(key)
    shapes = [role.shape for role in request.roles if role.size]
    mig = mig_of(world, key[0])
    return node is not None and any(isinstance(fit_there(world, node, shape, mig), Grant) for shape in shapes)
