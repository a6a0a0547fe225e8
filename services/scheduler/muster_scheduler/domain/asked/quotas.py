"""What a queue may hold in one node pool, resource by resource, and the verdict over an amount more.

Values only. Used by the books of projects and departments (books/queues.py) and by stream/intentions.py, which makes
them. Amounts are integers: 1/7,000 GPU, milli-CPU, bytes. A quota that does not name CPU or memory leaves them free.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from muster_kernel.reasons import WaitingReason
from muster_kernel.sentences import Reason
from muster_scheduler.domain.tuples import new

DEFAULT_WEIGHT: Final = 1_000


class Amount(NamedTuple):
    """GPUs in 1/7,000, CPU in thousandths of a core, memory in bytes."""

    gpu: int = 0
    cpu: int = 0
    memory: int = 0

    def plus(self, other: Amount, times: int = 1) -> Amount:
        """This and `times` the other."""
        (gpu, cpu, memory), (more_gpu, more_cpu, more_memory) = self, other
        return new(Amount, (gpu + times * more_gpu, cpu + times * more_cpu, memory + times * more_memory))


NOTHING: Final = Amount()


class Line(NamedTuple):
    """One resource of a quota. deserved None: not counted; limit None: none; weight: thousandths, in the surplus."""

    deserved: int | None = None
    limit: int | None = None
    weight: int = DEFAULT_WEIGHT

    @property
    def most(self) -> int | None:
        """The most that may be held: a weight of 0 gives nothing beyond what is deserved. None: no limit."""
        if self.weight or self.deserved is None:
            return self.limit
        return self.deserved if self.limit is None else min(self.limit, self.deserved)


FREE: Final = Line()


class Quota(NamedTuple):
    """What a queue deserves of GPUs in one node pool, the most that it may hold, its weight; then CPU and memory."""

    deserved: int
    limit: int | None = None
    weight: int = DEFAULT_WEIGHT
    cpu: Line = FREE
    memory: Line = FREE

    @property
    def lines(self) -> tuple[Line, Line, Line]:
        """The resources in the order of `Amount`."""
        return self.line(0), self.cpu, self.memory

    def line(self, resource: int) -> Line:
        """One resource by its place in `Amount`."""
        if resource:
            return self.cpu if resource == 1 else self.memory
        return Line(self.deserved, self.limit, self.weight)


NO_QUOTA: Final = Quota(0)


class Account(NamedTuple):
    """What a queue holds in one node pool, and how much of it no one may take back: the non-preemptible part."""

    held: Amount = NOTHING
    bound: Amount = NOTHING

    @property
    def allocated(self) -> int:
        """GPUs held, in 1/7,000."""
        return self.held.gpu

    @property
    def non_preemptible(self) -> int:
        """GPUs held by non-preemptible work, in 1/7,000."""
        return self.bound.gpu

    def plus(self, amount: Amount, *, preemptible: bool, times: int = 1) -> Account:
        """The account after `amount` was charged `times`."""
        (gpu, cpu, memory), bound = self
        more_gpu, more_cpu, more_memory = amount
        held = new(Amount, (gpu + times * more_gpu, cpu + times * more_cpu, memory + times * more_memory))
        return new(Account, (held, bound if preemptible else bound.plus(amount, times)))

    def joined(self, other: Account, times: int = 1) -> Account:
        """The account after all of another was added `times`."""
        return new(Account, (self.held.plus(other.held, times), self.bound.plus(other.bound, times)))


EMPTY: Final = Account()


class Level(IntEnum):
    """Whose quota a reason speaks of; its numbers carry it last."""

    PROJECT = 0
    DEPARTMENT = 1


class ModelQuota(NamedTuple):
    """What a queue deserves of one GPU model over all pools, and the most it may hold of it, in 1/7,000 GPU."""

    model: str
    deserved: int
    limit: int | None = None


class UserLimit(NamedTuple):
    """The most that each single user may hold in a project. pool: empty for all together; None: no limit."""

    pool: str = ""
    gpu: int | None = None
    workloads: int | None = None


_W = WaitingReason
LIMITED: Final = frozenset({_W.OVER_LIMIT, _W.NO_WEIGHT, _W.CPU_OVER_LIMIT, _W.MEMORY_OVER_LIMIT})
"""Why a queue may hold no more at all: it may once some of what it holds has been given back."""
_OVER_LIMIT: Final = (_W.OVER_LIMIT, _W.CPU_OVER_LIMIT, _W.MEMORY_OVER_LIMIT)
_NO_WEIGHT: Final = (_W.NO_WEIGHT, _W.CPU_OVER_LIMIT, _W.MEMORY_OVER_LIMIT)
_OVER_QUOTA: Final = (_W.OVER_QUOTA, _W.CPU_OVER_QUOTA, _W.MEMORY_OVER_QUOTA)


def beyond(quota: Quota, account: Account, amount: Amount) -> Amount:
    """By how much the queue would hold more than it may, resource by resource, with `amount` more."""
    lines = zip(quota.lines, account.held, amount, strict=True)
    over = (held + more - line.most if more and line.most is not None else 0 for line, held, more in lines)
    return Amount(*(max(0, each) for each in over))


def verdict(quota: Quota, account: Account, amount: Amount, level: Level, *, preemptible: bool) -> Reason | None:
    """Why `amount` more may not be charged to this queue, or None where it may. What is not asked for is not judged."""
    resources = zip(quota.lines, account.held, account.bound, amount, strict=True)
    for at, (line, held, bound, more) in enumerate(resources):
        if not more:
            continue
        if line.limit is not None and held + more > line.limit:
            return Reason(_OVER_LIMIT[at], (held, line.limit, held + more - line.limit, int(level)))
        most = line.most
        if most is not None and held + more > most:
            return Reason(_NO_WEIGHT[at], (held, most, held + more - most, int(level)))
        if not preemptible and line.deserved is not None and bound + more > line.deserved:
            return Reason(_OVER_QUOTA[at], (bound, line.deserved, bound + more - line.deserved, int(level)))
    return None
