"""What is free on the disk, and whose working folder has to go first."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from muster_cluster_agent.adapters.local import counting, disk, procfs
from muster_cluster_agent.adapters.local.disk import Disk, too_large, used
from muster_cluster_agent.adapters.local.trees import Remover
from tests.support.folders import deep_folders


def test_a_disk_is_short_below_its_reserve_until_a_tenth_more_is_free(tmp_path: Path) -> None:
    here = Disk(tmp_path)
    assert (here.look(0), here.short) == (False, "")
    free = here.free
    assert here.look(free * 4)
    assert "less than its reserve of" in here.short
    assert here.critical(free * 4)
    assert not here.critical(1)
    assert not here.look(int(free * 0.95)), "what is free now is no tenth more than that"
    assert (here.look(free // 4), here.short) == (True, "")


def test_folders_are_counted_with_what_is_in_them_and_not_behind_links(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "file").write_bytes(b"x" * (1 << 20))
    (inner / "link").symlink_to("/")
    assert 1 << 20 <= used(tmp_path / "a").bytes < 3 << 20
    assert used(tmp_path / "none").bytes == 0


def test_only_so_many_entries_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        (tmp_path / str(number)).write_bytes(b"x" * 4096)
    monkeypatch.setattr(disk, "ENTRIES", 10)
    assert used(tmp_path).bytes <= 10 * 8192
    assert used(tmp_path).left == 0


def test_who_is_above_the_budget_goes_and_in_need_the_largest(tmp_path: Path) -> None:
    folders = {}
    for name, size in (("small", 1 << 20), ("large", 3 << 20)):
        folders[name] = tmp_path / name
        folders[name].mkdir()
        (folders[name] / "file").write_bytes(b"x" * size)

    def named(found: Iterable[tuple[str, int]]) -> list[str]:
        return [name for name, _ in found]

    assert named(too_large(folders, 2 << 20, critical=False)) == ["large"]
    assert named(too_large(folders, 0, critical=False)) == []
    assert named(too_large(folders, 0, critical=True)) == ["large"]
    assert named(too_large({}, 0, critical=True)) == []


def test_a_folder_that_is_cut_short_counts_as_the_largest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, files in (("few", 2), ("many", 20)):
        (tmp_path / name).mkdir()
        for number in range(files):
            (tmp_path / name / str(number)).write_bytes(b"x" * (1 << 20 if name == "few" else 0))
    monkeypatch.setattr(disk, "ENTRIES", 10)
    folders = {name: tmp_path / name for name in ("few", "many")}
    assert [name for name, _ in too_large(folders, 0, critical=True)] == ["many"]


def test_folders_deeper_than_a_path_are_counted(tmp_path: Path) -> None:
    deep_folders(tmp_path / "a", 2_100, b"x" * (1 << 20))
    before = len(list(Path("/proc/self/fd").iterdir()))
    try:
        assert used(tmp_path / "a").bytes >= 1 << 20
        assert len(list(Path("/proc/self/fd").iterdir())) == before
    finally:
        Remover(60).remove(tmp_path / "a")


def test_folders_above_that_are_moved_meanwhile_end_the_walk_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "_OPEN", 1)
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    level = counting._level

    def moving(count: counting.Count, folder: int) -> counting._Level:
        found = level(count, folder)
        if not found.names:
            (tmp_path / "a" / "b" / "c").rename(tmp_path / "elsewhere" / "c")
        return found

    monkeypatch.setattr(counting, "_level", moving)
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert used(tmp_path / "a").left > 0
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_hard_links_count_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * (1 << 20))
    for number in range(5):
        (tmp_path / str(number)).hardlink_to(tmp_path / "file")
    assert used(tmp_path).bytes < 2 << 20


def test_open_and_mapped_files_without_a_name_count_once(tmp_path: Path) -> None:
    program = """
import mmap, os, sys
for name in ("opened", "mapped"):
    file = open(name, "w+b")
    file.write(b"x" * (1 << 20))
    file.flush()
    os.unlink(name)
    if name == "opened":
        again = [os.dup(file.fileno()) for _ in range(5)]
        kept = file
    else:
        mapping = mmap.mmap(file.fileno(), 1 << 20)
        file.close()
        for number in os.listdir("/proc/self/fd"):  # Python keeps a descriptor of what it has mapped
            if os.path.lexists(f"/proc/self/fd/{number}") and "mapped (" in os.readlink(f"/proc/self/fd/{number}"):
                os.close(int(number))
if os.fork():
    print("made", flush=True)
sys.stdin.read()
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"made\n"
        size = used(tmp_path, [process.pid, *procfs.descendants(process.pid)]).bytes
        mine = dict(too_large({"w": tmp_path}, 1 << 20, critical=False, supervisors={"w": [os.getpid()]}))
        process.stdin.close()
    # Only root may look at mappings.
    least = 2 << 20 if os.geteuid() == 0 else 1 << 20
    assert least <= size < 3 << 20
    assert mine["w"] >= least
