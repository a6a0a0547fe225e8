"""Runs the commands that a verb is made of.

Called by every verb. Holds: a command that fails ends its verb with that command's own exit code, and Ctrl-C reaches the command,
which decides itself how to end (the demo has processes to take down first).
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from verbs.paths import ROOT


class VerbFailed(Exception):
    """The verb cannot go on. `code` becomes the exit code; an empty text says that the command has spoken for itself."""

    def __init__(self, text: str = "", *, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


def say(text: str) -> None:
    """One line to the person who waits."""
    print(f"muster: {text}", file=sys.stderr, flush=True)


def code_of(command: Sequence[str | Path], *, extra: Mapping[str, str] | None = None, cwd: Path = ROOT) -> int:
    """Runs a command in the foreground and answers its exit code, 128 + n where signal n ended it.

    extra: variables on top of this process's own environment.
    """
    process = subprocess.Popen([str(part) for part in command], cwd=cwd, env={**os.environ, **(extra or {})})
    while True:
        try:
            code = process.wait()
        except KeyboardInterrupt:
            # The terminal has sent the same signal to the command; killing it now would leave its own children behind.
            continue
        return code if code >= 0 else 128 - code


def run(command: Sequence[str | Path], *, extra: Mapping[str, str] | None = None, cwd: Path = ROOT) -> None:
    """Runs a command in the foreground and ends the verb where it fails."""
    code = code_of(command, extra=extra, cwd=cwd)
    if code in (128 + signal.SIGINT, 128 + signal.SIGTERM):
        raise VerbFailed(code=code)
    if code != 0:
        words = shlex.join(str(part) for part in command[:6])
        raise VerbFailed(f"`{words}{' ..' if len(command) > 6 else ''}` ended with {code}", code=code)  # noqa: PLR2004


def become(command: Sequence[str | Path], *, extra: Mapping[str, str] | None = None) -> int:
    """Runs the verb's main command and answers its exit code; a terminate signal is handed on to it."""
    process = subprocess.Popen([str(part) for part in command], cwd=ROOT, env={**os.environ, **(extra or {})})
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to the command too
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    code = process.wait()
    return code if code >= 0 else 128 - code
