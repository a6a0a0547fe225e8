"""Log files do not grow without end.

Called by house.py. Everything here writes with O_APPEND, so a file can be emptied under its writer.
Holds: a log and its predecessor together stay below twice the limit plus what is written between two looks.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Final

LIMIT: Final = 32_000_000  # bytes
_PAUSE: Final = 60.0  # seconds between two looks


async def keep_short(folder: Path) -> None:
    """The eternal task: looks at every log of the folder once a minute."""
    while True:
        await asyncio.to_thread(shorten, folder)
        await asyncio.sleep(_PAUSE)


def shorten(folder: Path, limit: int = LIMIT) -> None:
    """Moves the content of every log above the limit to `<name>.1`; lines written meanwhile may be lost."""
    for log in folder.glob("*.log"):
        if log.stat().st_size > limit:
            shutil.copyfile(log, log.with_name(f"{log.name}.1"))
            os.truncate(log, 0)
