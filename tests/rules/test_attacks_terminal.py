"""A10: the same text controls the terminal where the client prints it as it came.

Each test reads hostile text by the command twice: as it is, and with the one function of the client that makes text
printable replaced by one that changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from muster_client.cli import output, printable
from muster_client.cli.app import run
from muster_client.cli.render import describe, logs
from muster_cluster_agent.domain import torch_record
from tests.attacks.rows.a10_terminals import FORGED_ROWS
from tests.support.control_plane import control_plane
from tests.support.hostile_text import CLEAR, OVERWRITE, REVERSED, TITLE, harm_in
from tests.support.plane_world import World

HOSTILE = f"{TITLE}{CLEAR}{REVERSED}{OVERWRITE}"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with control_plane() as (server, world):
        monkeypatch.setenv("MUSTER_SERVER", server)
        monkeypatch.delenv("MUSTER_TOKEN", raising=False)
        yield world


def as_it_came(text: str) -> str:
    return text


def test_a_log_controls_the_terminal_of_a_client_that_passes_it_on(
    world: World, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    world.add("bert")
    world.log = [("worker-0", HOSTILE.encode())]
    assert run(["logs", "bert"]) == 0
    assert not harm_in(capfd.readouterr().out)
    monkeypatch.setattr(logs, "coloured_line", as_it_came)
    assert run(["logs", "bert"]) == 0
    assert "\x1b" in harm_in(capfd.readouterr().out)


def test_names_control_the_terminal_of_a_client_that_prints_them(
    world: World, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    world.add("bert", cluster=HOSTILE, reason={"message": HOSTILE})
    path, field = tmp_path / "document.yaml", HOSTILE.encode("unicode_escape").decode()
    path.write_text(f'apiVersion: run.ai/v2alpha1\nkind: TrainingWorkload\nspec:\n  "{field}": 1\n')
    commands = (["list"], ["describe", "bert"], ["why", "nobody"], ["validate", str(path)])
    for words in commands:
        run(words)
    seen = capfd.readouterr()
    assert "evil" in seen.out
    assert "evil" in seen.err
    assert not harm_in(seen.out + seen.err)
    monkeypatch.setattr(output, "printable", as_it_came)
    monkeypatch.setattr(printable, "_is_harmful", lambda _: False)
    for words in commands:
        run(words)
    seen = capfd.readouterr()
    assert "\x1b" in harm_in(seen.out)
    assert "\u202e" in harm_in(seen.err)


def test_a_reason_forges_rows_where_its_lines_are_kept(
    world: World, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    record = {"ok": False, "error": f"x{FORGED_ROWS}"}
    assert "\n" not in torch_record.failure_in(record)
    monkeypatch.setattr(torch_record, "plain_line", as_it_came)
    world.add("bert", reason={"message": torch_record.failure_in(record)})
    assert run(["describe", "bert"]) == 0
    assert "\n  Owner     admin (system-admin)" not in capfd.readouterr().out
    monkeypatch.setattr(describe, "hanging", lambda text, _: text)
    assert run(["describe", "bert"]) == 0
    assert "\n  Owner     admin (system-admin)" in capfd.readouterr().out
