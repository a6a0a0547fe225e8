"""What of a replica stays on an agent's disk: enough to count its devices, and nothing that its process was given."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from muster_cluster_agent.adapters.local import state as state_folder
from muster_cluster_agent.adapters.local.replicas import CALLS, Replica, ReplicaStore, facts
from muster_cluster_agent.adapters.local.state import StateFolder
from muster_cluster_agent.adapters.local.workdirs import Folders, Workdirs
from muster_cluster_agent.domain.model import Pattern
from tests.chaos.checker import Entry, Held
from tests.chaos.journals import read_state_folder

SECRET = "tok-3f1c"
SPEC: dict[str, Any] = {
    "name": "w-1-g1",
    "workload_id": "w",
    "generation": 2,
    "attempt": 3,
    "argv": ["jupyter", f"--token={SECRET}"],
    "env": {"JUPYTER_TOKEN": SECRET},
    "devices": [{"uuid": "GPU-0", "portion": 0.5}],
}
LINES = [{"event": "started", "monotonic": 1.5}, {"event": "gone", "monotonic": 2.5, "evidence": "no-process"}]


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateFolder]:
    folder = StateFolder(tmp_path / "state")
    yield folder
    folder.close()


def given(state: StateFolder) -> Folders:
    """The folders of the replica, with what its launcher asks of its workers."""
    workdirs = Workdirs(state.work)
    folders = workdirs.folders("w", "w-0-g2-a3-launcher-0-r0")
    workdirs.make(folders, "w", None)
    workdirs.give(folders, {CALLS: json.dumps([{"env": SPEC["env"]}])}, None)
    return folders


def removed(state: StateFolder) -> Path:
    """The root of a folder whose one replica, a launcher, was held and then removed."""
    store = ReplicaStore(state)
    spec = {**SPEC, "given": str(given(state).given)}
    assert store.create(spec, LINES)
    store.remove(Replica(spec, LINES))
    return state.root


def test_nothing_that_a_process_was_given_outlives_its_replica(state: StateFolder) -> None:
    files = [path for path in removed(state).rglob("*") if path.is_file()]
    assert state.root / "history.jsonl" in files
    assert [path for path in files if SECRET in path.read_text()] == []


def test_a_removed_replica_is_known_after_a_restart_and_counted_by_the_checker(state: StateFolder) -> None:
    root = removed(state)
    assert list(state._read_history()) == ["w-1-g1"]
    held = (Held("GPU-0", 500),)
    assert read_state_folder(root) == [
        Entry("start", 1_500_000_000, "w-1-g1", "w", 2, 3, held),
        Entry("gone", 2_500_000_000, "w-1-g1", "w", 2, 3, held),
    ]


def test_what_a_process_is_given_is_for_the_agents_user_alone(state: StateFolder) -> None:
    assert ReplicaStore(state).create(SPEC)
    for path in (state.replica(SPEC["name"]) / "spec.json", given(state).given / CALLS):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_is_remembered_of_removed_replicas_is_bounded_in_memory_and_on_the_disk(
    state: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_folder, "REMEMBERED", 5)
    for number in range(40):
        state.remember({**SPEC, "name": f"r-{number}"}, LINES)
        assert len(state.removed) <= 5
        lines = (state.root / "history.jsonl").read_text().splitlines()
        assert len(lines) <= 10
        assert json.loads(lines[-1])["spec"]["name"] == f"r-{number}"
    assert list(state.removed) == [f"r-{number}" for number in range(35, 40)]


def test_threads_that_remove_replicas_together_lose_none_of_the_last_names(
    state: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_folder, "REMEMBERED", 20)

    def remove(number: int) -> None:
        state.remember({**SPEC, "name": f"r-{number}"}, LINES)

    history = state.root / "history.jsonl"
    with ThreadPoolExecutor(8) as threads:
        for first in range(0, 800, 8):
            list(threads.map(remove, range(first, first + 8)))
            known = [json.loads(line)["spec"]["name"] for line in history.read_text().splitlines()]
            assert len(known) <= 40
            lately = {f"r-{number}" for number in range(max(0, first - 8), first + 8)}
            assert lately <= set(known)
            assert lately <= set(state.removed)


def test_a_lock_that_a_dying_agents_child_still_holds_is_waited_for(tmp_path: Path) -> None:
    first = StateFolder(tmp_path / "state")
    child = os.dup(first._lock)  # as a fork has it until it becomes its program
    first.close()
    with ThreadPoolExecutor() as pool:
        second = pool.submit(StateFolder, tmp_path / "state")
        with pytest.raises(TimeoutError):
            second.result(timeout=0.2)
        os.close(child)
        second.result().close()


def test_a_gang_that_the_last_release_started_is_a_gang() -> None:
    spec = {"name": "w-x-g1-a0-worker-0-r0", "workload_id": "w", "pattern": "torch", "created_at": 1.0}
    place = {"generation": 1, "attempt": 0, "role": "worker", "index": 0, "k": 0, "node": "n", "node_boot": "b"}
    assert facts(Replica({**spec, **place}, [])).pattern is Pattern.GANG
