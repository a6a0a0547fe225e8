"""The README and then the guide, command by command in one shell on one fresh stack, as a newcomer types them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from muster_stack.commands import end
from muster_stack.layout import Layout
from tests.support.pages import BIN, Shell, Step, Written, follow, parts
from tests.support.waiting import eventually_now
from verbs.paths import ROOT

_README: Final = re.compile(r"^    (\.venv/bin/muster .*)$", re.MULTILINE)
_ADDRESS: Final = re.compile(r"http://127\.0\.0\.1:(\d+)")


def readme() -> list[Step]:
    """The commands under `Play with it`."""
    return [Step(command) for command in _README.findall((ROOT / "README.md").read_text())]


@contextmanager
def own_shell(folder: Path) -> Iterator[Shell]:
    """A shell whose stack has its data in a folder of its own; the stack ends with the block."""
    try:
        with Shell(folder / "stack") as shell:
            yield shell
    finally:
        end(Layout.of(folder / "stack"))


def typed(shell: Shell, step: Step, known: dict[str, str]) -> None:
    """Types one command of a page. known: what PORT stands for."""
    command = step.command.replace(".venv/bin/", f"{BIN}/").replace("PORT/", f"{known.get('PORT', 'PORT')}/")
    if found := _ADDRESS.search(follow(shell, replace(step, command=command))):
        known["PORT"] = found[1]


def test_the_readme_and_then_the_guide_work_as_they_stand(tmp_path: Path) -> None:
    told = [*readme(), *parts("guide.md")]
    assert sum(isinstance(each, Step) for each in told) > 20
    known: dict[str, str] = {}
    with own_shell(tmp_path) as shell:
        for step in readme():
            typed(shell, step, known)
        (tmp_path / "work").mkdir()
        shell.run(f"cd {tmp_path / 'work'}")
        for each in parts("guide.md"):
            if isinstance(each, Written):
                (tmp_path / "work" / each.name).write_text(each.text)
            else:
                typed(shell, each, known)
        eventually_now(lambda: any("nightly" in line for line in shell.run("muster list nightly")[1]))
