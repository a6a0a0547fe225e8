"""The rsh that mpirun calls: hands a command to the exec daemon of the worker it is meant for.

    agent-rsh [options] <host> <command words>

$MUSTER_HOSTS names a JSON file: host -> the socket of its daemon. Exits with the command's own code; 255 where the
worker cannot be reached, as ssh does.
"""

from __future__ import annotations

import array
import json
import os
import socket
import sys

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


def connect(path: str) -> socket.socket:
    """The daemon's socket, through /proc, since a socket's path may have 107 bytes only."""
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
    finally:
        os.close(folder)
    return connection


def main() -> int:
    """One command on one host."""
    host, command = words(sys.argv[1:])
    try:
        with open(os.environ["MUSTER_HOSTS"], encoding="utf-8") as file:
            hosts = json.load(file)
        connection = connect(hosts[host])
    except (OSError, KeyError, ValueError) as error:
        sys.stderr.write(f"agent-rsh: no way to {host!r}: {error!r}\n")
        return _UNREACHABLE
    request = json.dumps({"command": " ".join(command)}).encode() + b"\n"
    connection.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
    answer = b""
    while not answer.endswith(b"\n"):
        chunk = connection.recv(64)
        if not chunk:
            return _UNREACHABLE  # the worker has ended
        answer += chunk
    return int(answer)


if __name__ == "__main__":
    sys.exit(main())
