"""Whether the disk on which everything accepted is kept has its reserve.

Asked before a workload is made (`handlers/submit.py`), before events are taken (`stream.py`) and before they are fired
(`handlers/lanes.py`). Holds: the file system is looked at once a second at most, so
that a flood of submissions costs no more than one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from muster_kernel.quantities import format_bytes
from muster_submission.errors import DiskReserveSpent

_LOOK_SECONDS: Final = 1.0
_MIB: Final = 1 << 20


class DiskReserve:
    """The reserve of one folder's file system, in bytes; without a folder there is nothing to ask."""

    def __init__(self, folder: Path | None, reserve: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._reserve = reserve
        self._clock = clock
        self._again = clock()
        self._free = reserve

    def check(self) -> None:
        """Raises DiskReserveSpent where less than the reserve is free."""
        if self._folder is None:
            return
        if self._clock() >= self._again:
            self._again = self._clock() + _LOOK_SECONDS
            found = os.statvfs(self._folder)
            self._free = found.f_bavail * found.f_frsize
        if self._free < self._reserve:
            left = format_bytes(self._free // _MIB * _MIB)
            raise DiskReserveSpent(
                f"no workload is accepted: the disk of the control plane has {left} free, less than its reserve of "
                f"{format_bytes(self._reserve)} (MUSTER_DISK_RESERVE). Reading and deleting go on; free disk space, "
                "or ask the operator of Muster to"
            )
