"""Links that a replica plants for the next one of its run: the root that starts it is led nowhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from muster_cluster_agent.adapters.local import journal, logfile
from tests.integration.agent.test_confined_replicas import needs_landlock, needs_root, supervised

UID = 61_234
SHOW = ["/bin/sh", "-c", "cat /tmp/secret; pwd; cat secret"]


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of root with a file that any user may read, and that no grant names."""
    folder = tmp_path / "outside"
    folder.mkdir(mode=0o755)
    (folder / "secret").write_text("private\n")
    return folder


def own(folder: Path) -> Path:
    """The folder in which the replica may write."""
    made = folder / "own"
    made.mkdir()
    os.chown(made, UID, UID)
    return made


def refused(folder: Path) -> str:
    """Why the replica was not run; it printed nothing of its own."""
    lines = {line["event"]: line for line in journal.read(str(folder))}
    assert lines["exited"]["code"] == 126
    assert "private" not in logfile.tail(str(folder / "log"), 4096).decode()
    return str(lines["refused"]["reason"])


@needs_root
@needs_landlock
def test_a_tmp_that_was_exchanged_for_a_link_is_not_mounted(tmp_path: Path, outside: Path) -> None:
    (own(tmp_path) / "tmp").symlink_to(outside)
    supervised(tmp_path, SHOW, UID, tmp="tmp").wait(timeout=30)
    assert "could not be confined: Too many levels of symbolic links" in refused(tmp_path)


@needs_root
@needs_landlock
def test_a_tmp_of_another_user_is_not_mounted(tmp_path: Path) -> None:
    (own(tmp_path) / "tmp").mkdir()
    supervised(tmp_path, SHOW, UID, tmp="tmp").wait(timeout=30)
    assert f"own/tmp is not a folder of user {UID}, but of user 0" in refused(tmp_path)


@needs_root
@needs_landlock
def test_root_makes_nothing_across_a_link_in_the_tmp_of_a_replica(tmp_path: Path, outside: Path) -> None:
    """A stack below /tmp appears in the replica's own /tmp, where another replica may have been first."""
    top = tmp_path.resolve().parts[1:]
    if top[0] != "tmp":
        pytest.skip("the folder of this test lies not below /tmp")
    (own(tmp_path) / top[1]).symlink_to(outside)
    supervised(tmp_path, SHOW, UID).wait(timeout=30)
    assert "could not be confined" in refused(tmp_path)
    assert [path.name for path in outside.iterdir()] == ["secret"]


@needs_landlock
@pytest.mark.parametrize("uid", [None, pytest.param(UID, marks=needs_root)])
def test_a_command_does_not_start_in_a_folder_across_a_link(tmp_path: Path, outside: Path, uid: int | None) -> None:
    (own(tmp_path) / "work").symlink_to(outside)
    supervised(tmp_path, SHOW, uid, cwd="work").wait(timeout=30)
    assert f"{tmp_path}/own/work: Too many levels of symbolic links" in refused(tmp_path)
