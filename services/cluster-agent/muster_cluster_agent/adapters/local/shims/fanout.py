"""The launcher of a gang whose ranks torchrun starts: one command on each worker at once, through its exec daemon.

    python -I -S fanout.py <file>

The file is JSON: a list of {"host", "socket", "command", "env"}. Exits with 0 once every command has, else with the
code of the first that failed: the connections close with this process, and the daemons end what is left.
"""

from __future__ import annotations

import array
import json
import os
import select
import socket
import sys
from typing import Any

_UNREACHABLE = 255


def begin(call: dict[str, Any]) -> socket.socket:
    """Hands the command to the worker's daemon, with our own output; through /proc, since socket paths are short."""
    folder = os.open(os.path.dirname(call["socket"]), os.O_RDONLY | os.O_DIRECTORY)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(f"/proc/self/fd/{folder}/{os.path.basename(call['socket'])}")
    finally:
        os.close(folder)
    request = json.dumps({"command": call["command"], "env": call["env"]}).encode() + b"\n"
    connection.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
    return connection


def answer(connection: socket.socket) -> int:
    """The command's exit code; that of an unreachable host where the worker has ended."""
    line = b""
    while not line.endswith(b"\n"):
        chunk = connection.recv(64)
        if not chunk:
            return _UNREACHABLE
        line += chunk
    return int(line)


def main() -> int:
    """All commands, until one fails or all have ended."""
    with open(sys.argv[1], encoding="utf-8") as file:
        calls: list[dict[str, Any]] = json.load(file)
    waiting: dict[int, tuple[str, socket.socket]] = {}
    for call in calls:
        try:
            connection = begin(call)
        except OSError as error:
            sys.stderr.write(f"muster: no way to {call['host']}: {error}\n")
            return _UNREACHABLE
        waiting[connection.fileno()] = (call["host"], connection)
    while waiting:
        readable, _, _ = select.select(list(waiting), [], [])
        for descriptor in readable:
            host, connection = waiting.pop(descriptor)
            code = answer(connection)
            if code:
                sys.stderr.write(f"muster: {host} ended with {code}\n")
                return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
