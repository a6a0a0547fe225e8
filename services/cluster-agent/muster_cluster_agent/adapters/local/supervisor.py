"""The supervisor of one replica: starts its command, keeps its log and journal, ends its whole tree.

Forked by the fork server, one process a replica, and outlives the agent. Standard library only.
Holds: what a line of the journal says is on the disk before the thing it permits happens (a start) or is told (an end);
the command dies with the supervisor (PDEATHSIG); no process of the replica is left when the last line, `gone`, is
written.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
import socket
import time
from collections.abc import Sequence
from typing import Any, Final

from muster_cluster_agent.adapters.local import child, journal, limits, procfs
from muster_cluster_agent.adapters.local.command import Command
from muster_cluster_agent.adapters.local.logfile import LogWriter, Throttle

_PR_SET_NAME: Final = 15
_PR_SET_CHILD_SUBREAPER: Final = 36
_PIPE_CHUNK: Final = 65536
_DRAIN_LIMIT: Final = 4 * 1024 * 1024
_DEADLINE_CHECK: Final = 1.0  # seconds between two looks at the dead-man's file
_KILL_CHECK: Final = 0.05  # seconds between two rounds of killing, and
_KILL_REST: Final = 4.0  # that many times what the last round took
_NOT_FOUND: Final = 127
_SIGNALLED: Final = 128  # plus the signal: the exit code of a command that a signal ended


class Supervisor:
    """One replica's life, from the locked journal to `gone`."""

    def __init__(self, folder: str, command: Command) -> None:
        """Locks the journal. Raises whatever keeps the replica from being supervised at all.

        command: the process that becomes its command.
        """
        self._folder = folder
        self._command = command
        self._journal = journal.Journal(folder, wait=True)
        self._spec: dict[str, Any] = journal.read_spec(folder)
        self._budget: dict[str, Any] = self._spec.get("budget", {})
        self._log = LogWriter(self._spec["log"]["folder"], int(self._spec["log"]["budget"]))
        self._throttle = Throttle(int(self._spec["log"]["budget"]), time.monotonic())
        self._child = command.pid
        self._output = command.output
        self._exit: int | None = None
        self._kill_at: float | None = None
        self._dead = False  # whether the dead-man's deadline is over
        self._spent_before: str | None = None  # what was spent before this process refused forks
        self._since = time.monotonic()
        self._wakeup = _wakeup_pipe()

    def run(self) -> None:
        """Starts the command and stays until no process of the replica is left."""
        if self._journal.size() > 0:
            return  # an agent has declared this replica dead before we came: it must not start now
        if self._limited() and self._start():
            self._watch()
        self._end_rest()
        limits.remove(self._budget)

    def _limited(self) -> bool:
        """Set the replica's limits. False where they cannot be set: it is not run without them."""
        try:
            limits.make(self._budget)
        except OSError as failure:
            me = os.getpid()
            self._journal.append(
                {"event": "supervised", "pid": me, "start": procfs.start_time(me), "boot": procfs.boot_id()}
            )
            self._refuse(child.NOT_EXECUTABLE, f"its limits cannot be set: {failure}")
            return False
        return True

    def _start(self) -> bool:
        """Writes down who the command is, and only then lets it run. False where it could not be run."""
        me = os.getpid()
        self._command.prepare(self._folder)
        self._journal.append(
            {"event": "supervised", "pid": me, "start": procfs.start_time(me), "boot": procfs.boot_id()},
            {"event": "started", "pid": self._child, "start": procfs.start_time(self._child)},
        )
        failed = self._command.go()
        if failed:
            number, _, text = failed.decode(errors="replace").partition(" ")
            self._refuse(*_why(int(number), text, self._spec["argv"][0]))
            return False
        self._notify()
        return True

    def _refuse(self, code: int, reason: str) -> None:
        self._log.write(f"muster: cannot run {reason}\n".encode())
        self._command.drop()
        self._exit = code
        self._journal.append(
            {"event": "refused", "code": code, "reason": reason}, {"event": "exited", "code": code, "signal": None}
        )

    def _watch(self) -> None:
        """Until the command has ended: its output, its end, and what the agent or the dead-man's deadline wants."""
        poller = select.poll()
        poller.register(self._output, select.POLLIN)
        poller.register(self._wakeup, select.POLLIN)
        os.set_blocking(self._output, False)
        open_output = True
        # A request before the journal named this process could not wake it; one from now on does.
        self._read_stop()
        while self._exit is None:
            pause = self._throttle.pause(time.monotonic()) if open_output else 0.0
            if open_output:
                poller.modify(self._output, 0 if pause else select.POLLIN)
            for descriptor, _ in poller.poll(self._patience(pause)):
                if descriptor == self._wakeup:
                    _empty(self._wakeup)
                    self._read_stop()
                else:  # within a pause only where the other end was closed: what is left is one pipe full
                    open_output = self._copy(_PIPE_CHUNK)
                    if not open_output:
                        poller.unregister(self._output)
            self._reap()
            self._check_deadlines()

    def _patience(self, pause: float) -> int | None:
        """Milliseconds until the next deadline has to be looked at, or the log goes on; None: nothing is due."""
        waits = [pause] if pause else []
        if self._kill_at is not None:
            waits.append(max(0.0, self._kill_at - time.monotonic()))
        if self._spec.get("deadline"):
            waits.append(_DEADLINE_CHECK)
        return int(min(waits) * 1000) + 1 if waits else None

    def _copy(self, limit: int) -> bool:
        """One chunk of output into the log; False at its end."""
        try:
            chunk = os.read(self._output, limit)
        except BlockingIOError:
            return True
        self._log.write(chunk)
        self._throttle.take(len(chunk), time.monotonic())
        return bool(chunk)

    def _reap(self) -> None:
        """Collects everyone who has ended; the command's own end is kept."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._child:
                self._exit = _SIGNALLED + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)

    def _read_stop(self) -> None:
        """What the agent asks for in the stop file. A later, shorter grace shortens the first one."""
        try:
            with open(os.path.join(self._folder, journal.STOP), "rb") as file:
                wish = json.load(file)
        except (OSError, ValueError):
            return
        self._stop(float(wish.get("grace", 0)), str(wish.get("reason", "asked")))

    def _stop(self, grace: float, reason: str) -> None:
        at = time.monotonic() + max(0.0, grace)
        if self._kill_at is not None:
            self._kill_at = min(self._kill_at, at)
            return
        self._journal.append({"event": "stopping", "grace": grace, "reason": reason})
        self._kill_at = at
        # The command leads a session of its own, so its group is what a terminal would interrupt.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child, signal.SIGTERM)

    def _check_deadlines(self) -> None:
        self._check_dead_man()
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._kill_at = self._kill()

    def _check_dead_man(self) -> None:
        """End everything where the bus has heard nothing for the deadline; a stop that is under way loses its grace."""
        deadline = self._spec.get("deadline")
        if not deadline or self._dead:
            return
        if time.monotonic() - _renewed(deadline["file"], self._since) > float(deadline["seconds"]):
            self._dead = True
            self._stop(0.0, "dead-man")

    def _kill(self) -> float:
        """Kill all that is left: by its groups, where nothing can fork any more, and what has not joined them yet.

        Returns when to do it again on the monotonic clock.
        """
        began = time.monotonic()
        if self._spent_before is None:
            self._spent_before = limits.spent(self._budget)
        limits.kill(self._budget)
        procfs.kill_all(self._outside())
        ended = time.monotonic()
        # Services need this CPU time, as do the processes that are to end: a round over a thousand takes 10 to 50 ms.
        return ended + max(_KILL_CHECK, _KILL_REST * (ended - began))

    def _outside(self) -> list[int]:
        """What may run outside its groups: the command before it joined them; without a limit of forks everything."""
        if not limits.closes(self._budget):
            return procfs.descendants(os.getpid())
        return [self._child] if self._exit is None else []

    def _end_rest(self) -> None:
        """The command has ended: drains its output, writes its end, and ends what it left behind."""
        with contextlib.suppress(BlockingIOError, OSError):
            for _ in range(_DRAIN_LIMIT // _PIPE_CHUNK):
                chunk = os.read(self._output, _PIPE_CHUNK)
                if not chunk:
                    break
                self._log.write(chunk)
        code = self._exit if self._exit is not None else 255
        ended = {"event": "exited", "code": code, "signal": code - _SIGNALLED if code > _SIGNALLED else None}
        if spent := self._spent(code):
            ended["spent"] = spent
        gone = {"event": "gone", "evidence": "no-process"}
        refused = code in {_NOT_FOUND, child.NOT_EXECUTABLE} and self._output_never_ran()
        lines = [] if refused else [ended]
        if _childless():
            self._journal.append(*lines, gone)
        else:
            if lines:
                self._journal.append(*lines)
            self._notify()
            self._kill_rest()
            self._journal.append(gone)
        self._journal.close()
        self._notify()

    def _spent(self, code: int) -> str:
        """Which budget was used up; empty: none."""
        if code == _SIGNALLED + signal.SIGXFSZ:
            return "file"
        if not code:
            return ""
        return limits.spent(self._budget) if self._spent_before is None else self._spent_before

    def _output_never_ran(self) -> bool:
        return any(line.get("event") == "refused" for line in journal.read(self._folder))

    def _kill_rest(self) -> None:
        """Descendants that outlived the command: within a stop they have the rest of its grace, otherwise none."""
        again = 0.0  # each descendant that ends wakes this loop, which must not kill all others again each time
        while not _childless():
            self._reap()
            if time.monotonic() >= max(again, self._kill_at or 0.0):
                again = self._kill()
            select.select([self._wakeup], [], [], _KILL_CHECK)
            _empty(self._wakeup)
            if self._kill_at is not None:
                self._read_stop()
                self._check_dead_man()

    def _notify(self) -> None:
        """Tells the agent, if there is one, that the journal has grown; it looks by itself otherwise."""
        target = self._spec.get("notify")
        if not target:
            return
        with contextlib.suppress(OSError):
            folder = os.open(os.path.dirname(target), os.O_RDONLY | os.O_DIRECTORY)
            try:
                # Through /proc, since a socket's path may have 107 bytes only and a state folder may be anywhere.
                with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
                    sender.sendto(self._spec["name"].encode(), f"/proc/self/fd/{folder}/{os.path.basename(target)}")
            finally:
                os.close(folder)


def _why(number: int, text: str, program: str) -> tuple[int, str]:
    """The exit code and the reason of a command that could not be run. text: why, where the program is not to blame."""
    missing = not text and number in {errno.ENOENT, errno.ENOTDIR}
    return _NOT_FOUND if missing else child.NOT_EXECUTABLE, text or f"{program}: {os.strerror(number)}"


def _wakeup_pipe() -> int:
    """A descriptor that becomes readable when a signal has come."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, lambda _number, _frame: None)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    return read


def _empty(descriptor: int) -> None:
    with contextlib.suppress(BlockingIOError):
        while os.read(descriptor, 512):
            continue


def _childless() -> bool:
    """Whether no process of the replica is left: a subreaper's orphans are its children, so ECHILD says it all."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid == 0:
            return False


def _renewed(file: str, otherwise: float) -> float:
    """When the agent's last heartbeat was sent that the bus acknowledged, on the monotonic clock of this boot.

    Also where that was before this replica started: the scheduler counts from what it has heard.
    """
    try:
        with open(file, "rb") as handle:
            content = json.load(handle)
        if content["boot"] == procfs.boot_id():
            return float(content["monotonic"])
    except (OSError, ValueError, KeyError, TypeError):
        return otherwise
    return otherwise


def prepare(closed: Sequence[int] = ()) -> Command:
    """Make this process one that can supervise: detached from the fork server, with a command that waits.

    Raises OSError where no process can be made. closed: files of this process that the command must not keep open.
    """
    os.setsid()
    child.prctl(_PR_SET_NAME, b"muster-replica")
    child.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    return Command(closed)


def supervise(folder: str, command: Command | None = None) -> None:
    """The supervisor process itself, gone when its replica is. command: of `prepare`; None: it is prepared now."""
    Supervisor(folder, command or prepare()).run()
