"""`python -m muster_cluster_agent.end <state folder>`: ends every replica of a folder, also where its agent is dead.

Called by `muster down`, which leaves nothing running. Supervisors are asked first, so that their journals are whole;
then everything in the control groups of this folder's replicas is killed, and everything that carries a mark of theirs.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Final

from muster_cluster_agent.adapters.local import journal, limits, procfs
from muster_cluster_agent.adapters.local.state import instance_of

_SECONDS: Final = 5.0
_GROUP_SECONDS: Final = 1.0
_USAGE: Final = 2


def end(state: Path, seconds: float = _SECONDS) -> int:
    """Ends all; how many processes are left after `seconds` (0 unless they cannot be killed)."""
    folders = [path for path in (state / "replicas").glob("w-*") if path.is_dir()]
    supervisors = []
    for folder in folders:
        line = next((one for one in journal.read(str(folder)) if one.get("event") == "supervised"), None)
        if line is None:
            continue
        (folder / journal.STOP).write_text(json.dumps({"grace": 0, "reason": "stack-down"}))
        supervisors.append((int(line["pid"]), int(line["start"] or 0)))
    for pid, start in supervisors:
        procfs.send(pid, start, signal.SIGCONT)
        procfs.send(pid, start, signal.SIGTERM)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(procfs.alive(*one) for one in supervisors):
        time.sleep(0.02)  # it waits for another program, which does not tell of its end
    for pid, start in supervisors:
        procfs.send(pid, start, signal.SIGKILL)
    _end_pump(state)
    for folder in folders:
        with contextlib.suppress(OSError, ValueError):  # without a spec it has not been started
            budget = journal.read_spec(str(folder)).get("budget", {})
            limits.end(budget, seconds=_GROUP_SECONDS)
            limits.remove(budget)
    names = {folder.name for folder in folders}
    agent = instance_of(state)
    left: list[int] = []
    for _ in range(50):
        left = [pid for name, pids in procfs.marked(agent).items() if name in names for pid in pids]
        if not left:
            return 0
        procfs.kill_all(left)
        time.sleep(0.02)  # the kernel takes them out of /proc in its own time
    return len(left)


def _end_pump(state: Path) -> None:
    """Ends what carries the connections of services, where it runs."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
        folder = os.open(state, os.O_RDONLY | os.O_DIRECTORY)
        try:
            control.settimeout(_SECONDS)
            control.connect(f"/proc/self/fd/{folder}/pump.sock")
            control.sendall(b'{"quit": true}\n')
            while control.recv(64):
                continue
        finally:
            os.close(folder)


def main() -> int:
    """The command."""
    if len(sys.argv) != _USAGE:
        sys.stderr.write("usage: python -m muster_cluster_agent.end <state folder>\n")
        return 2
    left = end(Path(sys.argv[1]))
    if left:
        sys.stderr.write(f"{left} processes of replicas could not be ended\n")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
