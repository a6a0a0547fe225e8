"""What people say of departments, projects and node pools: who may use how much, for how long, on what.

Called by `State.apply`. Lowering a quota stops nothing; a rule that is tightened holds for what runs already.
Holds: an older version never overwrites a newer one, so that repeated and reordered records end in the same state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from muster_scheduler.domain.asked.quotas import Quota
from muster_scheduler.domain.books.pools import pool_of
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.events import (
    DepartmentChanged,
    DepartmentRemoved,
    NodePoolChanged,
    NodePoolRemoved,
    ProjectChanged,
    ProjectRemoved,
)


def on_project(world: World, event: ProjectChanged) -> None:
    """A project as it stands now."""
    project = event.project
    known = world.queues.projects.get(project.name)
    if known is not None and known.version >= project.version > 0:
        return
    world.queues.put(project)
    world.touched.projects[project.name] = None
    world.waiting.limit_users(project.name, limited=bool(project.user_limits), find=world.workloads.__getitem__)
    world.waiting.wake_project(project.name)
    moved = known is None or (known.department, known.rank) != (project.department, project.rank)
    _wake_others(world, project.name, known.quotas if known else {}, project.quotas, moved=moved)
    if known is None or (known.rules, known.department) != (project.rules, project.department):
        _set_timers(world, (project.name,))


def on_project_removed(world: World, event: ProjectRemoved) -> None:
    """A project is no more; what waits of it says so."""
    for key in [key for key in world.queues.usage if key[0] == event.name]:
        world.touched.usage[key] = None
    known = world.queues.projects.get(event.name)
    world.queues.remove(event.name)
    world.touched.projects[event.name] = None
    world.waiting.wake_project(event.name)
    _wake_others(world, event.name, known.quotas if known else {}, {}, moved=True)


def on_department(world: World, event: DepartmentChanged) -> None:
    """A department as it stands now: what its projects may hold together."""
    department = event.department
    known = world.queues.departments.get(department.name)
    if known is not None and known.version >= department.version > 0:
        return
    world.queues.put_department(department)
    world.touched.departments[department.name] = None
    _renew(world, department.name, clocks=known is None or known.rules != department.rules)
    moved = known is None or known.rank != department.rank
    _wake_others(world, "", known.quotas if known else {}, department.quotas, moved=moved)


def on_department_removed(world: World, event: DepartmentRemoved) -> None:
    """A department is no more: it bounds nothing."""
    known = world.queues.departments.get(event.name)
    if known is not None:
        world.queues.remove_department(event.name)
        world.touched.departments[event.name] = None
        _renew(world, event.name, clocks=True)
        _wake_others(world, "", known.quotas, {}, moved=True)


def on_node_pool(world: World, event: NodePoolChanged) -> None:
    """A node pool as it stands now. What is placed stays where it is: label, strategy and levels are for what comes."""
    known, cluster = world.pools.known.get(event.pool.id), event.pool.cluster
    if known is not None and known.version >= event.pool.version > 0:
        return
    if known is not None and (known.cluster, known.name) != (cluster, event.pool.name):
        on_node_pool_removed(world, NodePoolRemoved(known.id))  # a name that stands for it no longer
    labels = world.pools.labels(cluster)
    world.pools.put(event.pool._replace(mix=known.mix, mixed=known.mixed) if known else event.pool)
    world.touched.pools[event.pool.id] = None
    world.waiting.wake_pool(event.pool.name)
    if world.pools.labels(cluster) != labels:
        _sort_nodes(world, cluster)


def on_node_pool_removed(world: World, event: NodePoolRemoved) -> None:
    """A node pool is no more: those of its nodes that its label chose are where another label or their agent says."""
    known = world.pools.known.get(event.id)
    if known is not None:
        labels = world.pools.labels(known.cluster)
        world.pools.remove(event.id)
        world.touched.pools[event.id] = None
        world.waiting.wake_pool(known.name)
        if world.pools.labels(known.cluster) != labels:  # without one of its own it hid that of another of its name
            _sort_nodes(world, known.cluster)


def _sort_nodes(world: World, cluster: str) -> None:
    """Puts the nodes of a cluster into the pools of their labels. What runs on them counts where it was started."""
    labels = world.pools.labels(cluster)
    placed = [(node, pool_of(node, labels)) for node in world.inventory.in_cluster(cluster)]
    moves = [(node, pool) for node, pool in placed if node.pool != pool]
    pools = {name for node, pool in moves for name in (node.pool, pool)}
    world.inventory.move_nodes(moves)
    for node, _ in moves:
        world.touched.nodes[node.key] = None
        world.watch_node(node)
    for pool in sorted(pools):
        world.waiting.wake_pool(pool)


def _renew(world: World, department: str, *, clocks: bool) -> None:
    projects = sorted(p.name for p in world.queues.projects.values() if p.department == department)
    for project in projects:
        world.waiting.wake_project(project)
    if clocks:
        _set_timers(world, projects)


def _wake_others(
    world: World, project: str, before: Mapping[str, Quota], after: Mapping[str, Quota], *, moved: bool
) -> None:
    """What one queue deserves decides what others may take back, and what it leaves behind in a department is theirs.

    `moved`: it counts elsewhere or otherwise in each of its pools; else only where its quota is another one.
    """
    pools = {pool for pool in before.keys() | after.keys() if moved or before.get(pool) != after.get(pool)}
    if moved:
        pools |= {pool for name, pool in world.queues.accounts if name == project}
    for pool in sorted(pools):
        world.waiting.wake_pool(pool)


def _set_timers(world: World, projects: Iterable[str]) -> None:
    """Rules hold for what runs already: its clocks are read anew."""
    meant = frozenset(projects)
    for workload_id in sorted({w for members in world.placed.values() for w in members}):
        if world.workloads[workload_id].project in meant:
            world.watch(world.workloads[workload_id])
