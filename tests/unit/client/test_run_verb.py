"""`muster run`: a command on the fleet as if it ran here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import muster_language as language
from muster.api.v1 import workloads_pb2
from muster.workload.v1 import workload_pb2
from tests.support.plane_world import World
from tests.unit.client.conftest import Command


def _ends(world: World, phase: workload_pb2.Phase.ValueType, **replica: Any) -> None:
    """Lets the next watch see a workload that ends so."""
    running, ended = workload_pb2.Workload(phase=workload_pb2.PHASE_RUNNING), workload_pb2.Workload(phase=phase)
    ended.name = "mine"
    ended.reason.message = "worker-0 exited"
    ended.replicas.add(role="worker", **replica)
    kind = workloads_pb2.WATCH_ITEM_KIND_SNAPSHOT
    world.watches = [[workloads_pb2.WatchWorkloadsResponse(kind=kind, workload=each) for each in (running, ended)]]


def test_the_log_is_shown_and_the_exit_code_is_that_of_the_command(muster: Command, world: World) -> None:
    world.log = [("worker-0", b"step 1\n"), ("worker-0", b"step 2\n")]
    _ends(world, workload_pb2.PHASE_FAILED, exit_code=7)
    ran = muster("run", "--gpu", "0.5", "--name", "mine", server=True, rest=["--", "python", "train.py", "-v", "-"])
    assert ran.code == 7
    assert ran.out == "step 1\nstep 2\n"
    (asked,) = world.asked("SubmitWorkload")
    (document,) = language.read(asked.draft.yaml)
    assert not document.violations
    assert document.spec.command == "python train.py -v -"
    assert document.spec.gpu_portion_request == 0.5
    assert document.spec.backoff_limit == 0


def test_what_succeeds_ends_with_0_and_may_leave_nothing_behind(muster: Command, world: World) -> None:
    _ends(world, workload_pb2.PHASE_COMPLETED, exit_code=0)
    ran = muster("run", "--gpu", "2", "--rm", "--name", "mine", rest=["--", "true"])
    assert ran.code == 0
    (asked,) = world.asked("SubmitWorkload")
    (document,) = language.read(asked.draft.yaml)
    assert document.spec.gpu_devices_request == 2
    assert len(world.asked("DeleteWorkload")) == 1


def test_what_never_ran_ends_with_1(muster: Command, world: World) -> None:
    _ends(world, workload_pb2.PHASE_FAILED)
    assert muster("run", rest=["--", "true"]).code == 1


def test_the_folder_of_the_data(muster: Command, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    _ends(world, workload_pb2.PHASE_COMPLETED)
    ran = muster("run", "--data", ".", rest=["--", "python", "train.py"])
    (document,) = language.read(world.asked("SubmitWorkload")[0].draft.yaml)
    assert document.spec.working_dir == str(tmp_path)
    assert "--data" not in ran.err
    _ends(world, workload_pb2.PHASE_COMPLETED)
    assert "train.py is not: --data . runs it in this one" in muster("run", rest=["--", "python", "train.py"]).err


def test_a_folder_that_is_not_there_is_refused(muster: Command, world: World, tmp_path: Path) -> None:
    ran = muster("run", "--data", str(tmp_path / "none"), rest=["--", "true"])
    assert ran.code == 2
    assert "not a folder of this machine" in ran.err
    assert not world.asked("SubmitWorkload")


def test_a_command_that_cannot_start_is_stopped_and_not_tried_again(muster: Command, world: World) -> None:
    waits = workload_pb2.Workload(name="mine", phase=workload_pb2.PHASE_TERMINATING)
    waits.reason.code = "Restart"
    waits.reason.message = "restarting (fault 1 of 10 of the fleet, in 10 s): worker-0 failed (Start): workingDir: /x"
    kind = workloads_pb2.WATCH_ITEM_KIND_SNAPSHOT
    world.watches = [[workloads_pb2.WatchWorkloadsResponse(kind=kind, workload=waits)]]
    ran = muster("run", "--name", "mine", rest=["--", "true"])
    assert ran.code == 1
    assert " cannot start: workingDir: /x\n" in ran.err
    assert len(world.asked("SuspendWorkload")) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--gpu", "1.5"], "--gpu: 1.5 is not a GPU request"), (["--memory", "lots"], "--memory: "), ([], "no command")],
)
def test_what_is_wrong_is_said_in_the_words_of_the_options(
    muster: Command, world: World, words: list[str], said: str
) -> None:
    ran = muster("run", *words, rest=["--", "true"] if words else [])
    assert ran.code == 2
    assert said in ran.err
    assert not world.asked("SubmitWorkload")


def test_options_behind_the_hyphens_are_the_commands_own(muster: Command, world: World) -> None:
    _ends(world, workload_pb2.PHASE_COMPLETED)
    ran = muster("run", rest=["--", "tool", "--json", "-"])
    assert ran.code == 0
    assert "tool --json -" in world.asked("SubmitWorkload")[0].draft.yaml
    assert not ran.out.startswith("{")
    _ends(world, workload_pb2.PHASE_COMPLETED)
    (line,) = muster("run", "--json", rest=["--", "true"]).out.splitlines()
    assert json.loads(line)["workload"]["phase"] == "Completed"
