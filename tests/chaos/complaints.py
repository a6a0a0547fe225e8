"""What the logs of Muster's own services must never hold, whatever is killed: tracebacks and the like.

Called by `run.py` when the stack is down. A failure that was foreseen is one line that says what it means; a traceback
is a failure that was not foreseen. Kafka's and PostgreSQL's own logs are theirs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

NEVER: Final = (
    "Traceback (most recent call last)",
    "was created in a different Context",
    "asynchronous generator is already running",
    "exception was never retrieved",
    "never awaited",
    "Timeout (0:",  # the watchdog: an event loop stood still
)
_THEIRS: Final = frozenset({"kafka", "postgres"})
_SHOWN: Final = 300  # characters of a line


def read(folder: Path) -> list[str]:
    """Every complaint in the service logs of a folder, each once, with how often it is there."""
    logs = sorted(path for path in folder.glob("*.log*") if path.name.partition(".")[0] not in _THEIRS)
    return [found for path in logs for found in of_lines(path.name, path.read_text(errors="replace").splitlines())]


def of_lines(name: str, lines: Iterable[str]) -> list[str]:
    """The same for the lines of one log."""
    found = Counter(_cause(line) for line in lines if any(word in line for word in NEVER))
    return [f"{name}: {cause} ({times} times)" for cause, times in found.items()]


def _cause(line: str) -> str:
    """What a line says, with the last line of its traceback."""
    try:
        logged = json.loads(line)
        trace = str(logged.get("exception", "")).strip().splitlines()
        return f"{logged.get('event')}: {trace[-1] if trace else ''}"[:_SHOWN]
    except (ValueError, AttributeError):
        return line[:_SHOWN]
