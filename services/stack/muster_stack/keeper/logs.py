"""Log files do not grow without end.

Called by house.py and child.py. Everything here writes with O_APPEND, so a file can be emptied under its writer.
Holds: a log and its predecessor together stay below twice the limit plus what is written between two looks.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Final

LIMIT: Final = 32_000_000  # bytes
_END: Final = 16_000  # bytes that are looked at for the last lines
_LINE: Final = 400  # characters
_PAUSE: Final = 60.0  # seconds between two looks


def last_lines(log: Path, lines: int = 5) -> str:
    """How a log ends, each line cut to what a terminal can show; empty where there is no such log."""
    try:
        with log.open("rb") as content:
            content.seek(max(log.stat().st_size - _END, 0))
            end = content.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(line[:_LINE] for line in end.splitlines()[-lines:])


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
