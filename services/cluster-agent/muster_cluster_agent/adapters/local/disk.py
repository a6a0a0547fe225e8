"""The disk under a state folder: whether its reserve is left, and which workload has used too much of it.

Used by the local back end, once a second. Blocks. Holds: below the reserve nothing is started; below half of it the
workload with the largest working folder is ended, and the next one where that was not enough, so that the servers of
the machine, which keep their truth on the same disk, go on.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from muster_cluster_agent.adapters.local import procfs
from muster_cluster_agent.adapters.local.counting import Count, add_folder, add_unnamed
from muster_kernel.quantities import format_bytes

ENTRIES: Final = 1_000_000  # of one workload that are counted: some seconds of one thread
_BACK: Final = 1.1  # of the reserve has to be free before anything is started again: else it would flap
_MIB: Final = 1 << 20


class Disk:
    """The file system of one folder."""

    def __init__(self, folder: Path) -> None:
        """Nothing is known yet: enough is free."""
        self._folder = folder
        self.free = 0
        self.short = ""

    def look(self, reserve: int) -> bool:
        """Look at what is free; whether `short` has changed. short: why nothing is started; empty: it is."""
        found = os.statvfs(self._folder)
        self.free = found.f_bavail * found.f_frsize
        before = bool(self.short)
        needed = reserve * _BACK if before else reserve
        self.short = ""
        if self.free < needed:
            left = format_bytes(self.free // _MIB * _MIB)
            self.short = f"the disk has {left} free, less than its reserve of {format_bytes(reserve)}"
        return before != bool(self.short)

    def critical(self, reserve: int) -> bool:
        """Whether the servers of the machine are in danger."""
        return bool(self.short) and self.free < reserve // 2


def used(folder: Path, pids: Iterable[int] = ()) -> Count:
    """What a folder holds on the disk, and what these processes keep of it in files without a name."""
    count = Count(left=ENTRIES)
    add_folder(count, folder)
    add_unnamed(count, pids)
    return count


def too_large(
    folders: Mapping[str, Path],
    budget: int,
    *,
    critical: bool,
    supervisors: Mapping[str, Sequence[int]] | None = None,
) -> Iterable[tuple[str, int]]:
    """Which workloads have to end, with the bytes that they use: all above the budget, else the largest in need.

    folders: the working folder of each workload that runs. supervisors: their process ids. budget 0: none. In need, a
    workload with more entries than are counted is the largest: one that hides from the count must not cost another.
    """
    processes = procfs.families(supervisors or {})
    counts = {workload: used(folder, processes.get(workload, ())) for workload, folder in folders.items()}
    above = [(workload, count.bytes) for workload, count in counts.items() if budget and count.bytes > budget]
    if above or not critical or not counts:
        return above
    workload, count = max(counts.items(), key=lambda each: (each[1].left == 0, each[1].bytes))
    return [(workload, count.bytes)]
