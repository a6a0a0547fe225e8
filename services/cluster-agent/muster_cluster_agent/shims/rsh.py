"""The way from a launcher to the exec daemons of its workers.

    agent-rsh [options] <host> <command words>     one command on one host, as mpirun calls its rsh
    agent-rsh --calls <file>                       one command on each host at once, for gangs that torchrun ranks

$MUSTER_HOSTS names a JSON file: host -> the socket of its daemon. <file> is a JSON list of {"host", "socket",
"command", "env"}. Exits with the command's own code, that of the first that failed where there are several: the
connections close with this process, and the daemons end what is left. 255 where a worker cannot be reached, as ssh.
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
_WITH_VALUE = {"-o", "-l", "-p", "-i", "-F"}


def words(arguments: list[str]) -> tuple[str, list[str]]:
    """The host, and the command after it; ssh's options are dropped."""
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in _WITH_VALUE and rest:
            rest.pop(0)
    return (rest[0], rest[1:]) if rest else ("", [])


def begin(path: str, request: dict[str, Any]) -> socket.socket:
    """Hands a command to the daemon, with our own streams; through /proc, since a socket's path is short."""
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
    finally:
        os.close(folder)
    line = json.dumps(request).encode() + b"\n"
    connection.sendmsg([line], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
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


def one(arguments: list[str]) -> int:
    """One command on one host."""
    host, command = words(arguments)
    try:
        with open(os.environ["MUSTER_HOSTS"], encoding="utf-8") as file:
            hosts = json.load(file)
        connection = begin(hosts[host], {"command": " ".join(command)})
    except (OSError, KeyError, ValueError) as error:
        return _no_way(host, error)
    return answer(connection)


def each(path: str) -> int:
    """A command on each host, until one fails or all have ended."""
    with open(path, encoding="utf-8") as file:
        calls: list[dict[str, Any]] = json.load(file)
    waiting: dict[int, tuple[str, socket.socket]] = {}
    for call in calls:
        try:
            connection = begin(call["socket"], {"command": call["command"], "env": call["env"]})
        except OSError as error:
            return _no_way(call["host"], error)
        waiting[connection.fileno()] = (call["host"], connection)
    while waiting:
        readable, _, _ = select.select(list(waiting), [], [])
        for descriptor in readable:
            host, connection = waiting.pop(descriptor)
            code = answer(connection)
            if code:
                sys.stderr.write(f"agent-rsh: {host} ended with {code}\n")
                return code
    return 0


def _no_way(host: str, error: Exception) -> int:
    sys.stderr.write(f"agent-rsh: no way to {host!r}: {error!r}\n")
    return _UNREACHABLE


if __name__ == "__main__":
    sys.exit(each(sys.argv[2]) if sys.argv[1:2] == ["--calls"] else one(sys.argv[1:]))
