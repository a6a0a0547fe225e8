"""Whose turn it is: level by level down the tree, the queue that holds least of its fair share.

Made by the cycle for its own length; fair shares are made when two queues compete in a pool for the first time in it,
what queues hold is read anew for every turn. Ties go to the name.
"""

from __future__ import annotations

from muster_scheduler.domain.standing import Standing, standing_of
from muster_scheduler.domain.waiting import ClassKey
from muster_scheduler.domain.workloads import Workload
from muster_scheduler.domain.world import World

Head = tuple[str, ClassKey]  # a workload's id and its class


class Turns:
    """The order of heads in one cycle."""

    def __init__(self, world: World) -> None:
        """Begins without fair shares."""
        self._world = world
        self._standings: dict[str, Standing] = {}

    def next(self) -> tuple[Workload, ClassKey] | None:
        """The workload to look at now and its class: the pools by name, in each the project whose turn it is."""
        heads: dict[str, dict[str, Head]] = {}
        for project in self._world.waiting.projects():
            head = self._world.waiting.head(project)
            if head is not None:
                heads.setdefault(head[1].pools[0] if head[1].pools else "", {})[project] = head
        if not heads:
            return None
        pool = min(heads)
        in_pool = heads[pool]
        project = next(iter(in_pool)) if len(in_pool) == 1 else self._turn(pool, list(in_pool))
        workload, key = in_pool[project]
        return self._world.workloads[workload], key

    def _turn(self, pool: str, projects: list[str]) -> str:
        """The project of these whose turn it is: the least full at the top level, then the least full below it."""
        queues = self._world.queues
        below: dict[str, list[str]] = {}
        best: list[tuple[int, str, list[str]]] = []
        for project in projects:
            department = queues.department_of(project)
            if department is None:
                best.append((self._fullness(pool, project), project, [project]))
            else:
                below.setdefault(department.name, []).append(project)
        best += [(self._over(pool, name, members[0]), name, members) for name, members in below.items()]
        members = min(best)[2]
        return members[0] if len(members) == 1 else min(members, key=lambda each: (self._fullness(pool, each), each))

    def _fullness(self, pool: str, project: str) -> int:
        standing = self.standing(pool)
        row = standing.projects.get(project)
        return 0 if row is None else standing.fullness(row, self._world.queues.account(project, pool).held)

    def _over(self, pool: str, department: str, project: str) -> int:
        standing = self.standing(pool)
        row = standing.projects.get(project)
        held = self._world.queues.department_account(department, pool).held
        return 0 if row is None else standing.fullness(standing.queues[row].parent, held)

    def standing(self, pool: str) -> Standing:
        """The fair shares of a pool as they were when first asked for; what queues hold may have changed since."""
        standing = self._standings.get(pool)
        if standing is None:
            standing = self._standings[pool] = standing_of(self._world, pool)
        return standing
