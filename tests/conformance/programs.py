"""What replicas of cases run: commands that a shell understands, and that a played kubelet knows by their text.

On this machine a command leaves files beside its workload's data, named after its replica.
"""

from __future__ import annotations

from typing import Final

SIGNALS: Final = {"HUP": 1, "INT": 2, "ABRT": 6, "KILL": 9, "SEGV": 11, "TERM": 15}
SUCCEEDS: Final = "true"
MISSING: Final = "/no/such/program"
_FILE: Final = '"$MUSTER_WORKLOAD_DIR/$MUSTER_REPLICA"'
_COUNTED: Final = f"echo >> {_FILE}.starts"
WAITS: Final = f"sh -c '{_COUNTED}; mkfifo {_FILE} && read -r code < {_FILE} && exit \"$code\"'"
"""Goes on until its case says with what it ends."""
LISTENS: Final = "python3 -m http.server ${PORT}"
POLITE: Final = f"sh -c '{_COUNTED}; trap \"exit 0\" TERM; : > {_FILE}.up; sleep 1000 & wait'"
STUBBORN: Final = f"sh -c '{_COUNTED}; trap \"\" TERM; : > {_FILE}.up; while :; do sleep 1000; done'"
TELLS: Final = f"sh -c '{_COUNTED}; env -0 > {_FILE}.env'"
"""Writes down its environment."""


def ends(code: int) -> str:
    """Ends with a code."""
    return f"sh -c '{_COUNTED}; exit {code}'"


def dies(signal: str) -> str:
    """Ends by a signal of its own."""
    return f"bash -c '{_COUNTED}; kill -{signal} $BASHPID'"  # the kubelet reads two dollars as one


def is_counted(command: str) -> bool:
    """Whether each start of a program leaves a trace."""
    return _COUNTED in command
