"""The page about policies tells the truth: its files are read and its commands answer as it shows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster_client.cli.app import build
from muster_policy_engine.documents.rules import WORDS
from tests.support.plane_world import World
from tests.unit.client.conftest import Command

PAGE = (Path(__file__).parents[3] / "docs" / "policies.md").read_text()
_FILE = re.compile(r"^`([\w./-]+\.yaml)`[^\n]*:\n\n```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)
_SESSION = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)


def steps() -> Iterator[tuple[str, str]]:
    """What the page does, in its order: a file with its text, or a command (after a `$`) with its output."""
    found = [(one.start(), one[1], one[2]) for one in _FILE.finditer(PAGE)]
    for session in _SESSION.finditer(PAGE):
        for number, part in enumerate(re.split(r"^\$ muster ", session[1], flags=re.MULTILINE)[1:]):
            command, _, output = part.partition("\n")
            found.append((session.start() + number, f"$ {command}", output))
    for _, what, text in sorted(found):
        yield what, text


def test_every_file_and_every_command_of_the_page(
    muster: Command, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policies").mkdir()
    commands = 0
    for what, text in steps():
        if not what.startswith("$ "):
            (tmp_path / what).write_text(text)
            continue
        ran = muster(*shlex.split(what.removeprefix("$ ")))
        assert ran.out + ran.err == text, what
        commands += 1
    assert commands == len(re.findall(r"^\$ ", PAGE, flags=re.MULTILINE)) > 5
    assert {each.source for each in world.shelf.policies.values()} == {"git"}


def test_every_rule_and_every_verb_is_told() -> None:
    told = set(re.findall(r"`(\w+)[`:]", PAGE))
    assert set(WORDS) <= told
    verbs = {word for cell in re.findall(r"^\| `([a-z]+) ?[^|]*\|", PAGE, re.MULTILINE) for word in [cell]}
    listed = {verb for verb in build()["policies"].resolved_commands() if not verb.startswith("-")}
    assert listed <= verbs
