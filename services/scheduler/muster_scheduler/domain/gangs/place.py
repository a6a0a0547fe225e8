"""Where a gang goes in one node pool: all of its replicas as runs, or the reason why not. Changes nothing.

Called by placement for gangs and by whoever asks what would fit. Pure over columns. In words: count what each node
could take; from the wanted level outward, look for the fullest domain that holds all roles; inside it take the fewest
inner domains and nodes; give devices; where roles compete for the same nodes, try them largest first, then search
exactly.
Holds: all roles are placed in full or none is; every required level and group is kept, and no two replicas that have to
be apart share a domain; replicas of a role are numbered
along the topology, so that neighbours in rank are neighbours on the floor; a refusal that is `proven` is the truth, one
that is not says that the search ended at its budget.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from muster_scheduler.domain.asked.requests import Role
from muster_scheduler.domain.asked.terms import Wish
from muster_scheduler.domain.fleet.columns import Columns
from muster_scheduler.domain.fleet.counts import Counts, counts_of
from muster_scheduler.domain.fleet.taking import Run
from muster_scheduler.domain.fleet.topology import NOWHERE, Topology
from muster_scheduler.domain.gangs.apart import Domains, one_each, spread_out
from muster_scheduler.domain.gangs.choosing import NodeOrder, Supply, choose, choose_beside, grouped
from muster_scheduler.domain.gangs.devices import Steps
from muster_scheduler.domain.gangs.packing import pack
from muster_scheduler.domain.gangs.runs import runs_of, take_all
from muster_scheduler.domain.gangs.sums import enough
from muster_scheduler.domain.gangs.verdicts import Lack, Placement, Refusal

MANY: Final = 1 << 31  # units that a node takes where nothing bounds it; 100,000 nodes of it still add up exactly
_POOL: Final = -1  # the level above the outermost: the whole pool
_TRIES: Final = 64  # domains in which roles are tried together, a level
_STEPS: Final = 20_000  # of the exact search, a level: some hundredths of a second


def place_gang(
    columns: Columns,
    topology: Topology,
    roles: tuple[Role, ...],
    wish: Wish = Wish(),  # noqa: B008 - an immutable value
    eligible: NDArray[np.bool_] | None = None,
    order: NodeOrder = NodeOrder.TIGHTEST,
) -> tuple[Placement, ...] | Refusal:
    """Places every role in full, or says why not. Placements come in the order of `roles`.

    topology: of the same nodes as the columns. eligible: bool[n], nodes that may be used at all; None: all.
    order: of nodes, where the wish does not ask to be close together.
    """
    asked = tuple(sorted((role for role in roles if role.size), key=_largest_first))
    wrong = _wrong(topology, asked, wish)
    if wrong is not None:
        return wrong
    if wish.apart and not wish.apart.required:
        strict = wish._replace(apart=wish.apart._replace(required=True))
        spread = place_gang(columns, topology, roles, strict, eligible, order)
        if not isinstance(spread, Refusal):
            return spread
    if not asked:  # a service that is scaled to zero
        return tuple(Placement(role.name, ()) for role in roles)
    search = _Search(columns, topology, asked, wish, eligible, NodeOrder.FEWEST if wish.keys else order)
    for level in _levels(topology, wish):
        runs = search.at(level)
        if runs is not None:
            return tuple(Placement(role.name, runs.get(role.name, ())) for role in roles)
    return search.refusal(_outermost(topology, wish))


def _largest_first(role: Role) -> tuple[int, int, int, str]:
    return -role.charge, -role.shape.cpu, -role.shape.memory, role.name


def _wrong(topology: Topology, roles: tuple[Role, ...], wish: Wish) -> Refusal | None:
    replicas = sum(role.size for role in roles)
    for key in (wish.required, wish.group):
        level = topology.level(key)
        if key and (level is None or topology.size(level) == 0):
            return Refusal(Lack.LEVEL, key, replicas, 0)
    for role in roles:
        if wish.group and role.size >= wish.group_size and role.size % max(1, wish.group_size):
            return Refusal(Lack.GROUPS, wish.group, role.size, wish.group_size)
    return None


def _outermost(topology: Topology, wish: Wish) -> int:
    level = topology.level(wish.required)
    return _POOL if level is None else level


def _levels(topology: Topology, wish: Wish) -> Iterator[int]:
    """Levels to try, from the wanted one outward."""
    outermost = _outermost(topology, wish)
    preferred = topology.level(wish.preferred)
    yield from range(max(outermost, _POOL if preferred is None else preferred), outermost - 1, -1)


_Runs = dict[str, tuple[Run, ...]]


class _Search:
    """One gang in one pool: what is counted once, and what was found out about the best domain."""

    def __init__(
        self,
        columns: Columns,
        topology: Topology,
        roles: tuple[Role, ...],
        wish: Wish,
        eligible: NDArray[np.bool_] | None,
        order: NodeOrder,
    ) -> None:
        self.columns = columns
        self.topology = topology
        self.roles = roles
        self.wish = wish
        self.eligible = eligible
        self.apart = topology.apart if wish.strictly_apart else None
        self.idle = columns.idle.astype(np.int64)
        self.order = order
        if self.apart is not None and order is NodeOrder.EVENLY:  # one a domain is even already: the emptiest first
            self.order, self.idle = NodeOrder.TIGHTEST, -self.idle
        self.steps = Steps(_STEPS)  # of the level that is tried
        self.counts = [self._counts(columns, role) for role in roles]
        self.room: dict[int, int] = {}  # level -> replicas that fit into its best domain
        self.proven = True

    def _counts(self, columns: Columns, role: Role) -> Counts:
        counts = counts_of(columns, role.shape, MANY)
        if self.eligible is not None:
            counts = np.where(self.eligible, counts, 0)
        # A rack may lie in no block: what is wished for inside of one has to have the label itself.
        for key in (self.wish.required, self.wish.group if role.size >= self.wish.group_size else ""):
            level = self.topology.level(key)
            if level is not None:
                counts = np.where(self.topology.domain[level] == NOWHERE, 0, counts)
        return counts

    def _supply(self, level: int, role: Role, counts: Counts) -> Supply:
        """What a role could take, in groups where these are to stay inside a domain deeper than `level`."""
        supply = Supply(self.topology, self._alone(level, counts), role.size, self.idle)
        group = self.topology.level(self.wish.group)
        if group is None or group <= level or role.size < self.wish.group_size:
            return supply
        return grouped(self.topology, group, self.wish.group_size, supply)

    def _alone(self, level: int, counts: Counts) -> Counts:
        """What of these counts one role may take inside a domain of a level: of what holds one replica only, one."""
        if self.apart is None:
            return counts
        return one_each(counts, self.apart, None if level == _POOL else self.topology.domain[level], self.idle)

    def at(self, level: int) -> _Runs | None:
        """All roles inside one domain of a level."""
        supplies = [self._supply(level, role, counts) for role, counts in zip(self.roles, self.counts, strict=True)]
        rooms = [_rooms(supply, level) for supply in supplies]
        holding = np.logical_and.reduce([room >= s.need for room, s in zip(rooms, supplies, strict=True)])
        self._note_room(level, supplies, rooms)
        if not holding.any():
            return None
        if len(self.roles) == 1:
            return {self.roles[0].name: self._runs(self.columns, 0, supplies[0], level, _fullest(rooms[0], holding)[0])}
        return self._together(level, rooms[0], holding)

    def _note_room(self, level: int, supplies: list[Supply], rooms: list[Counts]) -> None:
        fitting = np.zeros_like(rooms[0])
        for role, supply, room in zip(self.roles, supplies, rooms, strict=True):
            fitting += np.minimum(room, supply.need) * (role.size // supply.need)
        if self.apart is not None:
            alone = self._alone(level, np.maximum.reduce(self.counts))
            fitting = np.minimum(fitting, _rooms(Supply(self.topology, alone, 0, alone), level))
        self.room[level] = int(fitting.max(initial=0))

    def _runs(
        self, columns: Columns, role: int, supply: Supply, level: int, domain: int, used: tuple[int, ...] = ()
    ) -> tuple[Run, ...]:
        inside = supply.inside(level, domain) if level != _POOL else supply
        if inside.topology is not self.topology:
            taken = self._groups(columns, role, level, used, choose(inside, level, self.order))
        elif used and self.order is NodeOrder.FEWEST:
            taken = choose_beside(inside, level, used)
        else:
            taken = choose(inside, level, self.order)
        order = self.topology.order
        rows = order[taken[order] > 0]
        return runs_of(columns, self.roles[role].shape, rows, taken[rows])

    def _groups(self, columns: Columns, role: int, outer: int, used: tuple[int, ...], groups: Counts) -> Counts:
        """Replicas that each node takes, of the groups that each domain of the group's level takes."""
        level = self.topology.keys.index(self.wish.group)
        counts = self._alone(outer, self._beside(self._counts(columns, self.roles[role]), used))
        taken = np.zeros_like(counts)
        for domain in np.flatnonzero(groups).tolist():
            need = int(groups[domain]) * self.wish.group_size
            supply = Supply(self.topology, counts, need, self.idle)
            taken += choose(supply.inside(level, domain), level, self.order)
        return taken

    def _together(self, level: int, rooms: Counts, holding: NDArray[np.bool_]) -> _Runs | None:
        """Roles that compete for the same nodes: largest first in each domain, then exactly."""
        self.room[level], self.proven, self.steps = 0, True, Steps(_STEPS)
        usable = np.maximum.reduce(self.counts) > 0
        domains = _fullest(
            rooms, holding & enough(self.columns, self.roles, usable, lambda free: self._sum(level, free))
        )
        if not domains:
            self._greedily(level, _fullest(rooms, holding)[-1])  # only to say how many find room
            return None
        for domain in domains[:_TRIES]:
            found = self._greedily(level, domain)
            if found is not None:
                return found
        for domain in domains[:_TRIES]:
            found = self._exactly(level, domain)
            if found is not None:
                return found
        self.proven = self.proven and len(domains) <= _TRIES
        return None

    def _sum(self, level: int, free: Counts) -> Counts:
        """A column of nodes summed by the domains of a level."""
        return _rooms(Supply(self.topology, free, 0, free), level)

    def _greedily(self, level: int, domain: int) -> _Runs | None:
        scratch = self.columns.scratch()
        runs: _Runs = {}
        placed = 0
        for number, role in enumerate(self.roles):
            counts = self._counts(scratch, role) if number else self.counts[0]
            used = tuple(sorted({run.node for others in runs.values() for run in others}))
            supply = self._supply(level, role, self._beside(counts, used))
            room = _room(supply, level, domain)
            if room < supply.need:
                self.room[level] = max(self.room[level], placed + room * (role.size // supply.need))
                return None
            runs[role.name] = self._runs(scratch, number, supply, level, domain, used)
            take_all(scratch, role.shape, runs[role.name])
            placed += role.size
        return runs

    def _beside(self, counts: Counts, used: tuple[int, ...]) -> Counts:
        """What other roles leave that use these nodes: of what has to be apart, nothing of their domains."""
        if self.apart is None or not used:
            return counts
        return np.where(np.isin(self.apart, self.apart[list(used)]), 0, counts)

    def _exactly(self, level: int, domain: int) -> _Runs | None:
        if self.wish.group:  # groups are placed largest first only
            self.proven = False
            return None
        usable = np.maximum.reduce(self.counts) > 0
        if level != _POOL:
            usable &= self.topology.domain[level] == domain
        if self.apart is not None:
            return self._spread(level, np.where(usable, self.apart, NOWHERE))
        rows = self.topology.order[usable[self.topology.order]]
        found = pack(self.columns, rows, [(role.shape, role.size) for role in self.roles], self.steps)
        if found is None:
            self.proven = self.proven and not self.steps.spent
            return None
        return {role.name: runs for role, runs in zip(self.roles, found, strict=True)}

    def _spread(self, level: int, apart: Domains) -> _Runs | None:
        """Every replica in a domain of its own, of these: int32[n], NOWHERE for nodes that may not be used."""
        spread = spread_out(np.array(self.counts), [role.size for role in self.roles], apart, self.idle)
        self.room[level] = max(self.room[level], spread.replicas)
        if spread.replicas < sum(role.size for role in self.roles):
            return None
        order = self.topology.order
        rows = [order[taken[order] > 0] for taken in spread.taken]
        given = zip(self.roles, rows, strict=True)
        return {role.name: runs_of(self.columns, role.shape, at, np.ones_like(at)) for role, at in given}

    def refusal(self, level: int) -> Refusal:
        """What the best domain of the outermost level that was allowed had room for."""
        key = self.topology.keys[level] if level != _POOL else ""
        # Domains in which replicas are alone may lie in several of those that hold a group: not all ways were tried.
        proven = self.proven and not (self.wish.group and self.apart is not None)
        return Refusal(Lack.ROOM, key, sum(role.size for role in self.roles), self.room.get(level, 0), proven)


def _rooms(supply: Supply, level: int) -> Counts:
    return supply.rooms(level) if level != _POOL else supply.counts.sum(keepdims=True)


def _room(supply: Supply, level: int, domain: int) -> int:
    return int(_rooms(supply, level)[domain if level != _POOL else 0])


def _fullest(rooms: Counts, holding: NDArray[np.bool_]) -> list[int]:
    """The domains that hold all roles, the one with the least left over first."""
    domains = np.flatnonzero(holding)
    return [int(domain) for domain in domains[np.argsort(rooms[domains], kind="stable")]]
