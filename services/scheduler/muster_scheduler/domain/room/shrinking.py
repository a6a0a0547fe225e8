"""What elastic gangs can do without goes first: no workload is interrupted by that, so nobody is asked to leave before.

Called by evictions.py for a head that has quota but no place. A gang gives its highest index first, and of several
gangs always the one that has most to spare; then each gives as little as is enough.
Holds: a gang keeps the replicas that it needs; none that is given up could stay with the taker still fitting, with the
others given up; nothing is charged but the taker's claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from muster_kernel.lifecycle import ACTIVE
from muster_scheduler.domain.asked.workloads import Replica, Workload
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.gangs.place import Placement, Refusal
from muster_scheduler.domain.room.sites import Ask, Room, Site, charge_placements, claim_of, next_run, without

_SPARED: Final = 64  # gangs whose cut is made as small as can be; of more, the rest stays as the first cut had it


def spare_of(site: Site) -> list[Workload]:
    """The elastic gangs that have a surplus on nodes that the taker may use, by id."""
    world = site.world
    named = (world.workloads[each] for each in sorted(world.elastic))
    here = (w for w in named if (w.cluster, w.pool) == (site.cluster, site.pool) and w.phase in ACTIVE)
    return [w for w in here if any(_helps(site, replica) for replica in w.surplus())]


def _helps(site: Site, replica: Replica) -> bool:
    node = site.world.inventory.nodes.get(replica.node)
    return node is not None and node.pool == site.pool and node.ordinal >= 0 and bool(site.mask[node.ordinal])


def give_up(world: World, gangs: Iterable[Workload]) -> None:
    """As if these gangs had given up all that they can do without. Nobody is told: whoever asks takes it back."""
    for gang in gangs:
        for replica in gang.surplus():
            world.unaccount(gang, replica)
            world.journal.drop(gang.replicas, (replica.holder.role, replica.holder.rank))
            world.set_replica(replica, leaving=True)
            world.journal.put(gang.leaving, replica.holder, replica)
        world.depart(gang)


def by_shrinking(ask: Ask, gangs: Sequence[Workload]) -> Room | None:
    """The room that these gangs make for the first member without interrupting anybody; None where it is not enough."""
    site, workload = ask.site, ask.members[0]
    turns = _turns(gangs)
    ask.budget.evictions -= len(turns)
    cuts = _cut(turns, len(turns))
    if isinstance(_placed(site, gangs, cuts), Refusal):
        return None
    cuts = _least(site, gangs, turns)
    placements = _placed(site, gangs, cuts)
    if isinstance(placements, Refusal):
        raise AssertionError(f"{workload.id} fitted after {cuts} and no longer does")  # noqa: TRY004 - a broken law
    planned = charge_placements(site, workload, site.roles, placements, next_run(workload))
    shrinks = tuple(sorted(cuts.items()))
    claim = claim_of(site, planned, {gang for gang, _ in shrinks}, next_run(workload))
    return Room(workload, claim, (), (), shrinks)


def _turns(gangs: Sequence[Workload]) -> list[str]:
    """Whose turn it is to give a replica, until nobody has any to spare."""
    spare = [(left, -gang.placed, gang.id) for gang in gangs for left in range(1, len(gang.surplus()) + 1)]
    return [gang for _, _, gang in sorted(spare, key=lambda each: (-each[0], each[1], each[2]))]


def _cut(turns: Sequence[str], count: int) -> dict[str, int]:
    """How many replicas each gang gives in the first so many turns."""
    cuts: dict[str, int] = {}
    for gang in turns[:count]:
        cuts[gang] = cuts.get(gang, 0) + 1
    return cuts


def _placed(site: Site, gangs: Sequence[Workload], cuts: dict[str, int]) -> tuple[Placement, ...] | Refusal:
    def given(gang: Workload) -> list[Replica]:
        return gang.surplus()[: cuts.get(gang.id, 0)]

    return site.place(without(site.world, site.capacity, site.columns, gangs, given))


def _least(site: Site, gangs: Sequence[Workload], turns: Sequence[str]) -> dict[str, int]:
    """The fewest turns with which it fits, and of these for each gang the fewest of its own."""
    few, many = 0, len(turns)
    while few < many:
        middle = (few + many) // 2
        if isinstance(_placed(site, gangs, _cut(turns, middle)), Refusal):
            few = middle + 1
        else:
            many = middle
    cuts = _cut(turns, many)
    for gang in sorted(cuts)[:_SPARED]:
        cuts[gang] = _fewest(site, gangs, cuts, gang)
    return {gang: count for gang, count in cuts.items() if count}


def _fewest(site: Site, gangs: Sequence[Workload], cuts: dict[str, int], gang: str) -> int:
    few, many = 0, cuts[gang]
    while few < many:
        middle = (few + many) // 2
        if isinstance(_placed(site, gangs, {**cuts, gang: middle}), Refusal):
            few = middle + 1
        else:
            many = middle
    return many
