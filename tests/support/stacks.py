"""A whole stack of its own for one run: real Kafka, real PostgreSQL, every service a process.

It lives in a folder that the caller gives. Called by the chaos run, the benchmarks and the end-to-end tests. Holds:
when the block ends nothing of the stack is left running.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from muster_stack.errors import NotRunning
from muster_stack.keeper.control import Stack
from muster_stack.keeper.sweep import end_everything
from muster_stack.layout import Layout

START_SECONDS = 120.0
_POLL = 0.1


@dataclass(frozen=True, slots=True)
class RunningStack:
    """A stack that is up. `server` is submission's public address."""

    layout: Layout
    stack: Stack
    server: str
    bootstrap: str


@contextmanager
def running_stack(
    folder: Path, clusters: Mapping[str, str], *, standby: bool = False, hold: bool = False
) -> Iterator[RunningStack]:
    """Starts a stack with these cluster declarations (YAML by name) and waits until all of it is ready.

    standby: a second scheduler follows. hold: agents accept assignments and start nothing. Raises StartFailed.
    """
    layout = Layout.of(folder)
    layout.make()
    for name, declaration in clusters.items():
        (layout.clusters / f"{name}.yaml").write_text(declaration)
    flags = [flag for flag, wanted in (("--standby", standby), ("--hold", hold)) if wanted]
    argv = [sys.executable, "-m", "muster_stack.keeper", "--data", str(layout.root), *flags]
    with layout.log("keeper").open("ab") as log:
        keeper = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    try:
        stack = Stack(layout)
        _wait_for_control(stack, keeper, layout)
        services = stack.wait_ready(START_SECONDS)["services"]
        yield RunningStack(layout, stack, services["submission"]["grpc"], services["kafka"]["bootstrap"])
    finally:
        _end(keeper, layout)


def _wait_for_control(stack: Stack, keeper: subprocess.Popen[bytes], layout: Layout) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            stack.status()
        except NotRunning:
            if keeper.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(_POLL)
        else:
            return


def _end(keeper: subprocess.Popen[bytes], layout: Layout) -> None:
    keeper.terminate()
    try:
        keeper.wait(60.0)
    except subprocess.TimeoutExpired:
        keeper.kill()
        keeper.wait()
    end_everything(layout)
