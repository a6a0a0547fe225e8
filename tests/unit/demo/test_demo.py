"""The demo's own parts: what counts as proof, what a document says, and that its programs do what they are asked."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from importlib import resources
from pathlib import Path

import pytest
from rich.console import Console

import muster_language as language
from muster.api.v1 import triggers_pb2
from muster.workload.v1 import workload_pb2
from muster_client import Muster, Phase, WatchItem
from muster_stack.demo.acts import ACTS
from muster_stack.demo.command import demo
from muster_stack.demo.diary import Diary, DidNotHappen, Entry
from muster_stack.demo.scene import PROJECT, Scene, exit_codes, summary_of
from muster_stack.demo.screen import Outcome, Screen

PROGRAMS = Path(str(resources.files("muster_stack.demo") / "workloads"))
DOCUMENTS = sorted(each.stem for each in Path(str(resources.files("muster_stack.demo") / "documents")).glob("*.yaml"))
PHASES = {
    Phase.PENDING: workload_pb2.PHASE_PENDING,
    Phase.RUNNING: workload_pb2.PHASE_RUNNING,
    Phase.STOPPED: workload_pb2.PHASE_STOPPED,
    Phase.COMPLETED: workload_pb2.PHASE_COMPLETED,
    Phase.FAILED: workload_pb2.PHASE_FAILED,
}


def told(diary: Diary, *phases: Phase, id: str = "1") -> None:
    """What the watch says when a workload goes through these phases."""
    for phase in phases:
        workload = workload_pb2.Workload(id=id, name=f"w{id}", phase=PHASES[phase])
        diary._note(WatchItem("change", workload, "1", "PhaseChanged", ""), workload)


def test_phases_are_kept_in_order_and_once_a_change() -> None:
    diary = Diary()
    told(diary, Phase.PENDING, Phase.RUNNING, Phase.RUNNING, Phase.PENDING, Phase.RUNNING, Phase.COMPLETED)
    entry = diary.entries["1"]
    running_twice = (Phase.RUNNING, Phase.PENDING, Phase.RUNNING)
    assert entry.phases == [Phase.PENDING, *running_twice, Phase.COMPLETED]
    assert entry.passed(*running_twice, Phase.COMPLETED)
    assert not entry.passed(Phase.COMPLETED, Phase.RUNNING)


async def test_waiting_for_what_does_not_come_is_no_success() -> None:
    diary = Diary()
    told(diary, Phase.PENDING)
    with pytest.raises(DidNotHappen, match="w1 becomes Running: not within"):
        await diary.becomes("1", Phase.RUNNING, seconds=0.05)


async def test_waiting_ends_at_once_where_it_failed() -> None:
    diary = Diary()
    told(diary, Phase.PENDING, Phase.FAILED)
    with pytest.raises(DidNotHappen, match="w1 failed"):
        await asyncio.wait_for(diary.becomes("1", Phase.COMPLETED, seconds=60), 5)


def test_the_summary_is_the_last_object_of_a_log() -> None:
    assert summary_of('step 1\n{"steps": 1}\n{"steps": 2}\n{broken\n') == {"steps": 2}
    with pytest.raises(DidNotHappen, match="no summary"):
        summary_of("Traceback (most recent call last)")


def test_exit_codes() -> None:
    replicas = [workload_pb2.Replica(exit_code=0), workload_pb2.Replica()]
    assert exit_codes(Entry(workload_pb2.Workload(replicas=replicas))) == [0]


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with Muster("127.0.0.1:1") as muster:
        yield Scene(muster, Diary(), {"bootstrap_servers": "127.0.0.1:1"}, tmp_path)


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if name != "trigger"])
async def test_every_document_is_valid(scene: Scene, name: str) -> None:
    (document,) = language.read(scene.document(name))
    assert not document.violations
    assert document.namespace == f"runai-{PROJECT}"
    assert document.spec.working_dir == str(PROGRAMS)


async def test_the_trigger_names_the_template(scene: Scene) -> None:
    expected = triggers_pb2.Trigger(
        project=PROJECT,
        template="nightly",
        event_sources=["demo/datasets"],
        environment={"DATASET": "data.uri"},
        enabled=True,
    )
    made = scene.trigger("trigger")
    made.ClearField("name")
    made.ClearField("event_type")
    assert made == expected


def test_a_training_goes_on_where_it_was(tmp_path: Path) -> None:
    def run(steps: int) -> dict[str, float]:
        argv = [sys.executable, str(PROGRAMS / "train.py"), "--steps", str(steps), "--pause", "0"]
        env = {"CHECKPOINT": str(tmp_path / "kept.json")}
        ran = subprocess.run(argv, check=True, capture_output=True, text=True, env=env)
        found: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
        return found

    first, second = run(5), run(40)
    assert (first["steps"], first["resumed_at"]) == (5, 0)
    assert (second["steps"], second["resumed_at"]) == (40, 5)
    assert second["last_loss"] < first["last_loss"] < first["first_loss"]


def test_an_unknown_act_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert demo(only=["nonsense"]) == 2
    assert "half-a-gpu" in capsys.readouterr().err


def test_the_table_of_checks_says_what_failed() -> None:
    out = io.StringIO()
    screen = Screen(Console(file=out, width=80))
    outcomes = [Outcome(act.title, "proof", 1.0, happened=act is not ACTS[0]) for act in ACTS]
    screen.checks(outcomes, 60.0)
    lines = out.getvalue().splitlines()
    assert sum(line.startswith("✘") for line in lines) == 1
    assert f"{len(ACTS) - 1} of {len(ACTS)} happened, in 60 s" in lines
    assert all(len(line) <= 80 for line in lines)
