"""Who is tried again when something has become free: only classes that could use it.

Called by the cycle before it takes heads, with all that was given back since the last one. A release used to wake every
class that was blocked in its pool; with thousands of them a cycle then did nothing but refuse them again.
A blocked class is woken if one of its roles fits on a node that was freed (no other place has become possible), if a
quota of its own project or department stood in its way and one of their projects gave something back, or if it could
make room: it stays within its fair share while somebody holds more than his, or its own project runs what gives way.
Holds: a class that stays blocked would be refused again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from muster_kernel.reasons import NEVER, Reason, WaitingReason
from muster_scheduler.domain.asked.quotas import LIMITED
from muster_scheduler.domain.asked.requests import Grant, Kind, Role, Shape
from muster_scheduler.domain.books.classes import ClassKey, asked_by
from muster_scheduler.domain.books.standing import Standing
from muster_scheduler.domain.books.waiting import Help
from muster_scheduler.domain.books.world import Freed, World
from muster_scheduler.domain.fleet.nodes import Node, fit
from muster_scheduler.domain.placement.place import mig_of

# What stands in the way is only that nodes are too full.
_ROOM: Final = frozenset(
    {
        WaitingReason.CLAIM,
        WaitingReason.RESERVED,
        WaitingReason.NO_CAPACITY,
        WaitingReason.NO_HOST_CAPACITY,
        WaitingReason.FRAGMENTED,
        WaitingReason.TOPOLOGY,
    }
)
_QUOTA: Final = frozenset(
    {
        WaitingReason.OVER_LIMIT,
        WaitingReason.NO_WEIGHT,
        WaitingReason.OVER_QUOTA,
        WaitingReason.CPU_OVER_LIMIT,
        WaitingReason.CPU_OVER_QUOTA,
        WaitingReason.MEMORY_OVER_LIMIT,
        WaitingReason.MEMORY_OVER_QUOTA,
        WaitingReason.USER_OVER_LIMIT,
        WaitingReason.USER_RUNS_ENOUGH,
    }
)
_NOBODY: Final = 1 << 62  # the priority that everything is below


def wake(world: World, standings: Callable[[str], Standing]) -> None:
    """Wakes all whom something helps that was given back since the last call."""
    for (cluster, pool), freed in sorted(world.freed.items()):
        change = _Change(world, cluster, pool, freed, standings)
        world.waiting.wake_where(pool, change.helps)
    for project in sorted({name for freed in world.freed.values() for name in freed.projects}):
        _wake_elsewhere(world, project)
    world.freed.clear()


def _wake_elsewhere(world: World, project: str) -> None:
    """Limits of users and quotas of GPU models hold over all pools: what is given back in one lifts them in another."""
    known, department = world.queues.projects.get(project), world.queues.department_of(project)
    if department is not None and department.models:
        for sibling in sorted(p.name for p in world.queues.projects.values() if p.department == department.name):
            world.waiting.wake_project(sibling)
    elif known is not None and (known.models or known.user_limits):
        world.waiting.wake_project(project)


class _Change:
    """What became free in one pool of one cluster, as blocked classes see it; answers are remembered."""

    def __init__(
        self, world: World, cluster: str, pool: str, freed: Freed, standings: Callable[[str], Standing]
    ) -> None:
        self._world, self._cluster, self._pool = world, cluster, pool
        self._nodes: list[Node] = [node for name in sorted(freed.nodes) if (node := world.inventory.nodes.get(name))]
        self._projects = freed.projects
        self._departments = {found.name for name in freed.projects if (found := world.queues.department_of(name))}
        self._standings = standings
        self._mig = mig_of(world, cluster)
        self._fits: dict[Shape, bool] = {}
        self._lowest: dict[str, int] = {}
        self._over: bool | None = None

    def helps(self, key: ClassKey, reason: Reason) -> Help:
        """What it is to a class that is blocked for this reason."""
        if reason.code in NEVER:
            return Help.NONE
        # In several pools another thing stands in the way in each; the reason tells the first.
        alone = len(key.pools) == 1
        if reason.code in _QUOTA and alone:
            room = reason.code in LIMITED and self._makes_room(key)
            return Help.ALL if room or self._related(key) else Help.NONE
        # A queue that holds less may come to hold no more than it deserves, and so to pass what is reserved.
        passes = reason.code is WaitingReason.RESERVED or not alone
        if reason.code not in _QUOTA | _ROOM or (passes and self._related(key)) or self._makes_room(key):
            return Help.ALL
        return Help.PLACE if self._fit(key) else Help.NONE

    def _related(self, key: ClassKey) -> bool:
        department = self._world.queues.department_of(key.project)
        return key.project in self._projects or (department is not None and department.name in self._departments)

    def _fit(self, key: ClassKey) -> bool:
        roles = [role for role in key.roles if role.size]
        return any(self._fits_one(role.shape) for role in roles) and all(self._fits_whole(role) for role in roles)

    def _fits_whole(self, role: Role) -> bool:
        """Whether all nodes together have the idle devices for a role: without them a gang is not worth a try."""
        capacity = self._world.inventory.capacity(self._cluster, self._pool)
        return role.shape.kind is not Kind.WHOLE or (
            capacity is not None and capacity.room_for(role.shape.devices, role.size)
        )

    def _fits_one(self, shape: Shape) -> bool:
        known = self._fits.get(shape)
        if known is None:
            known = any(node.open and isinstance(fit(node, shape, self._mig), Grant) for node in self._nodes)
            self._fits[shape] = known
        return known

    def _makes_room(self, key: ClassKey) -> bool:
        return self._reclaims(key) or key.priority > self._lowest_of(key.project) or self._displaces(key)

    def _displaces(self, key: ClassKey) -> bool:
        return not key.preemptible and self._lowest_of(key.project) < _NOBODY

    def _reclaims(self, key: ClassKey) -> bool:
        standing = self._standings(self._pool)
        row, shares = standing.projects.get(key.project), standing.shares[0]
        if row is None or shares is None:
            return False
        held = self._world.queues.account(key.project, self._pool).allocated + asked_by(key).gpu
        return held <= max(shares[row].fair, shares[row].deserved) and self._somebody_over(standing)

    def _somebody_over(self, standing: Standing) -> bool:
        shares = standing.shares[0]
        if self._over is None:
            self._over = shares is not None and any(
                self._world.queues.account(name, self._pool).allocated > shares[row].fair
                for name, row in standing.projects.items()
            )
        return self._over

    def _lowest_of(self, project: str) -> int:
        """The lowest priority of what the project runs here and what may be preempted."""
        known = self._lowest.get(project)
        if known is None:
            world = self._world
            running = (world.workloads[w] for w in world.placed.get((self._cluster, self._pool, project), {}))
            asked = (w.request for w in running if w.active and w.request is not None)
            known = min((request.priority for request in asked if request.preemptible), default=_NOBODY)
            self._lowest[project] = known
        return known
