"""The start marker: proves that a program was really started, and keeps how it ended.

    python started.py <folder> <program> <arguments>

Writes `<folder>/started` before and `<folder>/exit` after. A launcher that answers 0 without having started anything
on a worker is caught by the missing marker (replicas.md 0.3).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType


def main() -> int:
    """Runs the program; signals are passed on to it."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "started").write_text(str(os.getpid()))
    child: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def pass_on(received: int, _frame: FrameType | None) -> None:
        if child is None:
            early.append(received)  # the program may not be there yet
        else:
            child.send_signal(received)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, pass_on)
    child = subprocess.Popen(sys.argv[2:])
    for received in early:
        child.send_signal(received)
    code = child.wait()
    code = 128 - code if code < 0 else code
    (folder / "exit").write_text(str(code))
    return code


if __name__ == "__main__":
    sys.exit(main())
