"""A whole stack for one run, in a folder that outlives it: journals and logs are read after it is down.

Called by the chaos run, the benchmarks and the end-to-end tests. Where nothing is read afterwards,
`muster_stack.embedded.temporary_stack` does. Holds: when the block ends nothing of the stack is left running.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from muster_stack.bus.identities import ADMIN, Identities, client_options
from muster_stack.commands import end, keeper_command, start_detached
from muster_stack.keeper.control import Stack
from muster_stack.layout import Layout

START_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class RunningStack:
    """A stack that is up. `server` is submission's public address."""

    layout: Layout
    stack: Stack
    server: str
    bootstrap: str

    @property
    def submissions(self) -> list[str]:
        """The public addresses of all instances of submission."""
        services = self.stack.status()["services"]
        return [row["grpc"] for name, row in services.items() if name.startswith("submission")]

    @property
    def kafka(self) -> dict[str, str]:
        """How aiokafka's clients connect as the stack itself, which may read everything."""
        return client_options(self.bootstrap, Identities(self.layout.bus_identities).of(ADMIN))


@contextmanager
def running_stack(
    folder: Path,
    clusters: Mapping[str, str],
    *,
    instances: Mapping[str, int] | None = None,
    hold: bool = False,
    auth: bool = False,
) -> Iterator[RunningStack]:
    """Starts a stack with these cluster declarations (YAML by name) and waits until all of it is ready.

    instances: by service, where there is more than one. hold: agents accept assignments and start nothing. auth: calls
    need a token. SIGTERM ends the block, so that a run that is stopped takes its stack along. Raises StartFailed.
    """
    layout = Layout.of(folder)
    layout.make()
    alone = threading.current_thread() is threading.main_thread()  # only there may a handler be set
    before = signal.signal(signal.SIGTERM, _leave) if alone else None
    for name, declaration in clusters.items():
        (layout.clusters / f"{name}.yaml").write_text(declaration)
    try:
        start_detached(layout, keeper_command(layout, instances, hold=hold, auth=auth), seconds=START_SECONDS)
        stack = Stack(layout)
        services = stack.status()["services"]
        yield RunningStack(layout, stack, services["submission"]["grpc"], services["kafka"]["bootstrap"])
    finally:
        end(layout)
        if alone:
            signal.signal(signal.SIGTERM, before)


def _leave(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)
