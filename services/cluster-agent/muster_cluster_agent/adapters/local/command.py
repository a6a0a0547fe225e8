"""The process that becomes a replica's command, from the supervisor's side.

It is forked before anything is known of the replica, since a fork is a good part of a start. Standard library only.
Holds: it does nothing before it is told whose it is, and nothing of the user runs before `go`; it ends where the
supervisor does.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from muster_cluster_agent.adapters.local import child


class Command:
    """One forked process that waits. pid: its number; output: the end of the pipe that its output comes from."""

    def __init__(self, closed: Sequence[int] = ()) -> None:
        """Forks it. Raises OSError where no process can be made. closed: what it must not keep open."""
        parent = os.getpid()
        words, self._words = os.pipe()
        self._error, error = os.pipe()
        self.output, output = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            for end in (self._words, self._error, self.output, *closed):
                os.close(end)
            child.become_command(parent, words, error, output)
        for end in (words, error, output):
            os.close(end)

    def prepare(self, folder: str) -> None:
        """Let it take on the limits and the confinement of the replica of this folder, and then wait."""
        self._tell(f"{folder}\n".encode())

    def go(self) -> bytes:
        """Let it become the command. Returns what went wrong (child.py), empty where the command runs."""
        self._tell(child.GO)
        self._close()
        failed = os.read(self._error, child.ERROR_BYTES)
        os.close(self._error)
        return failed

    def drop(self) -> None:
        """End it before it became anything."""
        self._close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def _close(self) -> None:
        if self._words >= 0:
            os.close(self._words)
            self._words = -1  # the number may be another file's from now on

    def _tell(self, words: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):  # one that could not be limited or confined has ended already
            os.write(self._words, words)
