"""Where quotas promise more than can be kept: a department less than its projects, the pool less than everybody.

All of it is legal, and so is a quota below what is in use; but whoever is locked out by it has to be able to see why.
Called by the list of accounts, once a node pool. Follows from the books of this moment; nothing is kept.
"""

from __future__ import annotations

from collections.abc import Iterator

from muster_kernel.quantities import format_bytes, format_milli_cpu
from muster_scheduler.domain.answers.viewing import Viewer
from muster_scheduler.domain.answers.wording import gpus
from muster_scheduler.domain.asked.quotas import Account, Line
from muster_scheduler.domain.books.standing import STEPS, Queue
from muster_scheduler.domain.books.standings import standing_of
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.shares.tree import TOP

_DEPARTMENT = "its department promises its projects, or holds, more than its quota allows"
_POOL = "all in the pool deserve more together than it has"
_RESOURCES = range(len(STEPS))  # as in `Amount`


class Promises:
    """The quotas of one node pool, held against each other and against what is there and in use."""

    def __init__(self, world: World, pool: str) -> None:
        """As the books stand now."""
        self._world, self._standing = world, standing_of(world, pool)
        queues = self._standing.queues
        self._below = [[0] * len(STEPS) for _ in (*queues, TOP)]  # what children deserve together; the last: at the top
        for row in range(len(queues) - 1, TOP, -1):  # a department without a quota deserves what its projects do
            for at in _RESOURCES:
                own = _line(queues[row], at).deserved if queues[row].quota else self._below[row][at]
                self._below[queues[row].parent][at] += own or 0

    def of(self, project: str, viewer: Viewer) -> tuple[str, ...]:
        """What of it touches a project, in sentences; none where all can be kept.

        Amounts of a department that the viewer may not see, and of the pool, are shown only to viewers who may see all.
        """
        row = self._standing.projects.get(project)
        if row is None:
            return ()
        queue, books, pool = self._standing.queues[row], self._world.queues, self._standing.pool
        told = [*_above_use(queue, project, books.account(project, pool))]
        if queue.parent != TOP:
            over = self._standing.queues[queue.parent]
            name = f"department {over.name}"
            above = [
                *_above_use(over, name, books.department_account(over.name, pool)),
                *self._department(over, queue.parent, name),
            ]
            told += above if viewer.sees_department(over.name) or not above else [_DEPARTMENT]
        beyond = tuple(self._pool())
        return (*told, *(beyond if viewer.everywhere or not beyond else (_POOL,)))

    def _department(self, over: Queue, row: int, name: str) -> Iterator[str]:
        for at in _RESOURCES if over.quota else ():
            line, together = _line(over, at), self._below[row][at]
            if line.most is not None and together > line.most:
                shown, most = _shown(at, together), _shown(at, line.most)
                yield f"{name} may hold {most} and its projects deserve {shown} together: they can never have all of it"
            elif line.deserved is not None and together > line.deserved:
                shown, own = _shown(at, together), _shown(at, line.deserved)
                yield (
                    f"{name} deserves {own} and its projects {shown} together: what is beyond that is theirs only "
                    "while nobody else deserves it, and non-preemptible work never gets it"
                )

    def _pool(self) -> Iterator[str]:
        for at in _RESOURCES:
            together, total = self._below[TOP][at], self._standing.total[at]
            if together > total:
                yield f"all in the pool deserve {_shown(at, together)} together, and it has {_shown(at, total)}"


def _line(queue: Queue, at: int) -> Line:
    return queue.quota.line(at) if queue.quota else Line()


def _above_use(queue: Queue, name: str, account: Account) -> Iterator[str]:
    """Where it holds more than its quota allows now: lowering that stops nothing, and nothing more starts."""
    for at in _RESOURCES:
        line, held, bound = _line(queue, at), account.held[at], account.bound[at]
        if line.most is not None and held > line.most:
            back = _shown(at, held - line.most)
            yield f"{name} holds {_shown(at, held)} and may hold {_shown(at, line.most)}: {back} too much to start more"
        elif line.deserved is not None and bound > line.deserved:
            back = _shown(at, bound - line.deserved)
            own = _shown(at, line.deserved)
            yield (
                f"{name} holds {_shown(at, bound)} of non-preemptible work and deserves {own}: "
                f"{back} too much to start more of it"
            )


def _shown(at: int, amount: int) -> str:
    if at == 0:
        return gpus(amount)
    return f"{format_milli_cpu(amount)} CPU" if at == 1 else f"{format_bytes(amount)} of memory"
