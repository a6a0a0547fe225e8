"""Log files do not grow without end.

Called by house.py and child.py. Everything here writes with O_APPEND, so a file can be emptied under its writer.
Holds: a log and its predecessor together stay below twice the limit plus what is written between two looks.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from itertools import dropwhile
from pathlib import Path
from typing import Final

LIMIT: Final = 32_000_000  # bytes
_END: Final = 16_000  # bytes that are looked at for the last lines
_LINE: Final = 400  # characters
_CAUSES: Final = 20  # lines of one failure
_STALLED: Final = "Timeout ("  # how faulthandler begins
_PAUSE: Final = 60.0  # seconds between two looks


def stood_still(log: Path) -> bool:
    """Whether the process that wrote the log ended itself because its event loop stood still.

    The stacks are then the last that it wrote, below `Timeout (0:00:10)!`: no log line of its own follows.
    """
    written = _end(log).rpartition(_STALLED)
    return bool(written[1]) and not any(line.startswith("{") for line in written[2].splitlines())


def last_lines(log: Path, lines: int = 5) -> str:
    """How a log ends, each line cut to what a terminal can show; empty where there is no such log.

    Of a line that tells of a failure only its cause is shown: cut off, a traceback would show where it began.
    """
    shown = [part for line in _end(log).splitlines()[-lines:] for part in _causes(line)]
    return "\n".join(line[:_LINE] for line in shown[-max(lines, _CAUSES) :])


def _end(log: Path) -> str:
    try:
        with log.open("rb") as content:
            content.seek(max(log.stat().st_size - _END, 0))
            return content.read().decode(errors="replace")
    except OSError:
        return ""


def _causes(line: str) -> list[str]:
    """What a log line says of a failure, below the frames of its traceback; any other line as it is."""
    try:
        trace = json.loads(line).get("exception")
    except (ValueError, AttributeError):
        return [line]
    if not isinstance(trace, str):
        return [line]
    told = trace.rstrip().splitlines()
    frames = [number for number, each in enumerate(told) if each.startswith('  File "')]
    below = told[frames[-1] :] if frames else told
    return list(dropwhile(lambda each: each.startswith("  "), below))[:_CAUSES]


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
