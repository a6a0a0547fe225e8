"""`muster submit`: what is found in a file, what the control plane refuses, and what is done with the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from google.rpc import code_pb2

from muster.api.v1 import workloads_pb2
from muster.workload.v1 import workload_pb2
from tests.support.plane_world import Failure, World, bad_request
from tests.unit.client import conftest
from tests.unit.client.conftest import Command

GOOD = """apiVersion: run.ai/v2alpha1
kind: TrainingWorkload
metadata:
  name: {name}
spec:
  image:
    value: ubuntu
"""
BAD = """apiVersion: run.ai/v2alpha1
kind: TrainingWorkload
metadata:
  name: train
spec:
  gpu:
    value: 1.5
  imagePulPolicy:
    value: Always
"""


@pytest.fixture
def good(tmp_path: Path) -> str:
    path = tmp_path / "good.yaml"
    path.write_text(GOOD.format(name="bert"))
    return str(path)


def test_a_bad_file_is_refused_on_the_spot(muster: Command, world: World, tmp_path: Path) -> None:
    path = tmp_path / "train.yaml"
    path.write_text(BAD)
    ran = muster("submit", "-f", str(path))
    assert ran.code == 2
    assert ran.err.splitlines() == [
        f"{path}:7:12: spec.gpu.value: 1.5 is not a GPU request",
        "  0 is no GPU, 0.01 to 1 a portion, a whole number above 1 that many devices",
        f"{path}:8:3: spec.imagePulPolicy: unknown field; did you mean imagePullPolicy?",
        "2 errors, nothing was submitted",
    ]
    assert not world.calls


def test_a_bad_file_for_programs(muster: Command, tmp_path: Path) -> None:
    path = tmp_path / "train.yaml"
    path.write_text(BAD)
    ran = muster("submit", "-f", str(path), "--json")
    assert ran.code == 2
    assert not ran.out
    told = json.loads(ran.err)
    assert told["exit"] == 2
    assert told["error"]["code"] == "INVALID_ARGUMENT"
    assert [each["line"] for each in told["error"]["violations"]] == [7, 8]


def test_a_file_that_is_not_there(muster: Command) -> None:
    ran = muster("submit", "-f", "/nowhere.yaml")
    assert ran.code == 2
    assert "/nowhere.yaml: No such file" in ran.err


def test_submit_uses_the_only_project(muster: Command, world: World, good: str) -> None:
    ran = muster("submit", "-f", good)
    assert ran.code == 0
    assert "bert in project team-a: Pending" in ran.out
    assert world.asked("SubmitWorkload")[0].draft.project == "team-a"
    assert world.asked("SubmitWorkload")[0].wait_for_verdict_ms == 5000


def test_submit_without_waiting_for_policy(muster: Command, world: World, good: str) -> None:
    assert muster("submit", "-f", good, "--no-wait", "-p", "team-b").code == 0
    assert world.asked("SubmitWorkload")[0].wait_for_verdict_ms == 0
    assert world.asked("SubmitWorkload")[0].draft.project == "team-b"


def test_several_documents_are_cut_apart(muster: Command, world: World, tmp_path: Path) -> None:
    path = tmp_path / "three.yaml"
    path.write_text("# first\n" + "\n---\n# next\n".join(GOOD.format(name=name) for name in ("a", "b", "c")))
    ran = muster("submit", "-f", str(path), "--json")
    assert ran.code == 0
    assert [each["name"] for each in json.loads(ran.out)] == ["a", "b", "c"]
    sent = [request.draft.yaml for request in world.asked("SubmitWorkload")]
    assert all(text.count("apiVersion") == 1 and "---" not in text for text in sent)
    keys = [request.idempotency_key for request in world.asked("SubmitWorkload")]
    assert len(set(keys)) == 3


def test_one_bad_document_submits_none(muster: Command, world: World, tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(GOOD.format(name="a") + "---\n" + BAD)
    ran = muster("submit", "-f", str(path))
    assert ran.code == 2
    assert f"{path}:15:12: spec.gpu.value" in ran.err
    assert not world.calls


def test_what_the_control_plane_refuses_has_the_files_lines(muster: Command, world: World, tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(GOOD.format(name="a") + "---\n" + GOOD.format(name="b"))
    located = workloads_pb2.Violation(path="spec.image", message="not allowed", line=6, column=3)
    refusal = Failure(code_pb2.INVALID_ARGUMENT, "1 error", [located])
    first = muster("submit", "-f", str(path))
    assert first.code == 0
    world.fail("SubmitWorkload", refusal, times=2)
    ran = muster("submit", "-f", str(path))
    assert ran.code == 2
    assert f"{path}:6:3: spec.image: not allowed" in ran.err
    assert f"{path}:13:3: spec.image: not allowed" in ran.err


def test_what_the_control_plane_refuses_holds_back_that_document_alone(
    muster: Command, world: World, tmp_path: Path
) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(GOOD.format(name="a") + "---\n" + GOOD.format(name="b"))
    taken = bad_request(("spec.name", "team-a has one"))
    world.fail("SubmitWorkload", Failure(code_pb2.ALREADY_EXISTS, "team-a has one", [taken]))
    ran = muster("submit", "-f", str(path))
    assert ran.code == 2
    assert ran.err.endswith("1 error, this workload was not submitted\n")
    assert ran.out.startswith("b in project team-a: ")


def test_a_name_that_is_taken(muster: Command, world: World, good: str) -> None:
    taken = bad_request(("spec.name", "team-a has one"))
    world.fail("SubmitWorkload", Failure(code_pb2.ALREADY_EXISTS, "team-a has one", [taken]), times=2)
    ran = muster("submit", "-f", good)
    assert ran.code == 2
    assert ran.err == f"{good}:4:9: metadata.name: team-a has one\n1 error, nothing was submitted\n"
    (told,) = json.loads(muster("submit", "-f", good, "--json").out)
    assert told["error"]["code"] == "ALREADY_EXISTS"


def test_a_project_that_is_not_there(muster: Command, world: World, good: str) -> None:
    world.fail("SubmitWorkload", Failure(code_pb2.NOT_FOUND, "project 'b' does not exist; there are team-a"))
    ran = muster("submit", "-f", good, "-p", "b")
    assert ran.code == 3
    assert ran.err == f"{good}:1:1: project 'b' does not exist; there are team-a\n1 error, nothing was submitted\n"


def test_several_projects_and_none_named(muster: Command, world: World, good: str, tmp_path: Path) -> None:
    world.projects = ["t2", "team-a"]
    trigger = tmp_path / "trigger.yaml"
    trigger.write_text("name: a\ntemplate: b\neventType: c\neventSources: '*'\n")
    for words in (
        ["submit", "-f", good],
        ["templates", "apply", "-f", good],
        ["triggers", "apply", "-f", str(trigger)],
    ):
        ran = muster(*words)
        assert ran.code == 2
        assert "name one with -p: t2, team-a" in ran.err
    assert not world.asked("SubmitWorkload")
    world.projects = ["default", "team-a"]
    assert muster("submit", "-f", good).code == 0
    assert world.asked("SubmitWorkload")[0].draft.project == "default"


def test_a_trigger_with_errors_says_all_of_them(muster: Command, world: World, tmp_path: Path) -> None:
    path = tmp_path / "trigger.yaml"
    path.write_text("name: 1\neventTyp: a\nwindowSeconds: soon\nenabled: perhaps\nenvironment: {A: 1}\n")
    ran = muster("triggers", "apply", "-f", str(path))
    assert ran.code == 2
    keys = [line.removeprefix(f"{path}: ").partition(":")[0] for line in ran.err.splitlines()[:-1]]
    assert keys == [
        "name",
        "eventTyp",
        "windowSeconds",
        "enabled",
        "environment.A",
        "template",
        "eventType",
        "eventSources",
    ]
    assert ran.err.endswith("\n8 errors, no trigger was applied\n")
    assert not world.calls


def test_submit_says_how_to_try_again(muster: Command, world: World, good: str) -> None:
    world.fail("SubmitWorkload", Failure(code_pb2.UNAVAILABLE, "restarting"), times=1000)
    ran = muster("submit", "-f", good, "--retry", "0.2")
    assert ran.code == 4
    key = world.asked("SubmitWorkload")[0].idempotency_key.removesuffix("-0")
    assert f"--key {key}" in ran.err
    world.failures.clear()
    assert muster("submit", "-f", good, "--key", key).code == 0
    assert muster("submit", "-f", good, "--key", key).code == 0
    assert len(world.workloads) == 1


def test_a_command_that_waits_for_ever_is_interrupted(
    muster: Command, good: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conftest, "LONGEST", 1.0)
    ran = muster("submit", "-f", good, "--wait")
    assert ran.code == 130


def test_submit_and_wait_for_the_end(muster: Command, world: World, good: str) -> None:
    item, end = workloads_pb2.WATCH_ITEM_KIND_CHANGE, workloads_pb2.WATCH_ITEM_KIND_SNAPSHOT_END
    phases = [workload_pb2.PHASE_RUNNING, workload_pb2.PHASE_FAILED]
    seen = [workload_pb2.Workload(id="x", name="bert", phase=phase, cluster="north") for phase in phases]
    changes = [workloads_pb2.WatchWorkloadsResponse(kind=item, workload=each, cursor="1") for each in seen]
    world.watches.append([changes[0], workloads_pb2.WatchWorkloadsResponse(kind=end, cursor="1"), changes[1]])
    ran = muster("submit", "-f", good, "--wait")
    assert ran.code == 1, "it failed, so the command failed"
    assert "bert: Running in north" in ran.err
    assert "bert: Failed in north" in ran.err


def test_the_wait_for_a_workspace_ends_when_it_runs(muster: Command, world: World, tmp_path: Path) -> None:
    path = tmp_path / "workspace.yaml"
    path.write_text(
        "apiVersion: run.ai/v2alpha1\nkind: InteractiveWorkload\nmetadata: {name: desk}\n"
        "spec: {image: {value: python}, command: {value: sleep 60}}\n"
    )
    snapshot = workloads_pb2.WATCH_ITEM_KIND_SNAPSHOT
    running = workload_pb2.Workload(name="desk", phase=workload_pb2.PHASE_RUNNING)
    world.watches = [[workloads_pb2.WatchWorkloadsResponse(kind=snapshot, workload=running)]]
    assert muster("submit", "-f", str(path), "--wait", "--timeout", "20").code == 0


def test_the_wait_for_what_no_cluster_takes_ends_with_the_reason(muster: Command, world: World, good: str) -> None:
    snapshot = workloads_pb2.WATCH_ITEM_KIND_SNAPSHOT
    waiting = workload_pb2.Workload(name="bert", phase=workload_pb2.PHASE_PENDING)
    waiting.reason.code, waiting.reason.message = "NotSupported", "2 clusters do not support fields that it sets"
    world.watches = [[workloads_pb2.WatchWorkloadsResponse(kind=snapshot, workload=waiting)]]
    ran = muster("submit", "-f", good, "--wait", "--timeout", "20")
    assert ran.code == 1
    assert "waits until the fleet has a cluster that takes it: 2 clusters do not support" in ran.err
    assert "`muster why" in ran.err
