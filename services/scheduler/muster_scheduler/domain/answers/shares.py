"""Where a project and its department stand in a node pool: what they deserve, their fair share, what they hold.

Called by explain.py and by the list of accounts. Follows from the books of this moment; nothing is kept.
"""

from __future__ import annotations

from typing import NamedTuple

from muster_kernel.quantities import GPU
from muster_scheduler.domain.answers.viewing import Viewer
from muster_scheduler.domain.books.standing import Standing
from muster_scheduler.domain.books.standings import standing_of
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.fleet.nodes import Mode
from muster_scheduler.domain.shares.tree import TOP


class QueueShare(NamedTuple):
    """One queue of a node pool, in 1/7,000 GPU. wanted: what it holds and what waits; total: what the pool has.

    mig: what of the total is in MIG mode, and so given in slices alone.
    """

    queue: str
    department: bool
    pool: str
    deserved: int
    fair: int
    held: int
    wanted: int
    total: int
    mig: int = 0


def shares_of(world: World, project: str, pool: str, viewer: Viewer) -> tuple[QueueShare, ...]:
    """The project's, then its department's if that has a quota there; none where no quota names the pool's GPUs.

    A department that the viewer may not see is left out: what it holds, less his own, is what others hold.
    """
    standing = standing_of(world, pool)
    row = standing.projects.get(project)
    if row is None or standing.shares[0] is None:
        return ()
    parent = standing.queues[row].parent
    bounded = parent != TOP and standing.queues[parent].quota is not None
    bounded = bounded and viewer.sees_department(standing.queues[parent].name)
    return tuple(_share(world, standing, each) for each in ((row, parent) if bounded else (row,)))


def all_shares(world: World, pool: str) -> dict[str, QueueShare]:
    """Every project that takes part in the pool, by name; empty where no quota names its GPUs."""
    standing = standing_of(world, pool)
    if standing.shares[0] is None:
        return {}
    return {project: _share(world, standing, row) for project, row in standing.projects.items()}


def _share(world: World, standing: Standing, row: int) -> QueueShare:
    queue, shares = standing.queues[row], standing.shares[0] or ()
    share, is_department = shares[row], standing.departments.get(queue.name) == row
    books, total = world.queues, standing.total.gpu
    held = (books.department_account if is_department else books.account)(queue.name, standing.pool).allocated
    made = QueueShare(queue.name, is_department, standing.pool, share.deserved, share.fair, held, share.wanted, total)
    return made._replace(mig=_in_mig(world, standing.pool))


def _in_mig(world: World, pool: str) -> int:
    devices = (device for node in world.inventory.nodes.values() if node.pool == pool for device in node.devices)
    return GPU * sum(device.mig and device.mode in {Mode.IDLE, Mode.SLICED} for device in devices)
