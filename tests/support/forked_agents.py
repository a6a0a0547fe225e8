"""Agents forked from a process that has imported the agent already.

An agent that is started by itself spends more than a second of processor time on imports. A suite that starts sixty of
them spends most of its time there. A forked agent is a process like any other: it is killed, asked to end and watched
in the same way. What it imports, and when, is judged where agents are started as they are in production.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from multiprocessing.connection import wait
from pathlib import Path
from typing import Final

_CONTEXT: Final = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    ["muster_cluster_agent.__main__", "muster_cluster_agent.adapters.kubernetes.parts", __name__]
)
_LOCK: Final = threading.Lock()
"""multiprocessing reads an exit status from a pipe once; of two threads that ask, the second one would read its end."""


class ForkedAgent:
    """The part of subprocess.Popen that tests use. environment: all of it. log: the file that its output goes to."""

    def __init__(self, environment: Mapping[str, str], log: Path) -> None:
        self._process = _CONTEXT.Process(target=_run, args=(dict(environment), str(log)), daemon=True)
        with _LOCK:
            self._process.start()
        assert self._process.pid is not None
        self.pid: Final = self._process.pid

    def poll(self) -> int | None:
        """Its exit status; None while it runs."""
        with _LOCK:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end. Raises subprocess.TimeoutExpired after `timeout` seconds."""
        wait([self._process.sentinel], timeout)
        ended = self.poll()
        if ended is None:
            raise subprocess.TimeoutExpired("agent", timeout or 0.0)
        return ended

    def send_signal(self, number: int) -> None:
        """Sends it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)


def _run(environment: Mapping[str, str], log: str) -> None:
    """The agent's main function in the child."""
    from muster_cluster_agent.__main__ import main  # noqa: PLC0415 - the tests' own process has no use for it

    output = os.open(log, os.O_WRONLY | os.O_APPEND)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(output, stream.fileno())
    os.close(output)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["muster_cluster_agent"]
    main()
