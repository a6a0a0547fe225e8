"""The numbers that the scheduler lives by, in one place. Times are microseconds."""

from __future__ import annotations

from typing import Final, NamedTuple

from muster_scheduler.domain.asked.workloads import SECOND

FAULT_LIMIT: Final = 10  # restarts after infrastructure faults in a row
STEADY_AFTER: Final = 3600 * SECOND  # so long a run begins a new row; longer than a dead node is waited for (900 s)
SAME_FAULT: Final = 60 * SECOND  # a node takes several replicas with it: what it ends within this is one fault
START_WINDOW: Final = 600 * SECOND  # how long starts may fail of a workload that never ran
BACKOFF_FIRST: Final = 10 * SECOND
BACKOFF_LONGEST: Final = 360 * SECOND
HEALTHY_AFTER: Final = 600 * SECOND  # a replica that ran so long has left its earlier failures behind
SETTLED_AFTER: Final = 60 * SECOND  # one that ran so long and was then taken down is replaced at once
RESIZED_WITHIN: Final = 60 * SECOND  # a failure so soon after an elastic gang was resized is taken for its consequence
KEEP_DEVICES: Final = 30 * SECOND  # a restart within this keeps its devices
WAITING_EVERY: Final = 60 * SECOND  # at most one WorkloadWaiting a workload in this time
RETIRE_AFTER: Final = 300 * SECOND  # what is over leaves the memory this long after it ended
RETIRE_AT_ONCE: Final = 2000  # at most so many in one transaction
ORPHAN_AFTER: Final = 3600 * SECOND  # a held assignment without a row is released after this
INCOMPLETE_AFTER: Final = 60 * SECOND  # an agent sends the parts of a report within seconds


class Limits(NamedTuple):
    """What settings may change."""

    stale_after: int = 30 * SECOND
    silent_after: int = 50 * SECOND
    grace: int = 30  # seconds between SIGTERM and SIGKILL
    minimum_run: int = 0  # how long preemptible work runs at least before it may be asked to leave
    usage_weight: int = 0  # how much past use counts against a queue's weight, in thousandths; 0: not at all
    usage_half_life: int = 24 * 3600 * SECOND  # in this time past use loses half of what it counts
    reserves: bool = True  # whether nodes are kept for the first blocked head of a pool
    grow_after: int = 30 * SECOND  # elastic gangs grow once nobody has waited for room in their pool for so long
    below_minimum: int = 60 * SECOND  # a gang that lacks replicas for so long gives up those that it has
    version: str = ""  # of this software; empty: agents of any version get work


def backoff(restarts: int) -> int:
    """The pause before restart number `restarts` (from 1): 10 s, doubling, at most 6 min."""
    return min(BACKOFF_LONGEST, BACKOFF_FIRST << min(restarts - 1, 10)) if restarts > 0 else 0
