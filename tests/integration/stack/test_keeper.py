"""The keeper restarts what dies, and whatever dies, nothing of a stack is lost sight of."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from muster_stack.commands import end
from muster_stack.errors import NotRunning, StackError, StartFailed
from muster_stack.keeper import sweep
from muster_stack.keeper.control import Stack
from muster_stack.keeper.state import State
from muster_stack.layout import Layout
from muster_stack.processes import Identity, identify, wait_until

_FAKE = Path(__file__).parents[2] / "support" / "fake_stack.py"

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[Layout]:
    layout = Layout.of(tmp_path / "data")
    yield layout
    end(layout)


@pytest.fixture
def start(layout: Layout, tmp_path: Path) -> Iterator[Start]:
    keepers: list[subprocess.Popen[bytes]] = []

    def starting(*flags: str) -> subprocess.Popen[bytes]:
        with (tmp_path / "keeper.log").open("ab") as log:
            argv = [sys.executable, str(_FAKE), "--data", str(layout.root), *flags]
            keepers.append(subprocess.Popen(argv, stdout=log, stderr=log))
        return keepers[-1]

    yield starting
    for keeper in keepers:
        keeper.kill()
        keeper.wait()


def _answers(stack: Stack) -> bool:
    try:
        stack.status()
    except NotRunning:
        return False
    return True


def _up(layout: Layout) -> Stack:
    stack = Stack(layout)
    wait_until(lambda: _answers(stack), seconds=20, what="the keeper's first answer")
    return stack


def _process(stack: Stack, name: str) -> Identity:
    row = stack.status()["services"][name]
    return Identity(row["pid"], row["started"])


def test_a_killed_part_is_started_again_and_counted(layout: Layout, start: Start) -> None:
    start()
    stack = _up(layout)
    stack.wait_ready(20)
    before = _process(stack, "worker")

    assert stack.kill("worker", signal.SIGKILL)
    wait_until(lambda: stack.restarts()["worker"] == 1, seconds=10, what="the restart is counted")
    stack.wait_ready(20)

    after = _process(stack, "worker")
    assert after != before
    assert not before.alive()
    assert after.alive()
    row = stack.status()["services"]["worker"]
    assert row["last_exit"] == -signal.SIGKILL
    assert stack.restarts()["agent-a"] == 0


def test_a_part_that_always_dies_is_tried_again_and_stops_nobody(layout: Layout, start: Start) -> None:
    start("--crasher")
    stack = _up(layout)
    wait_until(lambda: stack.restarts()["crasher"] >= 3, seconds=20, what="three restarts")
    status = stack.status()
    assert not status["ready"]
    assert status["services"]["worker"]["state"] == "ready"
    assert status["services"]["crasher"]["last_exit"] == 3
    with pytest.raises(StartFailed, match=r"crasher died 5 times within its first seconds(.|\n)*no cheese"):
        stack.wait_ready(60, give_up=True)


def test_a_second_keeper_of_one_folder_is_refused(layout: Layout, start: Start, tmp_path: Path) -> None:
    start()
    stack = _up(layout)
    second = start()
    assert second.wait(20) == 1
    assert "a stack already runs in" in (tmp_path / "keeper.log").read_text()
    assert stack.wait_ready(20)["ready"]


def test_stopping_leaves_nothing_running(layout: Layout, start: Start) -> None:
    keeper = start()
    stack = _up(layout)
    stack.wait_ready(20)
    replica = _replica(layout)
    keeper.send_signal(signal.SIGINT)
    assert keeper.wait(30) == 0
    assert sweep.everything(layout) == []
    assert not replica.alive()
    assert not layout.control.exists()


def test_an_agent_dies_and_its_replica_lives(layout: Layout, start: Start) -> None:
    start()
    stack = _up(layout)
    stack.wait_ready(20)
    replica = _replica(layout)
    stack.kill("agent-a")
    wait_until(lambda: stack.restarts()["agent-a"] == 1, seconds=10, what="the agent's restart")
    stack.wait_ready(20)
    assert replica.alive()


def test_a_new_keeper_ends_what_a_killed_one_left_and_keeps_replicas(layout: Layout, start: Start) -> None:
    keeper = start()
    stack = _up(layout)
    stack.wait_ready(20)
    left = [_process(stack, "worker"), _process(stack, "agent-a")]
    replica = _replica(layout)
    keeper.kill()
    keeper.wait()
    assert all(process.alive() for process in left)

    start()
    stack = _up(layout)
    stack.wait_ready(20)
    assert not any(process.alive() for process in left)
    assert replica.alive()


def test_down_ends_what_a_killed_keeper_left(layout: Layout, start: Start) -> None:
    keeper = start()
    _up(layout).wait_ready(20)
    replica = _replica(layout)
    keeper.kill()
    keeper.wait()
    assert len(sweep.everything(layout)) == 3

    assert "ended" in end(layout)
    assert sweep.everything(layout) == []
    assert not replica.alive()
    assert "nothing ran" in end(layout)


def test_requests_that_make_no_sense_are_answered(layout: Layout, start: Start) -> None:
    start()
    stack = _up(layout)
    with pytest.raises(StackError, match="there is no part 'nobody'; there are worker"):
        stack.kill("nobody")
    with pytest.raises(StackError, match="no Kafka of its own"):
        stack.wipe_kafka()
    for bytes_in, told in ((b"[1]\n", b"one JSON object"), (b"{\n", b"not JSON"), (b'{"do": "dance"}\n', b"unknown")):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(layout.control))
            connection.sendall(bytes_in)
            assert told in connection.recv(1000)
    assert stack.wait_ready(20)["ready"]


def test_kafka_comes_back_empty_and_postgres_comes_back_whole(layout: Layout, start: Start) -> None:
    start("--servers")
    stack = _up(layout)
    before = stack.wait_ready(60)["services"]
    first, second = stack.wipe_kafka(), stack.wipe_kafka()
    assert first != second
    assert stack.status()["services"]["kafka"]["bootstrap"] == before["kafka"]["bootstrap"]

    stack.kill("postgres")
    wait_until(lambda: stack.restarts()["postgres"] >= 1, seconds=10, what="PostgreSQL's restart")
    stack.wait_ready(60)
    assert stack.restarts()["kafka"] == 0  # a wipe was asked for: it is no death


def test_ports_are_kept_by_the_next_keeper(layout: Layout, start: Start) -> None:
    keeper = start("--servers")
    _up(layout).wait_ready(60)
    ports = State.load(layout).ports
    keeper.terminate()
    assert keeper.wait(30) == 0
    start("--servers")
    _up(layout).wait_ready(60)
    assert State.load(layout).ports == ports


def _replica(layout: Layout) -> Identity:
    path = layout.root / "agent-a.ready.replica"
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if path.exists() and (text := path.read_text()) and (found := identify(int(text))):
            return found
    raise AssertionError("the fake agent started no replica")
