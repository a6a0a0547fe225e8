"""When a workload has to be looked at again, by time alone. Pure: the world keeps the timers.

Called by world.py for each workload that it watches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from muster_kernel.lifecycle import ACTIVE, OVER, WAITING, Phase
from muster_scheduler.domain.asked.limits import FAULT_LIMIT, RETIRE_AFTER, STEADY_AFTER, Limits
from muster_scheduler.domain.asked.refusals import NEVER
from muster_scheduler.domain.asked.workloads import SECOND, Ending, Workload
from muster_scheduler.domain.fleet.clocks import Due

_SOON: Final = 2 * RETIRE_AFTER
_Goes = Callable[[Workload], Due | None]  # when it has to go by time alone, and why


def times_of(workload: Workload, now: int, limits: Limits, due: _Goes) -> Iterator[int]:
    """When it has to be looked at, as far as is known `now`; in microseconds."""
    if workload.phase in WAITING:
        if workload.claim is None and workload.not_before > now:
            yield workload.not_before
    elif workload.phase is Phase.TERMINATING and workload.ending is Ending.RESTART:
        yield workload.not_before
    elif workload.phase in OVER:
        at = delete_at(workload)
        if at and at <= now + _SOON:  # later it has left the memory, and is taken back when it is time
            yield at
    elif workload.phase in ACTIVE:
        yield from _times_of_running(workload, now, limits, due)
    for _, not_before in workload.replacements.values():
        yield not_before
    yield from (until for until in workload.avoid.values() if until < NEVER)


def delete_at(workload: Workload) -> int:
    """When a workload that is over is deleted by itself, in microseconds; 0: never."""
    after = workload.request.auto_deletion if workload.request and workload.phase in OVER else None
    return 0 if after is None else workload.finished + after * SECOND


def grows_again_at(workload: Workload) -> int:
    """When an elastic gang may grow again in spite of its faults in a row, in microseconds; 0: it may grow now."""
    if workload.faults < FAULT_LIMIT or not workload.surplus_wanted:
        return 0
    return max(workload.placed, workload.fault_at) + STEADY_AFTER


def _times_of_running(workload: Workload, now: int, limits: Limits, due: _Goes) -> Iterator[int]:
    goes = due(workload)
    if goes is not None:
        yield goes.at
    if workload.calm_since:
        yield workload.calm_since + limits.grow_after
    if (again := grows_again_at(workload)) > now:
        yield again
    if workload.below_since:
        yield workload.below_since + limits.below_minimum
    if workload.placed + limits.minimum_run > now:
        yield workload.placed + limits.minimum_run
