"""Folders that a replica has filled go, however deep, large and strange they are, and nothing behind a link does."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster_cluster_agent.adapters.local.leftovers import Leftovers
from muster_cluster_agent.adapters.local.replicas import Replica
from muster_cluster_agent.adapters.local.state import StateFolder
from muster_cluster_agent.adapters.local.trees import Remover
from muster_cluster_agent.adapters.local.workdirs import KEPT_RUNS, Workdirs, digest_of
from tests.support.folders import deep_folders

DEEP = 1_100  # more than Python recurses


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateFolder]:
    folder = StateFolder(tmp_path / "state")
    yield folder
    folder.close()


@pytest.fixture(autouse=True)
def nothing_deep_is_left(tmp_path: Path) -> Iterator[None]:
    """Pytest removes its folders by recursion, so that what a failed test leaves here would end later runs."""
    yield
    subprocess.run(["/bin/rm", "-rf", str(tmp_path)], check=True)


def test_the_deepest_folder_goes_with_few_descriptors(tmp_path: Path) -> None:
    deep_folders(tmp_path / "tree" / "keep", 2_100)  # a path of more than PATH_MAX bytes
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 6, before[1]))
    try:
        assert Remover(60).remove(tmp_path / "tree")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert not (tmp_path / "tree").exists()


def test_a_link_goes_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("kept")
    inner = tmp_path / "tree" / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "folder").symlink_to(outside)
    (tmp_path / "tree" / "file").symlink_to(outside / "file")
    os.mkfifo(inner / "pipe")
    assert Remover(60).remove(tmp_path / "tree")
    assert (outside / "file").read_text() == "kept"
    (tmp_path / "link").symlink_to(outside)
    assert not Remover(60).remove(tmp_path / "link")
    assert (outside / "file").read_text() == "kept"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_the_agents_own_user_opens_what_a_replica_has_shut(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    child = os.fork()
    if child == 0:  # an ordinary user, who is bound by modes
        try:
            os.chdir(tmp_path)  # the folders above it are for root alone
            os.setuid(65_534)
            inner = Path("tree/a/b")
            inner.mkdir(parents=True)
            (inner / "file").write_text("x")
            for folder in (inner, inner.parent, Path("tree")):
                folder.chmod(0)
            os._exit(0 if Remover(60).remove(Path("tree")) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_turn_ends_in_time_and_the_next_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(200):
        (tmp_path / "tree" / str(number % 7)).mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / str(number % 7) / str(number)).write_text("x")
    moments = iter(range(10_000))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(moments)))
    turns = 1
    while not Remover(50).remove(tmp_path / "tree"):
        turns += 1
    assert 4 <= turns < 20
    assert not (tmp_path / "tree").exists()


def test_a_deleted_workload_goes_at_once_by_name_and_in_turns_from_the_disk(state: StateFolder) -> None:
    workdirs = Workdirs(state.work)
    folders = workdirs.folders("w", "w-0-g1-a1-worker-0-r0")
    workdirs.make(folders, "w", None)
    deep_folders(folders.keep, DEEP)
    leftovers = Leftovers(state, workdirs)
    leftovers.remove("w")
    assert not folders.workload.exists()
    assert not list(workdirs.owners())
    turns = 0
    while leftovers.empty():
        turns += 1
        assert turns < 100
    assert list((state.work / "removed").iterdir()) == []


def test_deep_folders_of_earlier_runs_go_and_those_of_now_stay(state: StateFolder) -> None:
    workdirs = Workdirs(state.work)
    runs = [workdirs.folders("w", f"w-0-g1-a{attempt}-worker-0-r0") for attempt in range(KEPT_RUNS + 1)]
    for attempt, folders in enumerate(runs):
        workdirs.make(folders, "w", None)
        deep_folders(folders.work, 3 if attempt else DEEP)
    replica = Replica({"name": "w-0-g1-a3-worker-0-r0", "workload_id": "w", "run_folder": str(runs[-1].run)}, [])
    Leftovers(state, workdirs).tidy([replica])
    assert [folders.run.name for folders in runs if folders.run.exists()] == ["1.1", "1.2", "1.3"]


def test_one_workload_whose_runs_cannot_go_keeps_no_other(state: StateFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def remove(_: Workdirs, digest: str, living: set[str]) -> None:
        asked.append(digest)
        raise OSError(30, f"read-only: {living}")

    monkeypatch.setattr(Workdirs, "remove_old_runs", remove)
    replicas = [Replica({"name": name, "workload_id": name}, []) for name in ("v", "w")]
    Leftovers(state, Workdirs(state.work)).tidy(replicas)
    assert asked == [digest_of("v"), digest_of("w")]


def test_what_lies_in_a_folder_that_is_not_there_is_gone(tmp_path: Path) -> None:
    assert Remover(1.0).remove(tmp_path / "given" / "replica")
