"""The priority of a process that may take all idle time, and little of what a service wants.

Called by such a process when it starts. Standard library only: a child process that lives for one task imports it.
"""

from __future__ import annotations

import contextlib
import os
from typing import Final

_NICE: Final = 10


def lower() -> None:
    """Lowers the priority of this process and gives it a session of its own.

    Where the kernel groups processes by session (sched(7), autogroup), `nice` counts within a session only, and a
    session has a priority of its own.
    """
    os.nice(_NICE)
    # Without a session of its own the priority would be that of its parent too: no session, no priority.
    with contextlib.suppress(OSError):
        os.setsid()
        with open("/proc/self/autogroup", "w", encoding="ascii") as group:  # noqa: PTH123 - a file of the kernel
            group.write(str(_NICE))
