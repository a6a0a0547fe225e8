"""The muster command against a whole stack.

Real Kafka and PostgreSQL, every service a process, replicas as real processes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster_stack.keeper.control import Stack
from tests.support.shells import Shell
from tests.support.stacks import RunningStack, running_stack

NORTH = """
cluster: north
nodes:
  - name: north-0
    devices: {count: 4, model: A100-40GB, memory: 40Gi}
"""
SERVICE = """apiVersion: run.ai/v2alpha1
kind: InferenceWorkload
metadata:
  name: files
spec:
  image:
    value: python:3.11
  command:
    value: python -m http.server $(PORT)
  ports:
    items:
      http:
        value:
          container: 8000
  readinessProbe:
    value:
      path: /
  minScale:
    value: 1
  gpu:
    value: 0.25
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    folder = tmp_path_factory.mktemp("stack")
    for parent in (folder, folder.parent, folder.parent.parent):
        parent.chmod(0o711)  # root's PostgreSQL runs as another user, who must get through
    with running_stack(folder / "data", {"north": NORTH}) as running:
        yield running


@pytest.fixture(scope="module")
def project(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> str:
    shell = Shell(stack, tmp_path_factory.mktemp("project"))
    told = shell("submit", "-f", shell.document("early", "python -V"), code=3)
    assert "project 'default' does not exist" in told
    made = shell.json("projects", "create", "team-a", "--quota", "4")
    assert made["quotas"][0]["gpuDeserved"] == 4
    return "team-a"


@pytest.fixture
def muster(stack: RunningStack, project: str, tmp_path: Path) -> Shell:
    return Shell(stack, tmp_path)


def test_a_training_runs_to_its_end(muster: Shell) -> None:
    file = muster.document("trained", "python -c 'import os; print(os.environ[\"CUDA_VISIBLE_DEVICES\"])'")
    muster("submit", "-f", file, "--wait")
    assert muster("logs", "trained").startswith("worker-0  GPU-")
    told = muster.json("get", "trained")
    assert told["phase"] == "Completed"
    assert told["cluster"] == "north"
    described = muster("describe", "trained")
    assert described.startswith("trained is Completed")
    assert all(len(line) <= 80 for line in described.splitlines())
    assert "kind: TrainingWorkload" in muster("get", "trained", "-o", "yaml")


def test_a_training_that_fails_fails_the_command(muster: Shell) -> None:
    spec = "gpu: {value: 0.5}\n  backoffLimit: {value: 0}"
    muster("submit", "-f", muster.document("failing", "python -c 'exit(3)'", spec), "--wait", code=1)
    (replica,) = muster.json("get", "failing")["replicas"]
    assert replica["exitCode"] == 3


def test_a_name_that_is_taken(muster: Shell) -> None:
    file = muster.document("taken", "python -V")
    muster("submit", "-f", file, "--wait")
    told = muster("submit", "-f", file, code=2)
    assert told.startswith(f"{file}:4:9: metadata.name: name 'taken' is taken in project team-a")
    assert told.endswith("\n1 error, nothing was submitted\n")


def test_the_same_key_does_nothing_twice(muster: Shell) -> None:
    file = muster.document("once", "python -V")
    first = muster.json("submit", "-f", file, "--key", "e2e")
    second = muster.json("submit", "-f", file, "--key", "e2e")
    assert first[0]["id"] == second[0]["id"]


def test_what_never_fits_says_why(muster: Shell) -> None:
    muster("submit", "-f", muster.document("giant", "python -V", "gpuDevices: {value: 16}"))
    deadline = time.monotonic() + 30
    told = muster.json("why", "giant")
    while told["reason"]["code"] != "TooLarge" and time.monotonic() < deadline:
        told = muster.json("why", "giant")
    assert told["reason"]["code"] == "TooLarge"
    assert "giant waits for 16 GPUs" in muster("why", "giant")
    asked = muster("what-if", "-f", muster.document("asked", "python -V"))
    assert "asked in team-a would start at once: 0.5 GPU in node pool default of north, on north-" in asked
    refused = muster("what-if", "-f", muster.document("larger", "python -V", "gpuDevices: {value: 16}"))
    assert "larger in team-a would wait.\n  Blocked by   needs 16 GPUs on one node" in refused
    assert muster.run("get", "asked").returncode == muster.run("get", "larger").returncode == 3
    muster("delete", "giant", "--wait", "--timeout", "30")
    assert muster.run("get", "giant").returncode == 3


def test_trials_each_have_a_place_and_a_number(muster: Shell) -> None:
    trials = "gpu: {value: 0.5}\n  completions: {value: 4}\n  parallelism: {value: 2}\n  nodeType: {value: A100-40GB}"
    code = "import os; assert os.environ['POD_INDEX'] in '0123'; print('trial', os.environ['POD_INDEX'])"
    muster("submit", "-f", muster.document("sweep", f'python -c "{code}"', trials), "--wait")
    assert muster.json("get", "sweep")["phase"] == "Completed"


def test_a_type_that_no_node_has_is_the_reason(muster: Shell) -> None:
    muster("submit", "-f", muster.document("picky", "python -V", "nodeType: {value: none-such}"))
    deadline = time.monotonic() + 30
    while (told := muster.json("why", "picky"))["reason"]["code"] != "WrongNodeType":
        assert time.monotonic() < deadline, told
    assert "1 is of type A100-40GB (it may use none-such)" in muster("why", "picky")
    muster("delete", "picky", "--wait", "--timeout", "30")


def test_suspend_and_resume(muster: Shell) -> None:
    file = muster.document("sleeper", "python -c 'import time; print(1, flush=True); time.sleep(300)'")
    muster("submit", "-f", file)
    muster("suspend", "sleeper", "--wait", "--timeout", "60")
    muster("resume", "sleeper", "--wait", "--timeout", "60")
    assert muster.json("list", "sleeper", "--phase", "Running")[0]["name"] == "sleeper"
    muster("delete", "sleeper", "--wait", "--timeout", "60")


def test_a_service_answers(muster: Shell) -> None:
    muster("submit", "-f", muster.file("files", SERVICE), "--wait")
    (address,) = muster.json("get", "files")["endpoints"]
    with urllib.request.urlopen(address, timeout=10) as answer:
        assert answer.status == 200
    muster("delete", "files", "--wait", "--timeout", "60")


def test_the_fleet_and_its_use(muster: Shell) -> None:
    (cluster,) = muster.json("clusters")
    assert (cluster["id"], cluster["state"], cluster["devices"]) == ("north", "Ready", 4)
    assert "north-0" in muster("nodes")
    assert muster.json("dead-letters") == []
    assert isinstance(muster.json("usage"), list)


def test_a_service_that_is_silent_is_named(muster: Shell, stack: RunningStack) -> None:
    control = Stack(stack.layout)
    muster("submit", "-f", muster.document("asked", "python -V"), "--wait")
    control.kill("scheduler", signal.SIGSTOP)
    try:
        told = muster("why", "asked", "--retry", "1", code=4)
    finally:
        control.kill("scheduler", signal.SIGCONT)
    assert "scheduler does not answer" in told


def test_submission_restarts_meanwhile(muster: Shell, stack: RunningStack) -> None:
    """It falls silent under a submission that is on its way, and dies: the command asks again, and it is done once."""
    control = Stack(stack.layout)
    file = muster.document("patient", "python -V")
    control.kill("submission", signal.SIGSTOP)
    try:
        with muster.begin("submit", "-f", file, "-p", "team-a", "--retry", "60", "--wait") as asking:
            assert asking.stderr is not None
            told = asking.stderr.readline()  # written once the first attempt had no answer in time
            control.kill("submission")
            rest = asking.communicate(timeout=120)[1]
    finally:
        control.kill("submission", signal.SIGCONT)
    assert "does not answer" in told
    assert "asking again for 60 s" in told
    assert asking.returncode == 0, rest
    assert [each["name"] for each in muster.json("list", "patient")] == ["patient"]


def test_the_demo_proves_what_it_shows_and_leaves_nothing(tmp_path: Path) -> None:
    command = str(Path(sys.executable).parent / "muster")
    env = {**os.environ, "TMPDIR": "/tmp"}
    only = ("--only", "half-a-gpu", "--only", "giant")
    ran = subprocess.run([command, "demo", *only], check=False, capture_output=True, text=True, env=env, timeout=240)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "3 of 3 happened" in ran.stdout
    assert "giant waits for 16 GPUs" in ran.stdout


def test_an_interrupted_demo_leaves_nothing(tmp_path: Path) -> None:
    command = str(Path(sys.executable).parent / "muster")
    marker = tmp_path / "marker"
    env = {**os.environ, "TMPDIR": "/tmp", "MUSTER_TEST_MARK": str(marker)}
    demo = subprocess.Popen(
        [command, "demo", "--only", "patient"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=env,
        # A test run in the background has Ctrl-C ignored, which the demo would inherit and rightly keep.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    assert demo.stdout is not None
    for line in demo.stdout:
        if "is ready" in line:
            break
    demo.send_signal(signal.SIGINT)
    rest = demo.communicate(timeout=120)[0]
    assert demo.returncode == 130, rest
    assert "nothing is left running" in rest
