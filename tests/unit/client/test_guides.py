"""The guides tell the truth: their documents are valid, their verbs exist, their exit codes are ours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import muster_language as language
from muster_client.cli.app import build
from muster_client.cli.exits import Exit
from muster_client.cli.triggers import read_trigger

DOCS = Path(__file__).parents[3] / "docs"
GUIDES = ("guide.md", "cli.md")


def blocks(guide: str, kind: str) -> list[str]:
    """The code blocks of a kind."""
    text = (DOCS / guide).read_text()
    return re.findall(rf"^```{kind}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("text", [text for text in blocks("guide.md", "yaml") if "apiVersion" in text])
def test_every_document_is_valid(text: str) -> None:
    (document,) = language.read(text)
    assert not document.violations


def test_the_trigger_is_valid(tmp_path: Path) -> None:
    (text,) = (text for text in blocks("guide.md", "yaml") if "apiVersion" not in text)
    (tmp_path / "trigger.yaml").write_text(text)
    trigger = read_trigger(tmp_path / "trigger.yaml")
    assert (trigger.name, trigger.template, dict(trigger.environment)) == ("on-new-data", "nightly", {"DATASET": "uri"})


def test_the_program_compiles() -> None:
    for text in blocks("guide.md", "python"):
        compile(text, "guide.md", "exec")


def _verbs_told(guide: str) -> set[str]:
    text = (DOCS / guide).read_text()
    told = set(re.findall(r"\$ muster ([a-z-]+)", text))
    table = re.findall(r"^\| `([^|]*)\|", text, flags=re.MULTILINE)
    return told | {word for cell in table for word in re.findall(r"^([a-z][a-z-]+)", cell)}


@pytest.mark.parametrize("guide", GUIDES)
def test_every_verb_exists(guide: str) -> None:
    assert _verbs_told(guide) <= set(build().resolved_commands())


def test_every_verb_is_told() -> None:
    told = (DOCS / "cli.md").read_text()
    for verb in build().resolved_commands():
        assert verb.startswith("-") or f"`{verb}" in told, verb


def test_every_exit_code_is_told() -> None:
    told = {int(code) for code in re.findall(r"^\| ([0-9]+) \|", (DOCS / "cli.md").read_text(), flags=re.MULTILINE)}
    assert told == {int(code) for code in Exit}
