"""What the verbs of a stack refuse before they touch it."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster_client.errors import InvalidInput
from muster_stack.backup import backup
from muster_stack.commands import _needs_tokens, _tell_instances, up
from muster_stack.export import export
from muster_stack.keeper.state import Options, State
from muster_stack.layout import Layout


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout.of(tmp_path / "stack")
    made.make()
    return made


def _started_with(layout: Layout, options: Options) -> None:
    state = State.load(layout)
    state.options = options
    state.write(())


def test_a_stack_that_needed_tokens_is_not_opened_by_an_option_left_out(
    layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not _needs_tokens(layout, auth=None)
    _started_with(layout, Options(auth=True))
    assert up(data=layout.root, detach=True) == 1
    assert "say --auth, or --no-auth" in capsys.readouterr().err
    assert _needs_tokens(layout, auth=True)
    assert not _needs_tokens(layout, auth=False)


def test_a_start_with_fewer_instances_says_what_there_was(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    _started_with(layout, Options(instances={"submission": 2}))
    _tell_instances(layout, "submission=3")
    assert not capsys.readouterr().err
    _tell_instances(layout, "")
    assert "the last start used --instances submission=2" in capsys.readouterr().err


def test_an_export_says_what_is_wrong_with_its_file(
    layout: Layout, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file, why in (
        (tmp_path, "is a folder: name a file"),
        (tmp_path / "no" / "x.parquet", f"there is no folder {tmp_path / 'no'}: make it"),
        (tmp_path / "x.parquet", "does not answer: `muster up -d` first"),
    ):
        assert export(file, data=layout.root) == 1
        assert why in capsys.readouterr().err
    with pytest.raises(InvalidInput, match="--before 9x"):
        export(tmp_path / "x.parquet", data=layout.root, before="9x")


def test_a_backup_needs_a_stack_that_runs_and_a_new_folder(
    layout: Layout, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder, why in (
        (tmp_path, f"{tmp_path} exists: name a folder that does not"),
        (tmp_path / "backup", "does not answer: `muster up -d` first"),
    ):
        assert backup(folder, data=layout.root) == 1
        assert why in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["stack"]
