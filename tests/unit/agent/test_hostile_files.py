"""What a replica puts where the agent reads: the agent and its other replicas go on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from muster_cluster_agent.adapters.local.backend import LocalBackend
from muster_cluster_agent.adapters.local.leftovers import Leftovers
from muster_cluster_agent.adapters.local.replicas import Replica, ReplicaStore
from muster_cluster_agent.adapters.local.state import StateFolder
from muster_cluster_agent.adapters.local.tasks import Tasks
from muster_cluster_agent.adapters.local.watcher import Watcher
from muster_cluster_agent.adapters.local.workdirs import Workdirs

HOSTILE, OTHER = "w-0-g1-a1-worker-0-r0", "w-0-g1-a1-worker-1-r0"


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateFolder]:
    folder = StateFolder(tmp_path / "state")
    yield folder
    folder.close()


def held(state: StateFolder, name: str) -> Path:
    """Write a torchrun replica to the disk; its record's path."""
    workdirs = Workdirs(state.work)
    folders = workdirs.folders("w", name)
    workdirs.make(folders, "w", None)
    spec: dict[str, Any] = {"name": name, "workload_id": "w", "launch": "Torchrun", "told": str(folders.told)}
    assert ReplicaStore(state).create(spec)
    return folders.told / "record.json"


def planted(state: StateFolder) -> int:
    """Two replicas, the first with a pipe as its record; the pipe, open for writing."""
    path = held(state, HOSTILE)
    os.mkfifo(path)
    held(state, OTHER).write_text('{"ok": false, "rank": 1, "exit_code": 3}')
    return os.open(path, os.O_RDWR)


def test_a_pipe_as_a_record_is_none(state: StateFolder) -> None:
    pipe = planted(state)
    try:
        found = {replica.name: replica.spec.get("record") for replica in ReplicaStore(state).load()}
    finally:
        os.close(pipe)
    assert found == {HOSTILE: None, OTHER: {"ok": False, "rank": 1, "exit_code": 3}}


def broken_record(patch: pytest.MonkeyPatch) -> None:
    """Reading the record of one replica fails in a way that nobody foresaw."""
    reading = Workdirs.record

    def read(workdirs: Workdirs, told: str) -> dict[str, Any] | None:
        if told.endswith("worker-0/told"):
            raise TypeError("a surprise")
        return reading(workdirs, told)

    patch.setattr(Workdirs, "record", read)


def test_one_unreadable_replica_keeps_no_other_from_being_loaded(
    state: StateFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    os.close(planted(state))
    broken_record(monkeypatch)
    assert [replica.name for replica in ReplicaStore(state).load()] == [OTHER]
    assert "a surprise" in capsys.readouterr().out


def test_one_unreadable_replica_keeps_no_other_from_being_looked_at(
    state: StateFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    os.close(planted(state))
    broken_record(monkeypatch)
    known: dict[str, Replica] = {}

    class Register(dict[str, Replica]):
        def add(self, replica: Replica) -> None:
            known[replica.name] = replica

    watcher = Watcher(state, ReplicaStore(state), Register(), lambda _: None)  # type: ignore[arg-type]
    for _ in range(3):
        watcher.reread(HOSTILE)
    watcher.reread(OTHER)
    assert list(known) == [OTHER]
    assert capsys.readouterr().out.count("a surprise") == 1


async def test_a_task_that_fails_begins_again() -> None:
    begun = 0
    again = asyncio.Event()

    async def work() -> None:
        nonlocal begun
        begun += 1
        if begun == 1:
            raise RecursionError("maximum recursion depth exceeded")
        again.set()
        await asyncio.Event().wait()

    tasks = Tasks(pause=0.0)
    tasks.spawn("scan", work)
    async with asyncio.timeout(10):
        await again.wait()
    await tasks.close()
    assert begun == 2


@asynccontextmanager
async def backend(folder: Path) -> AsyncIterator[LocalBackend]:
    """A back end that is not opened: nothing of it runs."""
    (folder / "cluster.yaml").write_text("cluster: c\nnodes: [{name: n-0}]\n")
    state = StateFolder(folder / "state")
    made = LocalBackend(folder / "cluster.yaml", state)
    try:
        yield made
    finally:
        made._threads.shutdown()
        state.close()


async def test_a_workload_whose_folders_do_not_go_keeps_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def remove(_: Leftovers, workload_id: str) -> None:
        asked.append(workload_id)
        raise RecursionError("maximum recursion depth exceeded")

    monkeypatch.setattr(Leftovers, "remove", remove)
    async with backend(tmp_path) as local:
        await local.forget(["v", "w"])
    assert asked == ["v", "w"]
