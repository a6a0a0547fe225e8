"""What a replica leaves in its folders ends the agent, or blinds it, once what prevents that is substituted."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from muster_cluster_agent.adapters.local import replicas, workdirs
from muster_cluster_agent.adapters.local.backend import LocalBackend
from muster_cluster_agent.adapters.local.replicas import ReplicaStore
from muster_cluster_agent.adapters.local.state import StateFolder
from muster_cluster_agent.adapters.local.workdirs import Workdirs
from muster_cluster_agent.handlers import folders as keeping
from muster_cluster_agent.handlers.folders import FolderKeeper
from muster_cluster_agent.ports import Deleted
from tests.rules.test_rule_07_agents_say_gone_only_when_it_is import local
from tests.support.folders import deep_folders
from tests.support.waiting import until

WORKLOAD = "0190c0de-0000-7000-8000-000000000001"
NAME = "w-0-g1-a1-worker-0-r0"


@pytest.fixture(autouse=True)
def nothing_deep_is_left(tmp_path: Path) -> Iterator[None]:
    """Pytest removes its folders by recursion, so that what a failed test leaves here would end later runs."""
    yield
    subprocess.run(["/bin/rm", "-rf", str(tmp_path)], check=True)


class AllDeleted:
    """Submission, where every workload is deleted."""

    async def find_deleted(self, workload_ids: Sequence[str]) -> Deleted:
        return Deleted(frozenset(workload_ids), frozenset())


async def kept_running(backend: LocalBackend) -> bool:
    """Whether the keeper of folders outlives a deleted workload that has left 1,100 nested folders."""
    store = Workdirs(backend._state.work)
    folders = store.folders(WORKLOAD, NAME)
    store.make(folders, WORKLOAD, None)
    deep_folders(folders.keep, 1_100)
    task = asyncio.create_task(FolderKeeper(backend, AllDeleted()).run())
    await until(lambda: task.done() or not folders.workload.exists(), within=60)
    failed = task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return not failed


def recursive(patch: pytest.MonkeyPatch) -> None:
    """Folders go by recursion, and only what the system refuses is caught, as it was."""
    patch.setattr(Workdirs, "remove", lambda self, digest: shutil.rmtree(self.root / digest, ignore_errors=True))
    patch.setattr(keeping, "Exception", SystemError, raising=False)

    async def forget(self: LocalBackend, workload_ids: Sequence[str]) -> None:
        for workload_id in workload_ids:
            await self._blocking(lambda one=workload_id: self._leftovers.remove(one))  # type: ignore[misc]

    patch.setattr(LocalBackend, "forget", forget)


async def test_nested_folders_leave_the_keeper_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "_PERIOD", 0.01)
    async with local(tmp_path) as backend:
        assert await kept_running(backend)


async def test_nested_folders_end_a_keeper_that_recurses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "_PERIOD", 0.01)
    recursive(monkeypatch)
    async with local(tmp_path) as backend:
        assert not await kept_running(backend)


def planted(folder: Path) -> int:
    """A torchrun replica whose record is a pipe, which is open for writing and returned."""
    state = StateFolder(folder / "state")
    folders = Workdirs(state.work).folders(WORKLOAD, NAME)
    Workdirs(state.work).make(folders, WORKLOAD, None)
    spec = {"name": NAME, "workload_id": WORKLOAD, "launch": "Torchrun", "told": str(folders.told)}
    assert ReplicaStore(state).create(spec)
    state.close()
    os.mkfifo(folders.told / "record.json")
    return os.open(folders.told / "record.json", os.O_RDWR)


def reading_anything(patch: pytest.MonkeyPatch) -> None:
    """Whatever has the name of a record is read, as it was, and what goes wrong is not contained."""

    def read(root: Path, path: str, limit: int) -> dict[str, Any]:
        file = os.open(root / path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(file, "rb") as opened:
            found: dict[str, Any] = json.loads(opened.read(limit + 1)[:limit])
            return found

    patch.setattr(workdirs, "read_json", read)
    patch.setattr(replicas, "Exception", SystemError, raising=False)


def test_a_pipe_for_a_record_keeps_an_agent_that_reads_it_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = planted(tmp_path)
    state = StateFolder(tmp_path / "state")
    try:
        assert [replica.name for replica in ReplicaStore(state).load()] == [NAME]
        reading_anything(monkeypatch)
        with pytest.raises(TypeError):
            ReplicaStore(state).load()
    finally:
        os.close(pipe)
        state.close()
