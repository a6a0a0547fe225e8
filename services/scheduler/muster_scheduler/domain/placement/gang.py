"""Gangs in the books: placed over columns by gangs/place.py, then charged replica by replica.

Called by place.py for what columns can answer (see `by_columns`) and by reasoning, which asks why there is none.
Holds: on failure nothing is charged; a gang that has replicas already is completed inside the domain where these are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from muster_kernel.reasons import WaitingReason
from muster_kernel.sentences import Reason
from muster_scheduler.domain.asked.courses import Planned
from muster_scheduler.domain.asked.requests import Grant, Holder, Kind, Role, Shape, replica_count
from muster_scheduler.domain.asked.terms import HOST_LABEL, Wish
from muster_scheduler.domain.asked.workloads import Request, Workload
from muster_scheduler.domain.books.capacity import Capacity
from muster_scheduler.domain.books.claims import claim_holder
from muster_scheduler.domain.books.inventory import Inventory
from muster_scheduler.domain.books.pools import NodePool
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.fleet.eligibility import Eligibility
from muster_scheduler.domain.fleet.nodes import Mig, Node
from muster_scheduler.domain.fleet.taking import grants_of
from muster_scheduler.domain.fleet.topology import NOWHERE, Topology
from muster_scheduler.domain.fleet.usable import Mask
from muster_scheduler.domain.gangs.apart import Domains
from muster_scheduler.domain.gangs.choosing import NodeOrder
from muster_scheduler.domain.gangs.place import place_gang
from muster_scheduler.domain.gangs.verdicts import Lack, Placement, Refusal


class GangGround(NamedTuple):
    """Where a gang is looked for as a whole: one pool of one cluster, the nodes that it may use there, and its wish.

    pool: what people said of that pool. fleet: every node, by which those are found on which replicas are already.
    """

    capacity: Capacity
    asked: Eligibility
    wish: Wish
    now: int
    pool: NodePool
    fleet: Mapping[tuple[str, str], Node]

    @property
    def topology(self) -> Topology:
        """The pool's domains of the levels by which the gang is placed."""
        return self.capacity.usable.topology_for(self.pool.levels_for(self.wish), self.pool.levels_apart(self.wish))

    def order(self, roles: tuple[Role, ...]) -> NodeOrder:
        """In which order nodes are taken where it does not wish to be close together."""
        largest = max(roles, key=lambda role: (role.charge, role.name), default=None)
        return self.pool.strategy(largest.shape if largest else Shape()).gang_order


def by_columns(roles: tuple[Role, ...], mig: Mig) -> bool:
    """Whether columns say all that these roles need: not where MIG layouts are fixed."""
    if any(role.shape.extra for role in roles):
        return False
    return mig is Mig.DYNAMIC or not any(role.shape.kind is Kind.SLICE for role in roles)


def wish_of(request: Request | None) -> Wish:
    """How close together a workload is to run: its topology, where that says nothing its affinity."""
    if request is None:
        return Wish()
    wish, together = request.terms.topology.among([role.size for role in request.roles]), request.terms.together
    if together is None:
        return wish
    if together.required:
        return wish._replace(required=wish.required or together.key)
    return wish._replace(preferred=wish.preferred or together.key)


def charge_gang(
    world: World, workload: Workload, roles: tuple[Role, ...], ground: GangGround
) -> tuple[Planned, ...] | None:
    """Charges every replica of the gang and says where; None where not all of them fit."""
    found = find(workload, roles, ground)
    if isinstance(found, Refusal):
        return None
    run = workload.id, workload.revision, workload.attempt
    return charge_runs(world.inventory, ground.capacity, run, roles, found)


def charge_runs(
    inventory: Inventory,
    capacity: Capacity,
    run: tuple[str, int, int],
    roles: tuple[Role, ...],
    placements: Iterable[Placement],
) -> tuple[Planned, ...]:
    """Charges every replica to where it will stand, a node at a time. run: workload, generation and attempt."""
    planned: list[Planned] = []
    for role, placement in zip(roles, placements, strict=True):
        for each in placement.runs:
            node = capacity.nodes[each.node]
            grants = list(enumerate(grants_of(node, role.shape, each), each.first))
            inventory.charge_run(node.key, [(Holder(*run, role.name, rank, 0), grant) for rank, grant in grants])
            planned += [Planned(role.name, rank, node.key, grant) for rank, grant in grants]
    return tuple(planned)


def charge_one(
    world: World, workload: Workload, role: Role, index: int, k: int, ground: GangGround
) -> tuple[tuple[str, str], Grant] | None:
    """Charges one more replica, near those that are there already, and says where; None where it does not fit."""
    alone = (role._replace(size=1),)
    for near in _near(workload, role, index, ground):
        wish = Wish(ground.wish.required, apart=ground.wish.apart)
        found = find(workload, alone, ground._replace(wish=wish), near)
        if not isinstance(found, Refusal):
            ((run,),) = (placement.runs for placement in found)
            node = ground.capacity.nodes[run.node]
            (grant,) = grants_of(node, role.shape, run)
            world.inventory.charge(claim_holder(workload, role.name, index, k), node.key, grant)
            return node.key, grant
    return None


def _near(workload: Workload, role: Role, index: int, ground: GangGround) -> Iterator[Mask]:
    """Where one replica is looked for: in its group's domain, if possible in the preferred one of all others.

    Not where it would stand beside another from which it has to be apart, or only where there is no other place.
    """
    wish = ground.wish
    must = np.ones(len(ground.capacity.nodes), np.bool_)
    if wish.group and role.size >= wish.group_size:
        group = index // max(1, wish.group_size)
        ranks = {rank for rank in range(role.size) if rank // max(1, wish.group_size) == group} - {index}
        must = _home(ground, wish.group, _held(workload, role.name, ranks))
    places = [must & _home(ground, wish.preferred, _held(workload)), must] if wish.preferred else [must]
    if wish.apart is not None:
        alone = places_alone(workload, ground) != NOWHERE
        yield from (each & alone for each in places)
    if not wish.strictly_apart:
        yield from places


def places_alone(workload: Workload, ground: GangGround) -> Domains:
    """int32[n]: the domain in which a replica on that node would be alone, NOWHERE where it would not.

    Who is about to leave counts until he is gone.
    """
    apart = ground.topology.apart
    if apart is None:
        raise ValueError(f"{workload.id} does not ask to be apart")
    here, elsewhere = _standing(ground, _held(workload))
    used = [int(apart[n]) for n in here]
    used += [_same_domain(ground, apart, node) for node in elsewhere]
    return np.where(np.isin(apart, used), np.int32(NOWHERE), apart)


def _same_domain(ground: GangGround, apart: Domains, node: Node) -> int:
    """The domain of this pool in which a node stands that is in another pool by now; NOWHERE where it has none here."""
    keys = ground.pool.levels_apart(ground.wish)
    if not keys or keys[-1] == HOST_LABEL or not node.label(keys[-1]):
        return NOWHERE
    path, nodes = [node.label(key) for key in keys], ground.capacity.nodes
    same = (int(apart[n]) for n, each in enumerate(nodes) if [each.label(key) for key in keys] == path)
    return next(same, NOWHERE)


def _standing(ground: GangGround, held: Iterable[tuple[str, str]]) -> tuple[list[int], list[Node]]:
    """Of the nodes on which replicas are, the ordinals of those in the pool, and the others."""
    nodes, here, elsewhere = ground.capacity.nodes, list[int](), list[Node]()
    for node in map(ground.fleet.get, sorted(held)):
        if node is not None and 0 <= node.ordinal < len(nodes) and nodes[node.ordinal] is node:
            here.append(node.ordinal)
        elif node is not None:
            elsewhere.append(node)
    return here, elsewhere


def _held(workload: Workload, role: str = "", ranks: Collection[int] = ()) -> set[tuple[str, str]]:
    """The nodes on which replicas are: all of them, or certain ones of a role."""
    return {
        replica.node
        for replica in workload.everyone()
        if not replica.gone and (not role or (replica.holder.role == role and replica.holder.rank in ranks))
    }


def find(
    workload: Workload, roles: tuple[Role, ...], ground: GangGround, near: Mask | None = None
) -> tuple[Placement, ...] | Refusal:
    """Where the gang would go now: without nodes that ask to be taken last, and with them where it has to be.

    near: the only nodes that it may use; None: all that it is eligible for.
    """
    usable = ground.capacity.usable
    mask = usable.mask(ground.asked, ground.now) & _home(ground, ground.wish.required, _held(workload))
    mask = mask if near is None else mask & near
    *gladly, everywhere = usable.in_turn(ground.asked, mask)
    for nodes in gladly:
        found = _ask(roles, ground, nodes)
        if not isinstance(found, Refusal):
            return found
    return _ask(roles, ground, everywhere)


def _ask(roles: tuple[Role, ...], ground: GangGround, mask: Mask) -> tuple[Placement, ...] | Refusal:
    return place_gang(ground.capacity.columns, ground.topology, roles, ground.wish, mask, ground.order(roles))


def _home(ground: GangGround, key: str, held: Collection[tuple[str, str]]) -> Mask:
    """The domains of a level in which replicas are already; all nodes where there are none.

    No node where those of the replicas are in another pool by now: beside them is nowhere here.
    """
    everywhere = np.ones(len(ground.capacity.nodes), np.bool_)
    level = ground.topology.level(key)
    if level is None or not held:
        return everywhere
    domains = ground.topology.domain[level]
    here = [int(domains[n]) for n in _standing(ground, held)[0]]
    homes = set(here) - {NOWHERE}
    return np.isin(domains, sorted(homes)) if homes or not here else everywhere


def domains(workload: Workload, ground: GangGround) -> Iterator[Mask | None]:
    """The nodes to try, one domain after the other, for what is placed replica by replica. None: all of the pool.

    First the preferred domains, then those that have to be; in each, where it is already, then the one with the least
    idle. A whole gang inside one domain keeps every group of it together too.
    """
    if not ground.wish.keys:  # whether or not its replicas are to be apart: they may be so anywhere
        yield None
        return
    topology, held = ground.topology, _held(workload)
    levels = [level for key in (ground.wish.required, ground.wish.group) if (level := topology.level(key)) is not None]
    bound = topology.keys[max(levels)] if levels else ""
    must = np.logical_and.reduce([_home(ground, bound, held), *(topology.domain[level] != NOWHERE for level in levels)])
    for key in dict.fromkeys((ground.wish.preferred, bound)):
        level = topology.level(key)
        if level is not None:
            ids = np.where(must, topology.domain[level], NOWHERE)
            yield from (ids == domain for domain in _least_idle_first(ground, key, ids, held))
    if not bound:
        yield None


def _least_idle_first(
    ground: GangGround, key: str, ids: NDArray[np.int32], held: Collection[tuple[str, str]]
) -> list[int]:
    idle = np.bincount(ids[ids != NOWHERE], weights=ground.capacity.columns.idle[ids != NOWHERE])
    home = set(ids[_home(ground, key, held)].tolist()) if held else set()
    found = np.unique(ids[ids != NOWHERE]).tolist()
    return sorted(found, key=lambda domain: (domain not in home, int(idle[domain]), domain))


def lacking(
    workload: Workload, grounds: list[tuple[tuple[Role, ...], GangGround]], *, idle: bool = False
) -> Reason | None:
    """Why a gang with a wish has no place, where it is the wish that keeps it out: it would fit into a pool otherwise.

    grounds: each with the roles as they are placed there. idle: they are imagined empty, so that what does not fit
    never will.
    """
    answers = [find(workload, roles, ground) for roles, ground in grounds]
    refusals = [answer for answer in answers if isinstance(answer, Refusal)]
    if not refusals or len(refusals) < len(answers):
        return None
    lacks = {refusal.lack for refusal in refusals}
    if Lack.GROUPS in lacks:
        uneven = next(refusal for refusal in refusals if refusal.lack is Lack.GROUPS)
        return Reason(WaitingReason.UNEVEN_GROUPS, (uneven.asked, uneven.room))
    if lacks == {Lack.LEVEL} and not idle:
        return Reason(WaitingReason.NO_SUCH_LEVEL)
    if all(isinstance(find(workload, roles, ground._replace(wish=Wish())), Refusal) for roles, ground in grounds):
        return None  # nor would it fit if it did not have to be close together: a label is not what it lacks
    if lacks == {Lack.LEVEL}:
        return Reason(WaitingReason.NO_SUCH_LEVEL)
    alone = _lacking_domains(workload, grounds, refusals)
    if alone is not None:
        return Reason(WaitingReason.TOO_FEW_DOMAINS if idle else WaitingReason.APART, alone)
    code = WaitingReason.TOO_LARGE_FOR_DOMAIN if idle else WaitingReason.TOPOLOGY
    roles, wish = grounds[0][0], grounds[0][1].wish
    group = wish.group_size if wish.group and not wish.required else 0
    return Reason(code, (replica_count(roles), max(refusal.room for refusal in refusals), group))


def _lacking_domains(
    workload: Workload, grounds: list[tuple[tuple[Role, ...], GangGround]], refusals: list[Refusal]
) -> tuple[int, int, int] | None:
    """How many domains of its own a gang needs, how many have room for a replica, and whether these are the nodes.

    None where it is not its having to be apart that keeps it out: it had no place either if it could stand together.
    """
    roles, apart = grounds[0][0], grounds[0][1].wish.apart
    if apart is None or not apart.required:
        return None
    beside = ((each, ground._replace(wish=ground.wish._replace(apart=None))) for each, ground in grounds)
    if all(isinstance(find(workload, each, ground), Refusal) for each, ground in beside):
        return None
    return replica_count(roles), max(refusal.room for refusal in refusals), int(apart.key == HOST_LABEL)
