"""The fork server: a small preloaded process that forks one supervisor a request.

Started by the agent with a socket as its standard input, ends when the agent does; the supervisors stay. It may die and
be started again at any time. Standard library only: what it imports stays in the memory of every supervisor.
Holds: it forks from its only thread, since PDEATHSIG fires when the forking thread ends.

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
from typing import Final, NoReturn

from muster_cluster_agent.adapters.local.supervisor import supervise

_READY: Final = b"ready\n"
_STALE: Final = 1.0  # seconds between two collections of ended supervisors


def main() -> None:
    """Serves until the agent closes its end."""
    gc.disable()
    gc.freeze()  # shared pages stay shared: the collector would touch every object's header
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # a Ctrl-C at the terminal is the agent's business; it closes our input
    os.write(0, _READY)
    pending = b""
    while True:
        readable, _, _ = select.select([0], [], [], _STALE)
        _collect()
        if not readable:
            continue
        chunk = os.read(0, 65536)
        if not chunk:
            return
        *requests, pending = (pending + chunk).split(b"\n")
        for request in requests:
            _answer(_fork(request.decode()), request)


def _fork(folder: str) -> int:
    try:
        pid = os.fork()
    except OSError:
        return 0
    if pid == 0:
        _serve(folder)
    return pid


def _serve(folder: str) -> NoReturn:
    code = 1
    try:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)  # the agent's socket: a supervisor that kept it would keep the fork server alive
        os.dup2(null, 1)
        supervise(folder)
        code = 0
    except BaseException:  # noqa: BLE001  the last resort of a process that nobody waits for: said on standard error, then gone
        traceback.print_exc(file=sys.stderr)
        sys.stderr.flush()
    finally:
        os._exit(code)


def _answer(pid: int, request: bytes) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        os.write(0, f"{pid} ".encode() + request + b"\n")


def _collect() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue


if __name__ == "__main__":
    main()
