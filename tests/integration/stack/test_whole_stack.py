"""The whole embedded stack, every service a process: it comes up, says so, is small, and is one a folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muster_stack.commands import keeper_command, start_detached, status
from muster_stack.errors import StartFailed
from muster_stack.keeper.control import Stack
from muster_stack.keeper.state import State

_PARTS = {"kafka", "postgres", "submission", "policy", "scheduler", "telemetry", "agent-north", "agent-south"}
_KEEPER_LIMIT = 64_000  # KiB of memory


def test_everything_is_ready_and_nothing_died_on_the_way(running_stack: Stack) -> None:
    seen = running_stack.status()
    assert seen["ready"]
    assert seen["unregistered"] == []
    assert set(seen["services"]) == _PARTS
    assert set(running_stack.restarts().values()) == {0}


def test_programs_can_ask_for_the_status(running_stack: Stack, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(data=running_stack.layout.root, as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["services"]["submission"]["grpc"].startswith("127.0.0.1:")
    assert status(data=running_stack.layout.root) == 0
    assert "agent-south" in capsys.readouterr().out


def test_a_second_stack_in_the_folder_is_refused(running_stack: Stack) -> None:
    layout = running_stack.layout
    with pytest.raises(StartFailed, match="a stack already runs in"):
        start_detached(layout, keeper_command(layout))
    assert running_stack.status()["ready"]


def test_the_keeper_is_small(running_stack: Stack) -> None:
    keeper = State.load(running_stack.layout).keeper
    assert keeper is not None
    lines = Path(f"/proc/{keeper.pid}/status").read_text().splitlines()
    resident = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
    assert resident < _KEEPER_LIMIT
