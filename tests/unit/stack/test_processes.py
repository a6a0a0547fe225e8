"""Processes are known by pid and start time or by a mark, never by a name, and what is to end does end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster_stack.processes import (
    STACK_MARK,
    Command,
    Identity,
    end_all,
    environment,
    identify,
    kill_group,
    marked,
    send,
    stop,
    wait_until,
    working_in,
)

_WAITS = "import signal, sys; print('up', flush=True); signal.pause()"
_IGNORES = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {_WAITS}"
_FORKS = f"import os; os.fork(); {_WAITS}"


class Started:
    """Starts scripts under one mark and collects them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = f"test-{os.getpid()}-{folder.name}"
        self.processes: list[subprocess.Popen[bytes]] = []

    def __call__(self, script: str, ups: int = 1) -> subprocess.Popen[bytes]:
        log = self.folder / f"{len(self.processes)}.log"
        env = {**os.environ, STACK_MARK: self.mark}
        process = Command(argv=(sys.executable, "-c", script), log=log, env=env, cwd=self.folder).spawn()
        self.processes.append(process)
        wait_until(lambda: log.read_text().count("up") == ups, seconds=10, what="the script runs")
        return process


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    started = Started(tmp_path)
    yield started
    for process in started.processes:
        kill_group(process.pid)
        process.wait()


def test_no_other_user_reads_what_a_server_makes(started: Started) -> None:
    started(f"import os; os.mkdir('partition'); open('partition/records', 'w').close(); {_WAITS}")
    made = ("0.log", "partition", "partition/records")
    assert [oct((started.folder / name).stat().st_mode & 0o777) for name in made] == ["0o600", "0o700", "0o600"]


def test_a_process_is_itself_until_it_ends(started: Started) -> None:
    process = started(_WAITS)
    identity = identify(process.pid)
    assert identity is not None
    assert identity.alive()
    assert not Identity(process.pid, identity.started + 1).alive()
    process.kill()
    # Not collected yet: a zombie does not count as alive, nor can it be signalled.
    wait_until(lambda: not identity.alive(), seconds=10, what="the end")
    assert identify(process.pid) is None
    assert not send(identity, signal.SIGTERM)


def test_a_successor_with_the_same_pid_is_not_signalled(started: Started) -> None:
    process = started(_WAITS)
    identity = identify(process.pid)
    assert identity is not None
    assert not send(Identity(process.pid, identity.started - 1), signal.SIGKILL)
    assert identity.alive()
    assert send(identity, signal.SIGKILL)


def test_marked_processes_are_found_and_ended_stubborn_ones_too(started: Started) -> None:
    gentle, stubborn = started(_WAITS), started(_IGNORES)
    found = {process.pid for process in marked(started.mark)}
    assert found == {gentle.pid, stubborn.pid}
    assert environment(gentle.pid)[STACK_MARK] == started.mark
    assert end_all(lambda: marked(started.mark), grace=0.2) == 2
    assert gentle.wait() == -signal.SIGTERM
    assert stubborn.wait() == -signal.SIGKILL
    assert end_all(lambda: marked(started.mark), grace=0.2) == 0


def test_processes_are_found_by_the_folder_they_work_in(started: Started) -> None:
    process = started(_WAITS)
    assert [found.pid for found in working_in(started.folder)] == [process.pid]


def test_stopping_a_leader_ends_its_group(started: Started) -> None:
    leader = started(_FORKS, ups=2)
    assert len(marked(started.mark)) == 2
    assert stop(leader, grace=5) == -signal.SIGTERM
    wait_until(lambda: not marked(started.mark), seconds=10, what="the group's end")


def test_a_condition_that_never_holds_is_named() -> None:
    with pytest.raises(TimeoutError, match=r"the impossible: not within 0\.05 s"):
        wait_until(lambda: False, seconds=0.05, what="the impossible")


def test_what_is_to_die_with_its_parent_does(started: Started, tmp_path: Path) -> None:
    script = (
        "import sys, signal, pathlib; from muster_stack.processes import Command;"
        f"child = Command(argv=(sys.executable, '-c', {_IGNORES!r}), log=pathlib.Path({str(tmp_path / 'child')!r}),"
        f"env={{{STACK_MARK!r}: {started.mark!r}}}, dies_with_parent=signal.SIGKILL).spawn(); {_WAITS}"
    )
    parent = started(script)
    wait_until(lambda: len(marked(started.mark)) == 2, seconds=10, what="the child runs")
    parent.kill()
    wait_until(lambda: not marked(started.mark), seconds=10, what="the child's end")
