"""`muster reset`: what it deletes, and when it does not."""

from __future__ import annotations

import fcntl
import io
import subprocess
from pathlib import Path

import pytest

from muster_stack.layout import Layout
from muster_stack.reset import reset
from tests.support.folders import deep_folders


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    made = Layout.of(tmp_path / "stack")
    made.make()
    for name in ("lock", "stack.json", "clusters/north.yaml", "kafka/log", "secrets.json"):
        (made.root / name).write_text("x")
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    return made


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_data_goes_and_what_a_person_wrote_stays(layout: Layout) -> None:
    assert reset(data=layout.root, yes=True) == 0
    assert _names(layout.root) == {"lock", "clusters"}
    assert layout.clusters.joinpath("north.yaml").exists()


def test_all_of_it(layout: Layout) -> None:
    assert reset(data=layout.root, yes=True, everything=True) == 0
    assert _names(layout.root) == {"lock"}


def test_folders_deeper_than_python_recurses_go(layout: Layout, tmp_path: Path) -> None:
    deep_folders(layout.root / "agents", 1_100)
    try:
        assert reset(data=layout.root, yes=True) == 0
        assert not (layout.root / "agents").exists()
    finally:  # pytest removes its folders by recursion, which what a failed test leaves here would end
        subprocess.run(["/bin/rm", "-rf", str(tmp_path / "stack")], check=True)


def test_it_asks_first(layout: Layout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    before = _names(layout.root)
    assert reset(data=layout.root) == 1
    assert "--yes" in capsys.readouterr().err

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal("no\n"))
    assert reset(data=layout.root) == 1
    assert _names(layout.root) == before
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert reset(data=layout.root) == 0
    assert _names(layout.root) < before


def test_a_stack_that_runs_is_left_alone(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    before = _names(layout.root)
    with layout.lock.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert reset(data=layout.root, yes=True) == 1
    assert "`muster down` first" in capsys.readouterr().err
    assert _names(layout.root) == before


def test_another_folder_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    assert reset(data=tmp_path, yes=True) == 1
    assert "no stack has its data" in capsys.readouterr().err
    assert (tmp_path / "thesis.tex").exists()


def test_a_stack_that_was_restored_and_never_started_is_one(tmp_path: Path) -> None:
    layout = Layout.of(tmp_path / "restored")
    layout.make()
    layout.lock.touch()
    layout.kafka.rmdir()
    layout.postgres.mkdir()
    assert reset(data=layout.root, yes=True) == 0
    assert _names(layout.root) == {"lock", "clusters"}


def test_a_link_is_deleted_and_not_followed(layout: Layout, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine").write_text("x")
    (layout.root / "postgres").symlink_to(elsewhere)
    assert reset(data=layout.root, yes=True) == 0
    assert (elsewhere / "mine").exists()
