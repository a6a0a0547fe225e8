"""What elastic gangs can do without goes first: no workload is interrupted by that, so nobody is asked to leave before.

Called by evictions.py for a head that has quota but no place: whether shrinking alone is enough, and else what gangs
give up beside those who are evicted. A gang gives its highest index first, and of several gangs always the one that has
most to spare; then each gives as little as is enough.
Holds: a gang keeps the replicas that it needs; none that is given up, of the first `_SPARED` gangs, could stay with the
taker still fitting, with the others given up and the same victims gone; nothing is charged but the taker's claim.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from muster_kernel.lifecycle import ACTIVE
from muster_scheduler.domain.asked.workloads import Replica, Workload
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.gangs.verdicts import Placement, Refusal
from muster_scheduler.domain.room.sites import Ask, Room, Site, charge_placements, claim_of, next_run, without

Enough = Callable[[Mapping[str, int]], bool]  # whether it is, when gangs give up so many replicas each

_SPARED: Final = 64  # gangs whose cut is made as small as can be; of more, the rest stays as the first cut had it


def spare_of(site: Site) -> list[Workload]:
    """The elastic gangs that have a surplus on nodes that the taker may use, by id.

    Also such as came into another pool, from which these nodes were moved to this one.
    """
    world = site.world
    named = (world.workloads[each] for each in sorted(world.elastic))
    here = (w for w in named if w.cluster == site.cluster and w.phase in ACTIVE)
    return [w for w in here if any(_helps(site, replica) for replica in w.surplus())]


def _helps(site: Site, replica: Replica) -> bool:
    node = site.world.inventory.nodes.get(replica.node)
    return node is not None and node.pool == site.pool and node.ordinal >= 0 and bool(site.mask[node.ordinal])


def give_up(world: World, cuts: Mapping[str, int]) -> None:
    """As if gangs had given up so many that they can do without. Nobody is told: whoever asks takes it back."""
    for gang in map(world.workloads.__getitem__, cuts):
        for replica in gang.surplus()[: cuts[gang.id]]:
            world.unaccount(gang, replica)
            world.journal.drop(gang.replicas, (replica.holder.role, replica.holder.rank))
            world.set_replica(replica, leaving=True)
            world.journal.put(gang.leaving, replica.holder, replica)
        world.depart(gang)


def by_shrinking(ask: Ask, gangs: Sequence[Workload]) -> Room | None:
    """The room that these gangs make for the first member without interrupting anybody; None where it is not enough."""
    site, workload = ask.site, ask.members[0]
    ask.budget.evictions -= sum(len(gang.surplus()) for gang in gangs)
    if isinstance(_placed(site, gangs, {gang.id: len(gang.surplus()) for gang in gangs}), Refusal):
        return None
    cuts = least(gangs, lambda tried: not isinstance(_placed(site, gangs, tried), Refusal))
    placements = _placed(site, gangs, cuts)
    if isinstance(placements, Refusal):
        raise AssertionError(f"{workload.id} fitted after {cuts} and no longer does")  # noqa: TRY004 - a broken law
    planned = charge_placements(site, workload, site.roles, placements, next_run(workload))
    shrinks = tuple(sorted(cuts.items()))
    claim = claim_of(site, planned, {gang for gang, _ in shrinks}, next_run(workload))
    return Room(workload, claim, (), (), shrinks)


def cut_beside(ask: Ask, gangs: Sequence[Workload], members: int, victims: Iterable[str]) -> dict[str, int]:
    """The least that these gangs give up so that so many members have a place once the victims have left.

    Whoever is a victim itself gives up nothing before. Shares and limits are not looked at.
    """
    site = ask.site
    gone = [site.world.workloads[each] for each in victims]
    bare = site._replace(
        columns=without(site.world, site.capacity, site.columns, gone),
        roles=tuple(role._replace(size=role.size * members) for role in site.roles),
    )
    left = [gang for gang in gangs if gang not in gone]
    ask.budget.evictions -= len(gone)
    return least(left, lambda tried: not isinstance(_placed(bare, left, tried), Refusal))


def _turns(gangs: Sequence[Workload]) -> list[str]:
    """Whose turn it is to give a replica, until nobody has any to spare."""
    spare = [(left, -gang.placed, gang.id) for gang in gangs for left in range(1, len(gang.surplus()) + 1)]
    return [gang for _, _, gang in sorted(spare, key=lambda each: (-each[0], each[1], each[2]))]


def _placed(site: Site, gangs: Sequence[Workload], cuts: Mapping[str, int]) -> tuple[Placement, ...] | Refusal:
    def given(gang: Workload) -> list[Replica]:
        return gang.surplus()[: cuts.get(gang.id, 0)]

    return site.place(without(site.world, site.capacity, site.columns, gangs, given))


def least(gangs: Sequence[Workload], enough: Enough, spared: int = _SPARED) -> dict[str, int]:
    """The fewest turns that are enough, and of these for each gang the fewest of its own. All turns have to be enough.

    spared: of so many gangs.
    """
    turns = _turns(gangs)
    cuts = dict(Counter(turns[: _fewest(len(turns), lambda count: enough(Counter(turns[:count])))]))
    for gang in sorted(cuts)[:spared]:
        cuts[gang] = _fewest(cuts[gang], lambda count, of=gang: enough({**cuts, of: count}))  # type: ignore[misc]
    return {gang: count for gang, count in cuts.items() if count}


def _fewest(most: int, enough: Callable[[int], bool]) -> int:
    """The least number for which it is enough; `most` is."""
    few, many = 0, most
    while few < many:
        middle = (few + many) // 2
        if enough(middle):
            many = middle
        else:
            few = middle + 1
    return many
