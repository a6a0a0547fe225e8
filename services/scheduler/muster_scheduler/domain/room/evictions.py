"""Making room in the books: who has to leave for a head of the queue, its claim, and their farewell.

Called by the cycle for a head that has no place, or whose project or department is at a limit. Is it enough, in any
(cluster, node pool) that it may use, to wait for those who leave anyway? If not, for each of these in its order: can
gangs do with less (shrinking.py); can others move (moving.py); do other queues, or its own project, give room
(giving.py)? What is found becomes a claim: the room is counted once, with the taker, from then on.
Holds: nobody is evicted unless the taker then fits, nobody whose stay would leave it fitting; what is promised is
promised once; a workload that was evicted evicts nobody in order to come back.
An integer that every eviction lowers and nothing else raises while nothing arrives, ends or fails: `may_still_evict`,
the workloads that wait or come back to the queue and were not evicted for that turn. A taker leaves it by being
placed, a victim does not join it; so evictions come to an end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from muster_kernel.lifecycle import WAITING, Phase
from muster_scheduler.domain.asked.workloads import Workload
from muster_scheduler.domain.books.classes import ClassKey
from muster_scheduler.domain.books.standing import Standing
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.gangs.verdicts import Refusal
from muster_scheduler.domain.placement.place import Budget
from muster_scheduler.domain.room.giving import ask_of, by_taking, first_of
from muster_scheduler.domain.room.moving import by_moving
from muster_scheduler.domain.room.shrinking import by_shrinking, cut_beside, give_up, least, spare_of
from muster_scheduler.domain.room.sites import Ask, Room, sites_of

_A_LOOK: Final = 50  # a look into a pool costs about as much as so many simulated evictions
_TRIED: Final = 8  # gangs whose cut is made as small as can be where each try is a whole search


class OthersLeave(NamedTuple):
    """Nobody needs to be evicted: it fits as soon as those have left who are leaving already."""

    workloads: int


class SurplusFirst(NamedTuple):
    """Somebody has to be evicted; before that, these gangs give up so many replicas that they can do without."""

    shrinks: tuple[tuple[str, int], ...]


class _Beside(NamedTuple):
    """What is found once gangs gave something up: so many members have room when these have left as well.

    moved: they have a place to go to at once; where they have none, they wait in the queue again.
    """

    members: int
    victims: frozenset[str]
    moved: bool


Standings = Callable[[str], Standing]
Outcome = tuple[Room, ...] | OthersLeave | SurplusFirst


def make_room(world: World, key: ClassKey, standings: Standings, budget: Budget, *, shrinking: bool = True) -> Outcome:
    """Looks for room for a class, in its pools in their order; empty where none can be made.

    Members of a class that may evict are let in one by one, or, where a single replica is all of each, as many at once
    as can be. Rooms are charged as claims; nothing else changes. After `SurplusFirst` it is to be asked again, without
    shrinking: what has to be given up is given up by then.
    """
    first = first_of(world, key, 1)
    asks: list[Ask] = []
    for site in sites_of(world, first[0]) if first else ():
        budget.evictions -= _A_LOOK
        ask = ask_of(site, first, budget)
        if ask is None:
            continue
        if site.leaving and _fits(ask):
            return OthersLeave(len(site.leaving))  # in one place is enough: in another somebody would leave for nothing
        asks.append(ask)
    return next((found for ask in asks if (found := _in(ask, key, standings, shrinking=shrinking))), ())


def _in(ask: Ask, key: ClassKey, standings: Standings, *, shrinking: bool) -> tuple[Room, ...] | SurplusFirst:
    """The room that can be made in one place: by shrinking, by moving, by taking."""
    spare = spare_of(ask.site) if shrinking else []
    shrunk = by_shrinking(ask, spare) if spare and not ask.over else None
    if shrunk is not None or key.returning:
        return (shrunk,) if shrunk is not None else ()
    first = _given_beside(ask, key, standings, spare) if spare else ()
    return SurplusFirst(first) if first else _interrupting(ask, key, standings)


def _interrupting(ask: Ask, key: ClassKey, standings: Standings) -> tuple[Room, ...]:
    """The room that others make who are taken down for it."""
    found = () if ask.over else by_moving(ask)
    return found or by_taking(ask, key, standings(ask.site.pool))


def _given_beside(ask: Ask, key: ClassKey, standings: Standings, gangs: list[Workload]) -> tuple[tuple[str, int], ...]:
    """What these gangs give up where others have to leave as well: no more than those who leave then make necessary.

    Who leaves is found with all the surplus gone: so these are the fewest, and nobody else has to. What is then enough
    by its place nearly always is by shares and limits; where it is not, because a queue has to hold less before it may
    take, or because whoever leaves needs a place to move to, every step of the cut is tried in full.
    """
    everything = {gang.id: len(gang.surplus()) for gang in gangs}
    wanted = _found_after(everything, ask, key, standings)
    if wanted is None:
        return ()

    def enough(cuts: Mapping[str, int]) -> bool:
        found = _found_after(cuts, ask, key, standings)
        return found is not None and _as_gentle(found, wanted)

    cuts = cut_beside(ask, gangs, wanted.members, sorted(wanted.victims))
    return tuple(sorted((cuts if enough(cuts) else least(gangs, enough, _TRIED)).items()))


def _found_after(cuts: Mapping[str, int], ask: Ask, key: ClassKey, standings: Standings) -> _Beside | None:
    """Who has to leave in that place once gangs have given up so many replicas; None where that would not do.

    It is tried as it would be then: shares and who leaves are others, and what was found with the surplus in its place
    may not be found without it, so that gangs would have shrunk for nothing.
    """
    world, cluster, pool = ask.site.world, ask.site.cluster, ask.site.pool
    mark = world.journal.mark()
    give_up(world, cuts)
    same = (each for each in sites_of(world, ask.members[0], [pool]) if each.cluster == cluster)
    site = next((each for each in same if each.roles == ask.site.roles), None)
    asked = ask_of(site, ask.members, ask.budget) if site else None
    fits = asked is not None and _fits(asked)
    rooms = _interrupting(asked, key, standings) if asked is not None and not fits else ()
    world.journal.rollback(mark)
    if not rooms:
        return _Beside(1, frozenset(), moved=False) if fits else None
    victims = frozenset(name for room in rooms for name in room.victims)
    return _Beside(len(rooms), victims, moved=any(room.moves for room in rooms))


def _as_gentle(found: _Beside, wanted: _Beside) -> bool:
    """Whether as many get room, nobody else leaves for it, and nobody waits again who could have moved at once."""
    return found.members >= wanted.members and found.victims <= wanted.victims and found.moved >= wanted.moved


def _fits(ask: Ask) -> bool:
    """Whether it needs nobody to leave who does not leave anyway."""
    return not ask.over and not isinstance(ask.site.place(ask.site.columns), Refusal)


def may_still_evict(world: World) -> int:
    """How many that wait, or come back to the queue, have not been evicted for that turn: every eviction lowers it."""
    coming = (w for w in world.workloads.values() if w.phase in WAITING or w.phase is Phase.TERMINATING)
    return sum(1 for w in coming if w.claim is None and not w.preempted_by)
