"""Who is tried again when something has become free, or will be: only classes that could use it.

Called by the cycle before it takes heads, with all that was given back, or began to leave, since the last one. A
release used to wake every class that was blocked in its pool, then every class within its share; with thousands of them
a cycle did nothing but refuse them again.
A blocked class is woken if it fits on a node that was freed, or would if those left whom it may ask to (offers.py); if
so much is free in the pool that moving others may be enough; if a quota of its own project or department stood in its
way and one of their projects gave something back; if these hold less than they did, so that it may ask others; or, once
nobody is left to try, if work was placed beyond a share where it could use what that holds.
Holds: a class that stays blocked would be refused again, while fair shares stay what they are. Where some want less
(their waiting work was withdrawn, or can never run), those are tried whose shares rose; where some want more, all that
stay within theirs are tried at the next release.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from muster_scheduler.domain.asked.workloads import Workload
from muster_scheduler.domain.books.classes import ClassKey
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.turning.changes import Change, beyond
from muster_scheduler.domain.turning.turns import Turns


class Waker:
    """Wakes for the length of one cycle; fair shares are those of its turns."""

    def __init__(self, world: World, turns: Turns) -> None:
        """Begins with what was given back since the last cycle."""
        self._world, self._turns, self.standing = world, turns, turns.standing
        self._changes: dict[str, Change] = {}
        # What this very cycle finds to be in vain is for the next one: fair shares of this one count it still.
        self._relented = sorted(world.relented)
        world.relented.clear()
        self._offers: dict[str, tuple[int, int, Change]] = {}  # by pool: the journal's mark, how many nodes, of what

    def wake(self) -> None:
        """Wakes all whom something helps that was given back since the last call."""
        world, fallen, offered = self._world, self._world.queues.fallen, self._world.waiting.nodes
        self._wake_under_other_shares()
        if not world.freed and not fallen:
            return
        projects = {name for freed in world.freed.values() for name in freed.projects} | {name for name, _ in fallen}
        for pool in sorted({pool for _, pool in (*world.freed, *fallen)}):
            nodes = [key for (_, at), freed in sorted(world.freed.items()) if at == pool for key in sorted(freed.nodes)]
            given = {name for (_, at), freed in world.freed.items() if at == pool for name in freed.projects}
            offered.setdefault(pool, {}).update(dict.fromkeys(nodes))
            change = self._change(pool, nodes, given | {name for name, at in fallen if at == pool})
            world.waiting.wake_where(pool, change.helps)
        for project in sorted(projects):
            _wake_elsewhere(world, project)
        world.freed.clear()
        fallen.clear()

    def _wake_under_other_shares(self) -> None:
        """Where some want less than they did, others deserve more: wakes who may take from others by that."""
        for pool in self._relented:
            change = self._change(pool, (), ())
            if change.reweighs:
                self._world.waiting.wake_where(pool, change.eases)
        self._relented = []

    def wake_takers(self) -> bool:
        """Wakes who may reclaim now that others were placed beyond their shares; whether there were any."""
        world, risen = self._world, self._world.queues.risen
        pools = sorted({pool for _, pool in risen} & set(world.waiting.blocked_pools()))
        for pool in pools:
            over = beyond(world, self.standing(pool))
            giving = _giving(world, {name for name, at in risen if at == pool}, over)
            if giving:
                change = self._change(pool, _nodes_of(world, pool, giving), ())
                change.givers = over
                world.waiting.wake_where(pool, change.takes)
        risen.clear()
        return bool(pools)

    def entered(self, workload: Workload, pool: str) -> None:
        """It holds something in the pool now; where it waited for it in another, fair shares are made once more."""
        if workload.request is not None and pool not in workload.request.pools[:1]:
            self._turns.reweigh(pool)

    def worth_room(self, key: ClassKey) -> bool:
        """Whether room may be made for a class that was woken for a place, which another one took."""
        offered = self._world.waiting.nodes
        return any(self._offer(pool, offered[pool]).makes_room(key) for pool in key.pools if pool in offered)

    def _offer(self, pool: str, nodes: Collection[tuple[str, str]]) -> Change:
        """What these nodes offer now: the same while nothing is written, as between heads that are refused."""
        mark = self._world.journal.mark()
        known = self._offers.get(pool)
        if known is not None and known[:2] == (mark, len(nodes)):
            return known[2]
        change = self._change(pool, nodes, ())
        self._offers[pool] = mark, len(nodes), change
        return change

    def rest(self) -> None:
        """Nobody is left to try: what was freed so far has been offered to all."""
        world = self._world
        world.waiting.nodes.clear()
        for pool, standing in self._turns.standings():
            world.waiting.weighed.note(pool, standing.shares)

    def _change(self, pool: str, nodes: Iterable[tuple[str, str]], projects: Iterable[str]) -> Change:
        before = self._changes.get(pool)
        change = self._changes[pool] = Change(self._world, pool, nodes, projects, self.standing)
        if before is not None:
            change.givers = before.givers  # who came to hold more since then is `wake_takers`' concern
        return change


def _wake_elsewhere(world: World, project: str) -> None:
    """Limits of users and quotas of GPU models hold over all pools: what is given back in one lifts them in another."""
    known, department = world.queues.projects.get(project), world.queues.department_of(project)
    if department is not None and department.models:
        for sibling in sorted(p.name for p in world.queues.projects.values() if p.department == department.name):
            world.waiting.wake_project(sibling)
    elif known is not None and (known.models or known.user_limits):
        world.waiting.wake_project(project)


def _giving(world: World, risen: set[str], over: frozenset[str]) -> set[str]:
    """Of whom more may be taken since these came to hold more: of them, and of all in a department that is beyond."""
    books = world.queues
    above = {found.name for name in risen if (found := books.department_of(name)) and found.name in over}
    siblings = {name for name, each in books.projects.items() if each.department in above} if above else set()
    return (risen | siblings) & over


def _nodes_of(world: World, pool: str, projects: set[str]) -> Iterator[tuple[str, str]]:
    """The nodes on which these projects hold something there."""
    for cluster in world.inventory.clusters_with(pool):
        for project in sorted(projects):
            for name in world.placed.get((cluster, pool, project), ()):
                for replica in world.workloads[name].everyone():
                    if not replica.gone or replica.kept:
                        yield replica.node
