"""What one replica may use at most, and how people read that it wanted more.

Called by the local back end when it writes a replica down and when it reads how one ended. Pure.
Holds: what the workload says wins over the cluster's default; a request is never above its own limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from muster_kernel.quantities import format_bytes

_PROCESSES_A_CORE: Final = 256
_FEWEST_PROCESSES: Final = 512
_MOST_PROCESSES: Final = 4096
RESERVE: Final = 2 << 30
_CPU_SHARES: Final = 1024  # what the kernel's first version gives a whole core


class Spent(StrEnum):
    """Which budget a replica used up; the journal and the stop file carry these words."""

    MEMORY = "memory"
    MACHINE_MEMORY = "machine-memory"
    PROCESSES = "processes"
    FILE = "file"
    DISK = "disk"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a workload says of its CPU (thousandths of a core) and memory (bytes); 0 where it says nothing."""

    cpu: int = 0
    cpu_limit: int = 0
    memory: int = 0
    memory_limit: int = 0


def processes_of(cores: int) -> int:
    """Return how many processes and threads a replica may have where its cluster says nothing.

    Libraries start a thread for each core, so it grows with the machine: 256 a core, within 512 and 4,096. What a fork
    bomb costs the others of a machine grows with it too.
    """
    return min(_MOST_PROCESSES, max(_FEWEST_PROCESSES, _PROCESSES_A_CORE * cores))


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a cluster file says of replicas whose workloads say nothing. Bytes; processes counts threads too.

    memory 0: half of what the replicas of the machine may use together. disk 0: not limited. disk_reserve: free space
    of the state folder's file system below which nothing is started.
    """

    memory: int = 0
    processes: int = _FEWEST_PROCESSES
    disk: int = 0
    disk_reserve: int = RESERVE


@dataclass(frozen=True, slots=True)
class Budget:
    """What one replica may use at most: bytes of memory and disk, processes with their threads; 0: not limited.

    cpu_shares: its weight among the replicas of the machine, 1024 a core. cpu_limit: thousandths of a core.
    """

    memory: int
    processes: int
    disk: int
    cpu_shares: int
    cpu_limit: int


def budget_of(said: Limits, defaults: Defaults, machine: int) -> Budget:
    """Return the budget of a replica. machine: bytes of memory that all replicas of the machine may use together.

    A request for more memory than the default raises the limit to the request: what was promised may be used.
    """
    default = defaults.memory or machine // 2
    return Budget(
        memory=said.memory_limit or max(said.memory, default),
        processes=defaults.processes,
        disk=defaults.disk,
        cpu_shares=max(2, (said.cpu or said.cpu_limit or 1000) * _CPU_SHARES // 1000),
        cpu_limit=said.cpu_limit,
    )


def spent_sentence(spent: Spent, limit: int) -> str:
    """Return what people read of a replica that wanted more. limit: bytes or processes; 0 where it is not known."""
    match spent:
        case Spent.MEMORY:
            return f"used more memory than its limit of {format_bytes(limit)} (memoryLimit raises it)"
        case Spent.MACHINE_MEMORY:
            return "was ended because the replicas of its machine together used more memory than they may"
        case Spent.PROCESSES:
            return f"wanted more processes and threads than its limit of {limit} (budgets.processes of the cluster)"
        case Spent.FILE:
            return f"wrote a file larger than its limit of {format_bytes(limit)} (budgets.disk of the cluster)"
        case Spent.DISK:
            return f"used more disk than its limit of {format_bytes(limit)} (budgets.disk of the cluster)"


def pressed_sentence(size: int, short: str) -> str:
    """Return what people read of a workload that had the largest folder when the disk was nearly full."""
    return f"used the most disk, {format_bytes(size // (1 << 20) * (1 << 20))}, when {short}"
