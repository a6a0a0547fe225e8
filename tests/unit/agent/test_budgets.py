"""What one replica may use at most, in whichever control groups there are, and the message when it wants more."""

from __future__ import annotations

import errno
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from muster_cluster_agent.adapters.local import journal, limits, logfile
from muster_cluster_agent.adapters.local.cgroups import Controller, Groups
from muster_cluster_agent.adapters.local.cluster_file import parse
from muster_cluster_agent.adapters.local.logfile import LogWriter, Throttle
from muster_cluster_agent.domain import status
from muster_cluster_agent.domain.budgets import Budget, Defaults, Limits, Spent, budget_of, processes_of, spent_sentence
from muster_cluster_agent.domain.model import Ended, Failure, Observed, Pattern
from muster_cluster_agent.errors import ClusterFileError

GI = 1 << 30
BUDGET = Budget(memory=2 * GI, processes=50, disk=GI, cpu_shares=512, cpu_limit=1500)


@pytest.mark.parametrize(
    ("said", "defaults", "memory"),
    [
        (Limits(), Defaults(), 8 * GI),
        (Limits(), Defaults(memory=GI), GI),
        (Limits(memory=2 * GI), Defaults(memory=GI), 2 * GI),
        (Limits(memory=GI), Defaults(memory=4 * GI), 4 * GI),
        (Limits(memory=GI, memory_limit=GI), Defaults(memory=4 * GI), GI),
    ],
)
def test_a_workload_says_its_memory_or_has_the_default(said: Limits, defaults: Defaults, memory: int) -> None:
    assert budget_of(said, defaults, 16 * GI).memory == memory


def test_cpu_is_a_weight_and_a_limit_only_where_one_is_said() -> None:
    asked = budget_of(Limits(cpu=500), Defaults(), GI)
    assert (asked.cpu_shares, asked.cpu_limit) == (512, 0)
    limited = budget_of(Limits(cpu_limit=2000), Defaults(), GI)
    assert (limited.cpu_shares, limited.cpu_limit) == (2048, 2000)
    assert budget_of(Limits(cpu=1), Defaults(), GI).cpu_shares == 2


def test_the_first_version_has_a_group_for_each_controller() -> None:
    names = ("memory", "pids", "cpu")
    groups = Groups({name: Controller(name, Path(f"/cg/{name}/all"), unified=False) for name in names}, 16 * GI)
    told = groups.described("w-1", BUDGET)
    assert {group["folder"]: group["set"] for group in told["groups"]} == {
        "/cg/memory/all/w-1": {"memory.limit_in_bytes": str(2 * GI)},
        "/cg/pids/all/w-1": {"pids.max": "50"},
        "/cg/cpu/all/w-1": {"cpu.shares": "512", "cpu.cfs_quota_us": "150000"},
    }
    assert {group["join"] for group in told["groups"]} == {"tasks"}, "one thread spares a lock of the whole kernel"
    assert told["counters"] == {
        "oom_kill": "/cg/memory/all/w-1/memory.oom_control",
        "max": "/cg/pids/all/w-1/pids.events",
    }
    assert (told["file"], told["shm"], "user_processes" in told) == (GI, 2 * GI, False)


def test_the_second_version_has_one_group_for_all() -> None:
    names = ("memory", "pids", "cpu")
    groups = Groups({name: Controller(name, Path("/cg/all"), unified=True) for name in names}, 16 * GI)
    told = groups.described("w-1", replace(BUDGET, cpu_limit=0))
    assert told["groups"] == [
        {
            "folder": "/cg/all/w-1",
            "join": "cgroup.procs",
            "set": {"memory.max": str(2 * GI), "pids.max": "50", "cpu.weight": "50", "cpu.max": "max"},
        }
    ]
    assert told["peak"] == "/cg/all/w-1/memory.peak"


def test_what_is_killed_and_still_listed_is_no_reason_to_look_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand processes take seconds to end; a loop over their list would take the CPU time that they need."""
    looks: list[str] = []
    listed = iter([{7, 8}, {7, 8, 9}, {8, 9}, {8, 9}])  # 9 was forked before the group was closed

    def kill_listed(path: str, killed: set[int]) -> set[int]:
        looks.append(path)
        return next(listed) - killed

    monkeypatch.setattr(limits, "_kill_listed", kill_listed)
    limits.kill({"groups": [{"folder": str(tmp_path)}]})
    assert looks == [str(tmp_path / "cgroup.procs")] * 3


@pytest.mark.parametrize(("cores", "processes"), [(1, 512), (2, 512), (3, 768), (8, 2048), (128, 4096)])
def test_the_default_number_of_processes_grows_with_the_machine(cores: int, processes: int) -> None:
    assert processes_of(cores) == processes


def test_without_groups_the_user_has_a_limit_of_processes() -> None:
    groups = Groups({}, 16 * GI)
    told = groups.described("w-1", BUDGET)
    assert groups.missing == ("memory", "pids", "cpu")
    assert (told["groups"], told["counters"], told["user_processes"]) == ([], {}, 800)


@pytest.mark.parametrize(
    ("spent", "failure"),
    [
        (Spent.MEMORY, Failure.OUT_OF_MEMORY),
        (Spent.MACHINE_MEMORY, Failure.INFRASTRUCTURE),
        (Spent.PROCESSES, Failure.EXIT),
        (Spent.FILE, Failure.EXIT),
        (None, Failure.RETRYABLE_EXIT),
    ],
)
def test_a_spent_budget_decides_how_a_replica_failed(spent: Spent | None, failure: Failure) -> None:
    ended = Ended(137, 1.0, spent=spent)
    replica = Observed("w", "id", 1, 1, "worker", 0, 0, "n", boot="b", pattern=Pattern.SINGLE, ended=ended)
    assert status.failure_of(replica) is failure


def test_what_is_said_names_the_limit() -> None:
    assert spent_sentence(Spent.MEMORY, 2 * GI) == "used more memory than its limit of 2Gi (memoryLimit raises it)"
    assert "limit of 50 " in spent_sentence(Spent.PROCESSES, 50)
    assert "limit of 1Gi " in spent_sentence(Spent.DISK, GI)
    assert "limit of 1Gi " in spent_sentence(Spent.FILE, GI)
    assert "together" in spent_sentence(Spent.MACHINE_MEMORY, 0)


def test_a_cluster_file_says_the_defaults() -> None:
    text = "cluster: c\nnodes: [{name: n}]\nbudgets: {memory: 4Gi, processes: 64, disk: 1Gi, disk_reserve: 512Mi}"
    assert parse(text, where="c").budgets == Defaults(4 * GI, 64, GI, GI // 2)
    left = parse("cluster: c\nnodes: [{name: n}]", where="c").budgets
    assert left == Defaults(processes=processes_of(len(os.sched_getaffinity(0))))


@pytest.mark.parametrize(
    ("budgets", "said"),
    [
        ("{memory: 1Mi}", "budgets.memory: 1048576 bytes; at least 16777216"),
        ("{processes: 2}", "budgets.processes: 2; at least 16"),
        ("{procs: 99}", "budgets.procs: not known here"),
        ("{disk: lots}", "budgets.disk: "),
    ],
)
def test_a_budget_that_nothing_could_run_in_is_refused(budgets: str, said: str) -> None:
    with pytest.raises(ClusterFileError, match=said):
        parse(f"cluster: c\nnodes: [{{name: n}}]\nbudgets: {budgets}", where="c")


def test_a_log_takes_a_burst_and_then_a_quarter_a_second() -> None:
    throttle = Throttle(4 << 20, now=0.0)
    throttle.take(4 << 20, 0.0)
    assert throttle.pause(0.0) == 0.0
    throttle.take(1 << 20, 0.0)
    assert throttle.pause(0.0) == pytest.approx(1.0)
    assert throttle.pause(0.75) == pytest.approx(0.25)
    throttle.take(0, 100.0)
    assert throttle.pause(100.0) == 0.0


def test_a_full_disk_costs_lines_of_the_log_and_never_the_replica(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = LogWriter(str(tmp_path), 16 << 10)
    opened = os.open

    def full(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.ENOSPC, "full")
        return opened(path, flags, mode)

    monkeypatch.setattr(os, "open", full)
    writer.write(b"x" * 5000)  # a segment is full, and the next one cannot be made
    writer.write(b"still here\n")
    monkeypatch.undo()
    writer.write(b"and after it\n")
    assert logfile.tail(str(tmp_path), 100).endswith(b"and after it\n")


def test_a_supervisor_waits_for_room_and_an_agent_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / journal.FILE).write_bytes(b"")
    room = iter([False, False, True])
    wrote = os.write
    pauses: list[float] = []

    def write(file: int, text: bytes) -> int:
        if next(room):
            return wrote(file, text)
        wrote(file, text[:3])
        return 3

    monkeypatch.setattr(os, "write", write)
    monkeypatch.setattr(time, "sleep", pauses.append)
    patient = journal.Journal(str(tmp_path), wait=True)
    patient.append({"event": "gone"})
    patient.close()
    assert ([line["event"] for line in journal.read(str(tmp_path))], len(pauses)) == (["gone"], 2)
    room = iter([False])
    hasty = journal.Journal(str(tmp_path))
    with pytest.raises(OSError, match="No space left"):
        hasty.append({"event": "gone"})
    hasty.close()
