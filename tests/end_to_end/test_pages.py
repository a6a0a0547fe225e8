"""The README and then the guide, command by command in one shell on one fresh stack, as a newcomer types them.

The commands, the files and what is shown of their output are read from the pages themselves. Holds: every command ends
well unless the page shows its errors, and every line that a page shows is printed, in that order.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from muster_stack.commands import end
from muster_stack.layout import Layout
from tests.support.waiting import eventually_now
from verbs.paths import ROOT

BIN: Final = Path(sys.executable).parent
LONGEST: Final = 240.0
"""Seconds that one command may take, on a busy machine."""
_END: Final = "@@ended "
_FILE: Final = re.compile(
    r"`([a-z-]+\.(?:yaml|py))`[^`\n]*:\n\n```(?:yaml|python)\n(.*?)^```", re.DOTALL | re.MULTILINE
)
_CONSOLE: Final = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
_README: Final = re.compile(r"^    (\.venv/bin/muster .*)$", re.MULTILINE)
_ADDRESS: Final = re.compile(r"http://127\.0\.0\.1:(\d+)")
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


def readme() -> list[Step]:
    """The commands under `Play with it`."""
    return [Step(command) for command in _README.findall((ROOT / "README.md").read_text())]


def guide() -> list[Step | Written]:
    """The files and commands of the guide, in order."""
    text = (ROOT / "docs" / "guide.md").read_text()
    parts: list[tuple[int, list[Step | Written]]] = []
    parts += [(found.start(), [Written(found[1], found[2])]) for found in _FILE.finditer(text)]
    parts += [(found.start(), [*steps(found[1])]) for found in _CONSOLE.finditer(text)]
    return [each for _, part in sorted(parts, key=lambda one: one[0]) for each in part]


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


@contextmanager
def own_shell(folder: Path) -> Iterator[Shell]:
    """A shell whose stack has its data in a folder of its own; the stack ends with the block."""
    try:
        with Shell(folder / "stack") as shell:
            yield shell
    finally:
        end(Layout.of(folder / "stack"))


def missing(shown: tuple[str, ...], printed: list[str]) -> str | None:
    """The first line that a page shows and that was not printed after those before it; `...` stands for anything."""
    rest = iter(printed)
    for line in shown:
        pattern = re.compile(".*".join(map(re.escape, line.split("..."))))
        if not any(pattern.fullmatch(each) for each in rest):
            return line
    return None


def follow(shell: Shell, step: Step, known: dict[str, str]) -> None:
    """Types one command and holds its end and its output against the page. known: what PORT stands for."""
    command = step.command.replace(".venv/bin/", f"{BIN}/").replace("PORT/", f"{known.get('PORT', 'PORT')}/")
    code, printed = shell.run(command)
    said = "\n".join(printed)
    assert (code != 0) is step.fails, f"{command}: ended with {code}\n{said}"
    absent = missing(step.shown, printed)
    assert absent is None, f"{command}: the page shows {absent!r}, which was not printed:\n{said}"
    if found := _ADDRESS.search(said):
        known["PORT"] = found[1]


def test_the_readme_and_then_the_guide_work_as_they_stand(tmp_path: Path) -> None:
    told = [*readme(), *guide()]
    assert sum(isinstance(each, Step) for each in told) > 20
    known: dict[str, str] = {}
    with own_shell(tmp_path) as shell:
        for step in readme():
            follow(shell, step, known)
        (tmp_path / "work").mkdir()
        shell.run(f"cd {tmp_path / 'work'}")
        for each in guide():
            if isinstance(each, Written):
                (tmp_path / "work" / each.name).write_text(each.text)
            else:
                follow(shell, each, known)
        eventually_now(lambda: any("nightly" in line for line in shell.run("muster list nightly")[1]))
