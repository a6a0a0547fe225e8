"""What the stack knows about processes: to start one, tell it from a later one with its pid, find and end them.

Called by the keeper, the fixtures and `muster down`. Reads /proc directly, because the one question that matters
(which living process carries this mark in its environment?) is one that a parent's memory cannot answer after kill -9
of the parent.
Holds: nothing is ended by name; only by (pid, start time), by a mark in its environment, or by its own process group.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

STACK_MARK = "MUSTER_STACK_ID"
SERVICE_MARK = "MUSTER_SERVICE"
REPLICA_MARK = "MUSTER_REPLICA"

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
_PROC = Path("/proc")
_START_TIME_FIELD = 19  # field 22 of /proc/PID/stat, counted after the command's closing parenthesis
_STATE_FIELD = 0


PRIVATE: Final = 0o077
"""The umask of servers: no other user reads what they keep, also where a folder above is opened by mistake."""
SHARED: Final = 0o022
"""The umask of agents: replicas, which are other users, use some of the folders that an agent makes."""


@dataclass(frozen=True, slots=True)
class Command:
    """How to start a process: no shell, an explicit environment, its output appended to one file."""

    argv: Sequence[str]
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    user: int | None = None  # uid and gid to drop to; None keeps ours
    group: int | None = None
    dies_with_parent: int | None = None  # the signal that it gets when whoever spawned it is gone, kill -9 included
    umask: int = PRIVATE

    def spawn(self) -> subprocess.Popen[bytes]:
        """Starts it in a process group of its own, so that a Ctrl-C at the terminal reaches the keeper alone."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        # "Parent" is the thread that forks: from one that ends before the process does, the wish would kill too early.
        lasting = threading.current_thread() is threading.main_thread()
        ask = partial(_ask_for_signal, self.dies_with_parent) if self.dies_with_parent and lasting else None
        output = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(output, "ab") as log, _forking_quietly():
            return subprocess.Popen(
                list(self.argv),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(self.env),
                cwd=self.cwd,
                start_new_session=True,
                user=self.user,
                group=self.group,
                extra_groups=None if self.user is None else [],
                umask=self.umask,
                preexec_fn=ask,  # noqa: PLW1509 - one system call, which takes no lock
            )


@contextmanager
def _forking_quietly() -> Iterator[None]:
    # From Python 3.12 on a fork beside threads warns; what we do there takes no lock.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def _ask_for_signal(number: int) -> None:
    # Runs in the child, after it has dropped to its user: a change of user forgets this wish.
    _libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Identity:
    """A process and not its successor, which may get the same pid. `started` counts clock ticks since boot."""

    pid: int
    started: int

    def alive(self) -> bool:
        """Whether this very process still runs (a zombie does not)."""
        return identify(self.pid) == self


def _stat(pid: int) -> list[str] | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    return text[text.rindex(")") + 2 :].split()


def identify(pid: int) -> Identity | None:
    """Who has this pid now, or None where nobody or a zombie has it."""
    stat = _stat(pid)
    if stat is None or stat[_STATE_FIELD] in "ZX":
        return None
    return Identity(pid, int(stat[_START_TIME_FIELD]))


def environment(pid: int) -> dict[str, str]:
    """The environment a process was started with; empty where it is gone or another user's."""
    try:
        raw = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    pairs = (entry.partition(b"=") for entry in raw.split(b"\0") if entry)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def pids() -> Iterator[int]:
    """Every pid there is."""
    return (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())


def marked(stack: str, matches: Callable[[Mapping[str, str]], bool] = lambda _: True) -> list[Identity]:
    """The living processes whose environment carries this stack's mark and satisfies `matches`; never ourselves."""
    found = []
    for pid in pids():
        if pid == os.getpid():
            continue
        carried = environment(pid)
        if carried.get(STACK_MARK) == stack and matches(carried):
            found.append(identify(pid))
    return [process for process in found if process is not None]


def working_in(folder: Path) -> list[Identity]:
    """The living processes that work in `folder`: so PostgreSQL's children are known, which overwrite their marks."""
    wanted = str(folder.resolve())
    found = []
    for pid in pids():
        with suppress(OSError):
            if str((_PROC / str(pid) / "cwd").readlink()) == wanted:
                found.append(identify(pid))
    return [process for process in found if process is not None]


def send(process: Identity, number: int) -> bool:
    """Sends a signal to this process and no other; False where it is gone."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        if not process.alive():
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def end_all(find: Callable[[], list[Identity]], *, grace: float) -> int:
    """Ends everything that `find` returns: SIGTERM, after `grace` seconds SIGKILL, until nothing is found.

    Returns how many there were. `find` is asked again each round, so that a child forked meanwhile is found too.
    """
    seen: set[Identity] = set()
    deadline = time.monotonic() + grace
    while remaining := find():
        number = signal.SIGTERM if time.monotonic() < deadline else signal.SIGKILL
        for process in remaining:
            if process not in seen or number == signal.SIGKILL:
                send(process, number)
        seen.update(remaining)
        time.sleep(0.02)
    return len(seen)


def stop(process: subprocess.Popen[bytes], *, grace: float, number: int = signal.SIGTERM) -> int:
    """Ends a child and what is left of its process group; returns its exit status."""
    process.send_signal(number)
    try:
        status = process.wait(grace)
    except subprocess.TimeoutExpired:
        process.kill()
        status = process.wait()
    kill_group(process.pid)
    return status


def kill_group(leader: int) -> None:
    """Kills what a dead leader left in its process group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def wait_until(condition: Callable[[], bool], *, seconds: float, what: str, every: float = 0.02) -> None:
    """Polls `condition` until it holds; TimeoutError names `what` after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:g} s")
        time.sleep(every)
