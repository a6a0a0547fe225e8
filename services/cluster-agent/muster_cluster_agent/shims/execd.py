"""The exec daemon of a worker: runs the commands that a launcher sends over a Unix socket, as sshd would.

    python -I -S execd.py <socket>

One connection is one command: a JSON line {"command", "env"} with the caller's standard streams beside it
(SCM_RIGHTS); the answer is one line, the exit code. A caller that goes away takes its command with it. SIGTERM ends
the daemon with 0.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
from typing import Any

_LIMIT = 1 << 20  # bytes of a request
_STREAMS = 3
_PR_SET_PDEATHSIG = 1


class Call:
    """A command that runs, and who waits for it."""

    def __init__(self, connection: socket.socket, process: subprocess.Popen[bytes]) -> None:
        """Both ends."""
        self.connection = connection
        self.process = process


def listen(path: str) -> socket.socket:
    """The socket, for its owner alone. Through /proc, since a socket's path may have 107 bytes only."""
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
    name = f"/proc/self/fd/{folder}/{os.path.basename(path)}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    server.bind(name)
    os.umask(before)
    server.listen(64)
    os.close(folder)
    return server


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """The request and the caller's streams."""
    connection.settimeout(5)
    data = b""
    streams = array.array("i")
    while not data.endswith(b"\n") and len(data) < _LIMIT:
        chunk, ancillary, _, _ = connection.recvmsg(65536, socket.CMSG_SPACE(_STREAMS * streams.itemsize))
        for level, kind, payload in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                streams.frombytes(payload[: len(payload) - len(payload) % streams.itemsize])
        if not chunk:
            break
        data += chunk
    connection.settimeout(None)
    return json.loads(data), list(streams)


def scratch(path: str) -> str:
    """A folder beside the socket for what Open MPI's daemon keeps while it runs.

    Workers of one machine believe that they are alone on it: two daemons that make the same folder in /tmp at the same
    moment make one of them fail with "File exists", and with it the whole job.
    """
    folder = os.path.join(os.path.dirname(os.path.abspath(path)), "tmp")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return folder


def start(connection: socket.socket, folder: str) -> Call | None:
    """Starts what a new connection asks for."""
    try:
        request, streams = receive(connection)
        environment = {**os.environ, "OMPI_MCA_orte_tmpdir_base": folder, **request.get("env", {})}
        process = subprocess.Popen(
            ["/bin/sh", "-c", request["command"]],
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            env=environment,
            start_new_session=True,
            preexec_fn=_die_with_me,  # noqa: PLW1509  one thread only; the command must not outlive its worker
        )
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        with contextlib.suppress(OSError):
            connection.sendall(b"255\n")
        connection.close()
        return None
    for stream in streams:
        os.close(stream)
    return Call(connection, process)


def _die_with_me() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def settle(calls: list[Call]) -> list[Call]:
    """Answers those whose command has ended."""
    left = []
    for call in calls:
        code = call.process.poll()
        if code is None:
            left.append(call)
            continue
        with contextlib.suppress(OSError):
            call.connection.sendall(f"{128 - code if code < 0 else code}\n".encode())
        call.connection.close()
    return left


def hang_up(call: Call) -> None:
    """The caller has gone: its command goes too."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(call.process.pid, signal.SIGKILL)


def main() -> None:
    """Serves until it is told to end."""
    server = listen(sys.argv[1])
    folder = scratch(sys.argv[1])
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_read, False)
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.signal(signal.SIGTERM, lambda _number, _frame: os._exit(0))
    calls: list[Call] = []
    while True:
        by_socket = {call.connection.fileno(): call for call in calls}
        readable, _, _ = select.select([server.fileno(), wake_read, *by_socket], [], [])
        if wake_read in readable:
            with contextlib.suppress(BlockingIOError):
                os.read(wake_read, 512)
        if server.fileno() in readable:
            begun = start(server.accept()[0], folder)
            if begun is not None:
                calls.append(begun)
        for descriptor in readable:
            if descriptor in by_socket:
                hang_up(by_socket[descriptor])
        calls = settle(calls)


if __name__ == "__main__":
    main()
