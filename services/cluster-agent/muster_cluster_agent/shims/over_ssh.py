"""Runs one command on each worker over ssh, until one of them fails or all have ended.

    python3 over_ssh.py <ssh's configuration> <file with the calls>

The file has `env` for every worker, `forward` (names of variables whose values this process has and the file must not)
and `calls`, each with `host`, `command` (for a shell) and an `env` of its own. Exits with the code of the first command
that failed, 128 + n for signal n; 255 is ssh's own where a worker cannot be reached or is lost.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from types import FrameType
from typing import Any


def main() -> int:
    """Starts every command, then waits for the first end that is not 0."""
    configuration, path = sys.argv[1:3]
    with open(path, encoding="utf-8") as file:
        asked: dict[str, Any] = json.load(file)
    if not asked["calls"]:  # a launcher that started nothing must not look like one that succeeded
        sys.stderr.write("muster: there is no worker to start anything on\n")
        return 1
    signal.signal(signal.SIGTERM, _end)
    forwarded = {name: os.environ[name] for name in asked["forward"] if name in os.environ}
    running: dict[int, tuple[str, subprocess.Popen[bytes]]] = {}
    try:
        for call in asked["calls"]:
            line = _line(call["command"], {**asked["env"], **forwarded, **call["env"]})
            words = ["ssh", "-F", configuration, call["host"], line]
            child = subprocess.Popen(words, stdin=subprocess.DEVNULL)
            running[child.pid] = (call["host"], child)
        while running:
            pid, status = os.wait()
            if pid not in running:  # as the container's first process it also inherits what others leave behind
                continue
            host, child = running.pop(pid)
            child.returncode = os.waitstatus_to_exitcode(status)
            if child.returncode:
                code = 128 - child.returncode if child.returncode < 0 else child.returncode
                sys.stderr.write(f"muster: {host} ended with {code}\n")
                return code
    except FileNotFoundError:
        sys.stderr.write("muster: the image of the launcher has no ssh; install openssh-client in it\n")
        return 127
    finally:
        for _, child in running.values():
            child.terminate()
    return 0


def _line(command: str, env: dict[str, str]) -> str:
    """The command with its variables before it; a name that no shell takes is left out."""
    set_ = [f"export {name}={shlex.quote(value)};" for name, value in env.items() if name.isidentifier()]
    return " ".join([*set_, command])


def _end(_number: int, _frame: FrameType | None) -> None:
    sys.exit(143)


if __name__ == "__main__":
    sys.exit(main())
