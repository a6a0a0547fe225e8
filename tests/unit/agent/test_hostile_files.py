"""What a replica puts where the agent reads: the agent and its other replicas go on."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from muster_cluster_agent.adapters.local import replicas, watcher
from muster_cluster_agent.adapters.local.backend import LocalBackend
from muster_cluster_agent.adapters.local.leftovers import Leftovers
from muster_cluster_agent.adapters.local.replicas import Replica, ReplicaStore, facts
from muster_cluster_agent.adapters.local.state import StateFolder
from muster_cluster_agent.adapters.local.tasks import Tasks
from muster_cluster_agent.adapters.local.watcher import Watcher
from muster_cluster_agent.adapters.local.workdirs import Workdirs
from muster_cluster_agent.domain.model import Pattern

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
    """Reading the record of one replica fails with an unexpected error."""
    reading = Workdirs.record

    def read(workdirs: Workdirs, told: str) -> dict[str, Any] | None:
        if told.endswith("worker-0/told"):
            raise TypeError("a surprise")
        return reading(workdirs, told)

    patch.setattr(Workdirs, "record", read)


def sayings(patch: pytest.MonkeyPatch, module: ModuleType) -> list[tuple[str, str]]:
    """The replica and the reason of each warning of a module, from now on."""
    said: list[tuple[str, str]] = []

    class Log:
        def warning(self, _: str, *, replica: str, why: str) -> None:
            said.append((replica, why))

    patch.setattr(module, "log", Log())
    return said


def test_one_unreadable_replica_keeps_no_other_from_being_loaded(
    state: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.close(planted(state))
    broken_record(monkeypatch)
    said = sayings(monkeypatch, replicas)
    assert [replica.name for replica in ReplicaStore(state).load()] == [OTHER]
    assert said == [(HOSTILE, "TypeError: a surprise")]


def test_one_unreadable_replica_keeps_no_other_from_being_looked_at(
    state: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.close(planted(state))
    broken_record(monkeypatch)
    said = sayings(monkeypatch, watcher)
    known: dict[str, Replica] = {}

    class Register(dict[str, Replica]):
        def add(self, replica: Replica) -> None:
            known[replica.name] = replica

    watching = Watcher(state, ReplicaStore(state), Register(), lambda _: None)  # type: ignore[arg-type]
    for _ in range(3):
        watching.reread(HOSTILE)
    watching.reread(OTHER)
    assert list(known) == [OTHER]
    assert said == [(HOSTILE, "TypeError: a surprise")]


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


FORGED = "0 ended\n\n  Owner     admin\r\x1b[2J\u202e\ud800\u2028end"
SPEC = {"generation": 1, "attempt": 1, "role": "w", "index": 0, "k": 0, "node": "n", "node_boot": "b"}


def reason_of(lines: list[dict[str, Any]], **spec: Any) -> str:
    """Why the agent says that a replica ended."""
    found = {"name": OTHER, "workload_id": "w", "pattern": Pattern.SINGLE, "created_at": 1.0, **SPEC, **spec}
    ended = facts(Replica(found, [*lines, {"event": "exited", "code": 1, "at": 1.0}])).ended
    assert ended is not None
    return ended.reason


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"rank": 1, "exit_code": 3}, "rank 1 ended first, with 3"),
        ({"error": "ValueError('x')"}, "ValueError('x')"),
        ({"error": FORGED}, "0 ended Owner admin [2J end"),
        ({"rank": FORGED, "exit_code": 1}, ""),
        ({"rank": 1, "exit_code": FORGED}, ""),
        ({"rank": [[]], "exit_code": {}, "error": ["x"]}, ""),
        ({"rank": 1}, ""),
    ],
)
def test_a_record_becomes_one_plain_line_of_the_reason(record: dict[str, Any], expected: str) -> None:
    assert reason_of([], record=json.loads(json.dumps({"ok": False, **record}))) == expected


def test_what_is_told_of_an_end_is_short_and_on_one_line() -> None:
    assert len(reason_of([], record={"ok": False, "error": "x " * 2_000})) <= 500
    assert len(reason_of([], record={"ok": False, "rank": 10**3_900, "exit_code": 1})) <= 60
    assert reason_of([{"event": "refused", "reason": "./x\n  Owner     admin: No such file"}]) == (
        "./x Owner admin: No such file"
    )
