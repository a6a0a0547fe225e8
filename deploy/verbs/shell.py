"""Runs the commands that a verb is made of.

Called by every verb. Holds: a command that fails ends its verb with that command's own exit code.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from verbs.paths import ROOT


class VerbFailed(Exception):
    """The verb cannot go on. `code` becomes its exit code; an empty text: the command has spoken for itself."""

    def __init__(self, text: str = "", *, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


def say(text: str) -> None:
    """One line to the person who waits."""
    print(f"muster: {text}", file=sys.stderr, flush=True)


def words_of(command: Sequence[str | Path]) -> list[str]:
    """A command as the operating system wants it."""
    return [str(word) for word in command]


def code_of(command: Sequence[str | Path], *, extra: Mapping[str, str] | None = None, cwd: Path = ROOT) -> int:
    """Runs a command in the foreground and answers its exit code, 128 + n where signal n ended it.

    extra: variables on top of this process's own environment.
    """
    sys.stdout.flush()  # what we said comes before what the command says
    done = subprocess.run(words_of(command), cwd=cwd, env={**os.environ, **(extra or {})}, check=False)
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


def run(command: Sequence[str | Path], *, extra: Mapping[str, str] | None = None, cwd: Path = ROOT) -> None:
    """Runs a command in the foreground and ends the verb where it fails."""
    code = code_of(command, extra=extra, cwd=cwd)
    if code != 0:
        raise VerbFailed(f"`{shlex.join(words_of(command)[:5])} ..` ended with {code}", code=code)


def output_of(command: Sequence[str | Path]) -> str:
    """What a command prints; it ends the verb where it fails."""
    done = subprocess.run(words_of(command), cwd=ROOT, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise VerbFailed(f"`{shlex.join(words_of(command)[:5])} ..` ended with {done.returncode}", code=1)
    return done.stdout


def become(command: Sequence[str | Path], *, extra: Mapping[str, str] | None = None) -> NoReturn:
    """Turns this process into the command.

    Its exit code, Ctrl-C and a terminate signal then need nobody to hand them on: a parent that dies first would leave
    a demo behind, and one that waits would have to guess how the demo ended.
    """
    os.chdir(ROOT)
    sys.stdout.flush()
    sys.stderr.flush()
    words = words_of(command)
    os.execve(words[0], words, {**os.environ, **(extra or {})})  # noqa: S606  no shell is what we want here
