"""What has to hold of the scheduler's books after every step, whatever came before: one function a law.

Asked by the state machine and by tests that take a mechanism out and see its law broken. Each raises AssertionError.
Written from the books and from quotas as values; what fits is said by brute force (placement_oracle.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from muster_kernel.lifecycle import ACTIVE, WAITING
from muster_scheduler.domain import decisions as d
from muster_scheduler.domain.asked.quotas import Account, Quota
from muster_scheduler.domain.asked.requests import Role
from muster_scheduler.domain.asked.terms import Terms, Wish
from muster_scheduler.domain.asked.workloads import Request, Workload
from muster_scheduler.domain.books.models import asked_of, bar
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.fleet.eligibility import excluded
from muster_scheduler.domain.fleet.nodes import Mode, Node
from muster_scheduler.domain.placement.cluster_choice import eligible
from muster_scheduler.domain.placement.place import amount_before
from muster_scheduler.domain.placement.slicing import ways
from tests.support.apart_oracle import place_of, possible
from tests.support.gang_scenes import Scene
from tests.support.placement_oracle import fits

_KNOWN: dict[object, bool] = {}  # what brute force said of a fleet and a gang
_MOST_KNOWN = 100_000


def nothing_over_given(world: World) -> None:
    """What runs fits the nodes without what is only promised; an idle card is held by nobody."""
    promised = set(world.claims)
    for each in world.inventory.nodes.values():
        running = sum(grant.slots for holder, grant in each.entries.items() if holder.workload not in promised)
        assert running <= each.slots, f"{each.key} gives {running} of {each.slots} devices"
        for device in each.devices:
            assert device.mode is not Mode.IDLE or not device.entries, f"{device.uuid} is idle and held"


def wishes_kept(world: World) -> None:
    """Whoever has to run inside one domain does."""
    for workload in world.workloads.values():
        key = workload.request.terms.topology.required if workload.request else ""
        nodes = {replica.node for replica in workload.replicas.values() if not replica.gone} if key else set()
        homes = {world.inventory.nodes[node].label(key) for node in nodes if node in world.inventory.nodes}
        assert len(homes) <= 1, f"{workload.id} runs in {sorted(homes)} of {key}"
        _stands_apart(world, workload)


def _stands_apart(world: World, workload: Workload) -> None:
    """Whoever has to has no two replicas in one domain, those that are about to leave included."""
    apart = workload.request.terms.topology.apart if workload.request else None
    if apart is None or not apart.required:
        return
    there = [replica.node for replica in workload.everyone() if not replica.gone]
    places = [place_of(world.inventory.nodes[each], (apart.key,)) for each in there if each in world.inventory.nodes]
    assert len(set(places)) == len(places), f"{workload.id} has two replicas in one {apart.key}: {sorted(there)}"


def elastic_gangs_are_whole(world: World) -> None:
    """Whoever is placed has every replica that its gang needs, and none beyond the most it may have."""
    for workload in world.workloads.values():
        stretch = workload.request.stretch if workload.request else None
        if stretch is not None and workload.phase in ACTIVE:
            held = {rank for role, rank in workload.replicas if role == stretch.role}
            assert set(range(stretch.least)) <= held <= set(range(stretch.most)), f"{workload.id} has only {held}"


def quotas_kept(world: World, decided: Sequence[d.Decision], promised: frozenset[str]) -> None:
    """What was placed now leaves its queues and its user within what they may have; a promise of before may not."""
    for placed in decided:
        if isinstance(placed, d.Placed) and placed.workload not in promised:
            workload = world.workloads[placed.workload]
            charged = sum(replica.grant.charge for replica in workload.everyone())
            for quota, account in _quotas(world, workload):
                _within(workload, quota, account, charged)
            _user_within(world, workload, charged)


def _quotas(world: World, workload: Workload) -> Iterator[tuple[Quota, Account]]:
    books, pool = world.queues, workload.pool
    yield books.quota(workload.project, pool), books.account(workload.project, pool)
    department = books.department_of(workload.project)
    if department is not None and pool in department.quotas:
        yield department.quotas[pool], books.department_account(department.name, pool)


def _within(workload: Workload, quota: Quota, account: Account, charged: int) -> None:
    most, request = quota.lines[0].most, workload.request
    assert not charged or most is None or account.allocated <= most, f"{workload.id} is placed beyond a limit"
    bound = request is not None and not request.preemptible
    assert not (charged and bound) or account.non_preemptible <= quota.deserved, f"{workload.id} is beyond a quota"


def _user_within(world: World, workload: Workload, charged: int) -> None:
    project = world.queues.projects[workload.project]
    for limit in [each for each in project.user_limits if each.pool in {"", workload.pool}]:
        held = [
            (other.id, _accounted(other))
            for other in world.workloads.values()
            if (other.project, other.owner) == (workload.project, workload.owner)
            and (limit.pool in {"", other.pool} or (other.claim and other.claim.pool == limit.pool))
        ]
        gpus, running = sum(units for _, units in held), sum(1 for _, units in held if units)
        assert not charged or limit.gpu is None or gpus <= limit.gpu, f"{workload.owner} holds {gpus} of {limit.gpu}"
        assert not charged or limit.workloads is None or running <= limit.workloads, f"{workload.owner} runs {running}"


def _accounted(workload: Workload) -> int:
    planned = workload.claim.planned if workload.claim else ()
    held = sum(replica.grant.charge for replica in workload.everyone() if replica.accounted)
    return held + sum(each.grant.charge for each in planned)


def in_the_first_cluster(
    world: World, decided: Sequence[d.Decision], promised: frozenset[str], kept: frozenset[str]
) -> None:
    """What was placed now fits in no cluster that comes before its own: a cycle takes room, it makes none.

    promised: those whose place was chosen earlier. kept: pools in which nodes were reserved, and may be so no longer.
    """
    for placed in decided:
        workload = world.workloads[placed.workload] if isinstance(placed, d.Placed) else None
        if workload is None or workload.request is None or workload.id in promised or workload.pool in kept:
            continue
        own = _rank(world, workload, workload.request.terms, workload.cluster)
        for cluster in world.inventory.clusters_with(workload.pool):
            if _rank(world, workload, workload.request.terms, cluster) < own:
                fits_there = _fits_in(world, workload, workload.request, cluster, workload.pool)
                assert not fits_there, f"{workload.id} is in {workload.cluster}, and {cluster} comes before it"


def _rank(world: World, workload: Workload, terms: Terms, cluster: str) -> tuple[int, bool, bool]:
    wished, data = terms.preferred_clusters, terms.data
    nodes = [node for node in world.inventory.nodes.values() if node.cluster == cluster and node.present and data]
    said = {value for node in nodes for key, value in node.labels if data and key == data.key}
    has_data = bool(said) if data is None or data.value is None else data.value in said
    first = wished.index(cluster) if cluster in wished else len(wished)
    return first, not has_data, world.queues.projects[workload.project].home != cluster


def evicted_for_somebody(world: World, decided: Sequence[d.Decision]) -> None:
    """Whoever is evicted leaves for one who has the room from then on: as a claim, or as its place."""
    placed = {each.workload for each in decided if isinstance(each, d.Placed)}
    claimed = {each.workload for each in decided if isinstance(each, d.Claimed)}
    for evicted in decided:
        if isinstance(evicted, d.Preempted):
            assert evicted.by in claimed | placed, f"{evicted.workload} left for {evicted.by}, who has no room"
            taker = world.workloads[evicted.by]
            waits_for = taker.claim.waits_for if taker.claim else ()
            assert evicted.workload in waits_for or evicted.by in placed


def nobody_waits_beside_room(world: World) -> None:
    """No workload stands in the queue while brute force finds a place that no quota and no limit closes to it."""
    for workload in world.workloads.values():
        request = workload.request
        if request is not None and workload.phase in WAITING and workload.id in world.waiting:
            for pool in request.pools:
                found = _room_in(world, workload, request, pool)
                assert found is None, f"{workload.id} waits ({world.waiting.reason(workload.id)}) and fits {found}"


def _room_in(world: World, workload: Workload, request: Request, pool: str) -> tuple[str, str] | None:
    amount = amount_before(world, request, pool)
    if bar(world, workload, amount, pool):
        return None
    clusters = world.inventory.clusters_with(pool)
    return next(((each, pool) for each in clusters if _fits_in(world, workload, request, each, pool)), None)


def _fits_in(world: World, workload: Workload, request: Request, cluster: str, pool: str) -> bool:
    """Whether brute force finds a place there, quotas aside."""
    if not eligible(world, request, world.clusters.get(cluster)):
        return False
    asked = asked_of(world, workload, amount_before(world, request, pool).gpu)
    there = [n for n in world.inventory.nodes.values() if (n.cluster, n.pool) == (cluster, pool)]
    open_ = [node for node in there if excluded(asked, node, world.now) is None]
    wish = request.terms.topology
    return bool(open_) and any(_possible(world, way, wish, open_) for way in ways(world, request.roles, cluster, pool))


def _possible(world: World, roles: tuple[Role, ...], wish: Wish, nodes: list[Node]) -> bool:
    if wish.group and any(role.size > wish.group_size and role.size % wish.group_size for role in roles):
        return False  # replicas are left over that would be in no group
    key = (
        roles,
        wish,
        *((n.labels, n.free_cpu, n.free_memory, n.free_replicas, n.free_slots, _cards(n)) for n in nodes),
    )
    if key not in _KNOWN:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        scene = Scene(world.inventory, nodes, roles, wish)
        _KNOWN[key] = possible(scene, (wish.apart.key,)) if wish.apart and wish.apart.required else fits(scene)
    return _KNOWN[key]


def _cards(node: Node) -> tuple[object, ...]:
    return tuple(
        (card.mode, card.free_milli, card.free_bytes, card.mask, card.mig, card.model) for card in node.devices
    )
