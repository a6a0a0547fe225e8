"""The fork server: a small preloaded process that gives each replica a supervisor.

Started by the agent with a socket as its standard input, ends when the agent does; the supervisors stay. It may die and
be started again at any time. Standard library only: what it imports stays in the memory of every supervisor.
It forks spare supervisors while it has nothing to do, each with the process that will be its command: on a busy machine
the two forks were a good part of a start. A burst uses the spares up and gets forks of its own.
Holds: it forks from its only thread, since PDEATHSIG fires when the forking thread ends; a spare that gets no replica
ends with the fork server.

A request is one line, the folder of a replica; the answer is one line, `<pid> <folder>`, pid 0 where no fork was
possible.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import sys
import traceback
from dataclasses import dataclass
from typing import Final, NoReturn

from muster_cluster_agent.adapters.local.supervisor import prepare, supervise

_READY: Final = b"ready\n"
_STALE: Final = 1.0  # seconds between two collections of ended supervisors
_SPARES: Final = 2
_QUIET: Final = 0.1  # seconds without a request before a spare is made: before that it would delay the last start
_FOLDER_BYTES: Final = 65536


@dataclass(frozen=True, slots=True)
class Waiting:
    """A supervisor that waits for its replica. words: the end of the pipe through which it is told the folder."""

    pid: int
    words: int


class ForkServer:
    """The supervisors that wait, and those that are forked."""

    def __init__(self) -> None:
        """Has none."""
        self._spares: list[Waiting] = []
        self._failed = False  # the last spare could not be made, or ended by itself

    @property
    def patience(self) -> float:
        """Seconds to wait for a request before `rest`."""
        return _QUIET if len(self._spares) < _SPARES and not self._failed else _STALE

    def rest(self) -> None:
        """Do what can wait: make one spare."""
        self._failed = False
        if len(self._spares) < _SPARES:
            spare = self._fork()
            self._failed = spare is None
            if spare is not None:
                self._spares.append(spare)

    def give(self, folder: bytes) -> int:
        """Give a replica its supervisor. Returns its pid; 0 where no process could be made."""
        while self._spares:
            spare = self._spares.pop(0)
            if _told(spare, folder):
                return spare.pid
        made = self._fork()
        return made.pid if made is not None and _told(made, folder) else 0

    def collect(self) -> None:
        """Collect what has ended. A spare among it is not replaced at once: what ended it may end the next one."""
        with contextlib.suppress(ChildProcessError):
            while pid := os.waitpid(-1, os.WNOHANG)[0]:
                for spare in [each for each in self._spares if each.pid == pid]:
                    self._spares.remove(spare)
                    os.close(spare.words)
                    self._failed = True

    def _fork(self) -> Waiting | None:
        read, words = os.pipe()
        try:
            pid = os.fork()
        except OSError:
            os.close(read)
            os.close(words)
            return None
        if pid == 0:
            for end in (words, *(spare.words for spare in self._spares)):
                os.close(end)  # kept open here they would keep a spare alive after the fork server
            _serve(read)
        os.close(read)
        return Waiting(pid, words)


def main() -> None:
    """Serves until the agent closes its end."""
    gc.disable()
    gc.freeze()  # shared pages stay shared: the collector would touch every object's header
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # a Ctrl-C at the terminal is the agent's business; it closes our input
    os.write(0, _READY)
    server = ForkServer()
    pending = b""
    while True:
        readable, _, _ = select.select([0], [], [], server.patience)
        server.collect()
        if not readable:
            server.rest()
            continue
        chunk = os.read(0, 65536)
        if not chunk:
            return
        *requests, pending = (pending + chunk).split(b"\n")
        for request in requests:
            _answer(server.give(request), request)


def _serve(words: int) -> NoReturn:
    code = 1
    try:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)  # the agent's socket: a supervisor that kept it would keep the fork server alive
        os.dup2(null, 1)
        command = prepare(closed=[words])  # kept open there, a dead spare could be told a folder
        folder = _heard(words)
        if folder:
            supervise(folder, command)
        code = 0
    except BaseException:  # noqa: BLE001  the last resort of a detached process: said on standard error, then gone
        traceback.print_exc(file=sys.stderr)
        sys.stderr.flush()
    finally:
        os._exit(code)


def _told(waiting: Waiting, folder: bytes) -> bool:
    """Whether a supervisor was there to be told its folder."""
    try:
        os.write(waiting.words, folder + b"\n")
    except BrokenPipeError:
        return False
    finally:
        os.close(waiting.words)
    return True


def _heard(words: int) -> str:
    """The folder of the replica; empty: the fork server has ended, and there will be none."""
    said = b""
    while piece := os.read(words, _FOLDER_BYTES):
        said += piece
    os.close(words)
    return os.fsdecode(said.removesuffix(b"\n")) if said.endswith(b"\n") else ""


def _answer(pid: int, request: bytes) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        os.write(0, f"{pid} ".encode() + request + b"\n")


if __name__ == "__main__":
    main()
