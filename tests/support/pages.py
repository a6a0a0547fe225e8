"""The commands of a page of the documentation, typed in a shell, and what the page shows of their output.

The commands, the files and the lines are read from the pages themselves. Holds: every command ends well unless the page
shows its errors, and every line that a page shows is printed, in that order.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from verbs.paths import ROOT

BIN: Final = Path(sys.executable).parent
LONGEST: Final = 240.0
"""Seconds that one command may take, on a busy machine."""
_END: Final = "@@ended "
_FILE: Final = re.compile(
    r"`([a-z-]+\.(?:yaml|py))`[^`\n]*:\n\n```(?:yaml|python)\n(.*?)^```", re.DOTALL | re.MULTILINE
)
_CONSOLE: Final = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
_CURL: Final = (
    "curl() { python -c 'import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read().decode())' \"$1\"; }"
)


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a page, with the lines that the page shows after it."""

    command: str
    shown: tuple[str, ...] = ()

    @property
    def fails(self) -> bool:
        """Whether the page shows that nothing was done."""
        return any("nothing was submitted" in line for line in self.shown)


@dataclass(frozen=True, slots=True)
class Written:
    """A file of a page."""

    name: str
    text: str


def parts(page: str) -> list[Step | Written]:
    """The files and commands of a page below `docs`, in order."""
    text = (ROOT / "docs" / page).read_text()
    found: list[tuple[int, list[Step | Written]]] = []
    found += [(each.start(), [Written(each[1], each[2])]) for each in _FILE.finditer(text)]
    found += [(each.start(), [*steps(each[1])]) for each in _CONSOLE.finditer(text)]
    return [each for _, part in sorted(found, key=lambda one: one[0]) for each in part]


def steps(console: str) -> list[Step]:
    """The commands of a block, each with the lines below it."""
    parts = re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]
    return [Step(lines[0], tuple(lines[1:])) for lines in (part.rstrip("\n").split("\n") for part in parts)]


class Shell:
    """A shell that keeps its variables and its folder from one command to the next."""

    def __init__(self, home: Path) -> None:
        surroundings = {**os.environ, "MUSTER_HOME": str(home), "PATH": f"{BIN}:{os.environ['PATH']}", "COLUMNS": "120"}
        for name in ("MUSTER_SERVER", "MUSTER_TOKEN", "MUSTER_PROJECT", "MUSTER_APPLICATION"):
            surroundings.pop(name, None)
        surroundings["XDG_CONFIG_HOME"] = str(home.parent / "config")
        self._process = subprocess.Popen(
            ["/bin/bash", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=surroundings,
            cwd=ROOT,
        )
        if shutil.which("curl") is None:
            self.run(_CURL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self, command: str) -> tuple[int, list[str]]:
        """The exit code and the lines of a command; one that does not end is killed with the shell."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        watchdog = threading.Timer(LONGEST, self._process.kill)
        watchdog.start()
        try:
            self._process.stdin.write(f"{{ {command}\n}} </dev/null\nprintf '\\n{_END}%d\\n' $?\n")
            self._process.stdin.flush()
            lines: list[str] = []
            for line in self._process.stdout:
                if line.startswith(_END):
                    return int(line.removeprefix(_END)), lines
                lines.append(line.rstrip("\n"))
        finally:
            watchdog.cancel()
        raise AssertionError(f"{command}: did not end within {LONGEST:g} s; it said {lines}")


def missing(shown: tuple[str, ...], printed: list[str]) -> str | None:
    """The first line that a page shows and that was not printed after those before it; `...` stands for anything."""
    rest = iter(printed)
    for line in shown:
        pattern = re.compile(".*".join(map(re.escape, line.split("..."))))
        if not any(pattern.fullmatch(each) for each in rest):
            return line
    return None


def follow(shell: Shell, step: Step) -> str:
    """Types one command, and holds its end and its output against the page. Returns what it printed."""
    code, printed = shell.run(step.command)
    said = "\n".join(printed)
    assert (code != 0) is step.fails, f"{step.command}: ended with {code}\n{said}"
    absent = missing(step.shown, printed)
    assert absent is None, f"{step.command}: the page shows {absent!r}, which was not printed:\n{said}"
    return said
