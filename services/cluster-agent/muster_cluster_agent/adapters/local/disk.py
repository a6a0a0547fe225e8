"""The disk under a state folder: whether its reserve is left, and which workload has used too much of it.

Used by the local back end, once a second. Blocks. Holds: below the reserve nothing is started; below half of it the
workload with the largest working folder is ended, and the next one where that was not enough, so that the servers of
the machine, which keep their truth on the same disk, go on.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from muster_kernel.quantities import format_bytes

ENTRIES: Final = 200_000  # of one working folder that are counted; what lies beyond them is not seen
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


def used(folder: Path) -> int:
    """Bytes on the disk of a folder, its links not followed; a folder that goes meanwhile counts as far as it went."""
    total, left, open_ones = 0, ENTRIES, [str(folder)]
    while open_ones and left > 0:
        try:
            with os.scandir(open_ones.pop()) as entries:
                for entry in entries:
                    left -= 1
                    if left <= 0:
                        break
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        open_ones.append(entry.path)
        except OSError:
            continue
    return total


def too_large(folders: Mapping[str, Path], budget: int, *, critical: bool) -> Iterable[tuple[str, int]]:
    """Which workloads have to end, with the bytes that they use: all above the budget, else the largest in need.

    folders: the working folder of each workload that runs. budget 0: none.
    """
    sizes = {workload: used(folder) for workload, folder in folders.items()}
    above = [(workload, size) for workload, size in sizes.items() if budget and size > budget]
    if above or not critical or not sizes:
        return above
    return [max(sizes.items(), key=lambda each: each[1])]
