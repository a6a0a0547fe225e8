"""What the logs of Muster's own services must never hold, whatever is killed: tracebacks and the like.

Called by `run.py` when the stack is down. A failure that was foreseen is one line that says what it means; a traceback
is a failure that was not foreseen. Kafka's and PostgreSQL's own logs are theirs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from muster_chassis.settings import Settings

WATCHDOG: Final = "Timeout (0:"
"""An event loop stood still, and its process ended for that."""
WATCHDOG_SECONDS: Final[float] = 0.9 * Settings.model_fields["stall_seconds"].default
"""A process that was stopped for longer may end when it goes on: its clock is set back ten times within its limit."""
NEVER: Final = (
    "Traceback (most recent call last)",
    "was created in a different Context",
    "asynchronous generator is already running",
    "exception was never retrieved",
    "never awaited",
    WATCHDOG,
)
_THEIRS: Final = frozenset({"kafka", "postgres"})
_SHOWN: Final = 300  # characters of a line


def read(folder: Path, stopped: Mapping[str, int] = MappingProxyType({})) -> list[str]:
    """Every complaint in the service logs of a folder, each once, with how often it is there.

    stopped: by service, how often the run itself stopped it for longer than its watchdog waits.
    """
    found: list[str] = []
    for path in sorted(folder.glob("*.log*")):
        service = path.name.partition(".")[0]
        if service not in _THEIRS:
            found += of_lines(path.name, path.read_text(errors="replace").splitlines(), stopped.get(service, 0))
    return found


def of_lines(name: str, lines: Iterable[str], stopped: int = 0) -> list[str]:
    """The same for the lines of one log. stopped: so many words of the watchdog are the run's own doing."""
    found = Counter(_cause(line) for line in lines if any(word in line for word in NEVER))
    for cause in [cause for cause in found if WATCHDOG in cause]:
        found[cause] -= stopped
    return [f"{name}: {cause} ({times} times)" for cause, times in found.items() if times > 0]


def _cause(line: str) -> str:
    """What a line says, with the last line of its traceback."""
    try:
        logged = json.loads(line)
        trace = str(logged.get("exception", "")).strip().splitlines()
        return f"{logged.get('event')}: {trace[-1] if trace else ''}"[:_SHOWN]
    except (ValueError, AttributeError):
        return line[:_SHOWN]
