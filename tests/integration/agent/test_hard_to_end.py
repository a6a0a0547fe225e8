"""What a replica makes to outlive its end: processes that outrun a kill, and what belongs to the machine's kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from muster_cluster_agent.adapters.local import cgroups, journal, limits, procfs
from muster_cluster_agent.adapters.local.replicas import ReplicaStore
from muster_cluster_agent.adapters.local.state import StateFolder
from muster_cluster_agent.domain.budgets import Budget
from muster_cluster_agent.end import end
from tests.attacks.rows.a14_budgets import IPC, left_in_the_machine
from tests.integration.agent.test_confined_replicas import PYTHON, SUPERVISE, needs_landlock, needs_root, supervised
from tests.support.waiting import eventually_now

UID = 61_234
GROUPS = cgroups.find(1024)
SECONDS = 25
RABBITS = f"""
import os, signal, time
end = time.monotonic() + {SECONDS}
if os.fork():
    time.sleep({SECONDS})
os.setsid()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(3):
    if os.fork() == 0:
        break
while time.monotonic() < end:
    try:
        if os.fork():
            os._exit(0)
    except OSError:
        pass
"""
"""Processes whose numbers change faster than they can be looked up."""
needs_pids = pytest.mark.skipif("pids" not in GROUPS.controllers, reason="no writable pids control group here")


def spec_of(name: str, folder: Path, argv: list[str]) -> dict[str, Any]:
    """A replica with a budget that runs as the user of this test."""
    return {
        "name": name,
        "argv": argv,
        "env": {"PATH": os.defpath, procfs.MARK: name},
        "cwd": "/",
        "log": {"folder": str(folder / "log"), "budget": 4096},
        "budget": GROUPS.described(name, Budget(256 << 20, 64, 0, 1024, 0)),
    }


def in_its_group(name: str) -> set[int]:
    """The processes in the group of a replica."""
    return limits._listed(str(GROUPS.controllers["pids"].folder / name / "cgroup.procs"))


@needs_pids
def test_processes_that_only_fork_and_exit_do_not_outrun_the_end_of_their_replica(tmp_path: Path) -> None:
    name = f"w-rabbits-{os.getpid()}"
    spec = spec_of(name, tmp_path, [sys.executable, "-c", RABBITS])
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    (tmp_path / "journal").touch()
    supervisor = subprocess.Popen([sys.executable, "-c", SUPERVISE, str(tmp_path)])
    eventually_now(lambda: len(in_its_group(name)) > 2, within=20)
    (tmp_path / "stop").write_text(json.dumps({"grace": 0, "reason": "test"}))
    asked = time.monotonic()
    supervisor.terminate()
    supervisor.wait(timeout=60)
    assert time.monotonic() - asked < SECONDS / 3
    events = {line["event"]: line for line in journal.read(str(tmp_path))}
    assert "spent" not in events["exited"], "the forks that the end refused are not the replica's budget"
    assert events["gone"]["evidence"] == "no-process"


@needs_pids
def test_a_group_is_killed_whole_while_its_processes_fork_and_exit(tmp_path: Path) -> None:
    name = f"w-group-{os.getpid()}"
    budget = spec_of(name, tmp_path, [])["budget"]
    limits.make(budget)
    join = "".join(f"open({group['folder'] + '/cgroup.procs'!r}, 'w').write('0')\n" for group in budget["groups"])
    rabbits = subprocess.Popen([sys.executable, "-c", join + RABBITS])
    eventually_now(lambda: len(in_its_group(name)) > 2, within=20)
    asked = time.monotonic()
    assert limits.end(budget, seconds=SECONDS / 3)
    assert time.monotonic() - asked < SECONDS / 3
    rabbits.wait(timeout=5)
    limits.remove(budget)
    assert not (GROUPS.controllers["pids"].folder / name).exists()


def unmarked(pid: int) -> bool:
    """Whether it is a command that runs without a mark; before it is run, a replica's process has none either."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return command.startswith(b"sleep") and procfs.mark_of(pid) is None


def leave_unmarked(state: StateFolder, name: str, folder: Path) -> None:
    """A replica without a supervisor, of which a process without its mark is left."""
    argv = ["/bin/sh", "-c", f"env -i setsid sleep {SECONDS} & sleep {SECONDS}"]
    assert ReplicaStore(state).create(spec_of(name, folder, argv))
    supervisor = subprocess.Popen([sys.executable, "-c", SUPERVISE, str(state.replica(name))])
    eventually_now(lambda: any(map(unmarked, in_its_group(name))), within=20)
    supervisor.kill()
    supervisor.wait()


@needs_pids
def test_a_process_without_its_mark_does_not_outlive_what_is_written_down_as_gone(tmp_path: Path) -> None:
    state = StateFolder(tmp_path / "state")
    store, name = ReplicaStore(state), f"w-unmarked-{os.getpid()}"
    leave_unmarked(state, name, tmp_path)
    lost = store.read(name)
    assert lost is not None
    assert store.bury(lost, "no-process", "")
    assert journal.read(str(state.replica(name)))[-1]["event"] == "gone"
    assert in_its_group(name) == set()
    limits.remove(lost.spec["budget"])
    state.close()


@needs_pids
def test_the_end_of_a_stack_leaves_no_process_without_its_mark(tmp_path: Path) -> None:
    state, name = StateFolder(tmp_path / "state"), f"w-down-{os.getpid()}"
    leave_unmarked(state, name, tmp_path)
    assert end(state.root) == 0
    assert in_its_group(name) == set()
    limits.remove(spec_of(name, tmp_path, [])["budget"])
    state.close()


@needs_root
@needs_landlock
def test_what_it_leaves_in_the_kernel_ends_with_it(tmp_path: Path) -> None:
    supervised(tmp_path, [*PYTHON, IPC], UID).wait(timeout=30)
    events = {line["event"]: line for line in journal.read(str(tmp_path))}
    assert events["exited"]["code"] == 0, events
    assert left_in_the_machine(UID) == []
