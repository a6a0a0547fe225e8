"""What is free on the disk, and whose working folder has to go first."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from muster_cluster_agent.adapters.local import disk
from muster_cluster_agent.adapters.local.disk import Disk, too_large, used


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
    assert 1 << 20 <= used(tmp_path / "a") < 3 << 20
    assert used(tmp_path / "none") == 0


def test_only_so_many_entries_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        (tmp_path / str(number)).write_bytes(b"x" * 4096)
    monkeypatch.setattr(disk, "ENTRIES", 10)
    assert used(tmp_path) <= 10 * 8192


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
