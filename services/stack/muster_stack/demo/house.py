"""The stack of the demo: in a folder of its own, started before the first act and gone after the last.

Called by the command. Holds: however the demo ends, Ctrl-C and a closed terminal included, nothing of the stack runs
on and the folder is gone.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final

from muster_stack.commands import end, keeper_command
from muster_stack.errors import NotRunning, StackError, StartFailed
from muster_stack.keeper import sweep
from muster_stack.keeper.control import Stack
from muster_stack.layout import Layout

CLUSTERS: Final = ("north", "south")
_START_SECONDS: Final = 150.0  # downloads of the Kafka jars included
_LOOK_AGAIN: Final = 0.1

Show = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
class House:
    """A stack that is up, or was: `left_behind` may be asked after its end."""

    layout: Layout
    services: Mapping[str, Any]

    def left_behind(self) -> int:
        """How many of its processes still run."""
        return len(sweep.everything(self.layout))


@asynccontextmanager
async def own_stack(show: Show, clusters: Mapping[str, str] | None = None) -> AsyncIterator[House]:
    """A stack of one's own, once all of it is ready. `show` is told how it comes up.

    clusters: declarations by name; without them, two of local processes. Raises StartFailed with the keeper's own
    words.
    """
    folder, layout = _folder()
    try:
        layout.make()
        for name, text in (clusters or _local_clusters()).items():
            (layout.clusters / f"{name}.yaml").write_text(text)
        status = await _start(layout, show)
        yield House(layout, status["services"])
    finally:
        _end(layout)
        shutil.rmtree(folder, ignore_errors=True)


def _folder() -> tuple[Path, Layout]:
    folder = Path(tempfile.mkdtemp(prefix="muster-demo-"))
    folder.chmod(0o711)  # root's PostgreSQL runs as another user, who must get through
    return folder, Layout.of(folder / "stack")


def _local_clusters() -> dict[str, str]:
    programs = Path(str(resources.files("muster_stack.demo") / "workloads")).resolve()
    # The demo's programs are the folder that its workloads name; without the root replicas could not read them.
    root = f"roots: [{{path: {json.dumps(str(programs))}}}]\n"
    folder = resources.files("muster_stack.demo") / "clusters"
    return {name: (folder / f"{name}.yaml").read_text() + root for name in CLUSTERS}


async def _start(layout: Layout, show: Show) -> dict[str, Any]:
    log = layout.log("keeper")
    with log.open("ab") as output:
        keeper = subprocess.Popen(  # noqa: ASYNC220  it is forked at once and never waited for here
            keeper_command(layout), stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    try:
        async with asyncio.timeout(_START_SECONDS):
            while keeper.poll() is None:
                try:
                    status = await asyncio.to_thread(Stack(layout).status)
                except NotRunning:
                    status = {"ready": False, "services": {}}
                show(status["services"])
                if status["ready"]:
                    return status
                await asyncio.sleep(_LOOK_AGAIN)
    except TimeoutError:
        raise StartFailed(f"the stack was not ready within {_START_SECONDS:g} s\n{_words(layout)}") from None
    raise StartFailed(f"the stack did not start\n{_words(layout)}")


def _words(layout: Layout) -> str:
    """The last lines of every log: the folder is gone when somebody wants to look."""
    texts = []
    for log in sorted(layout.logs.glob("*.log")):
        lines = log.read_text(errors="replace").splitlines()[-8:]
        texts += [f"  {log.name}: {line}" for line in lines]
    return "\n".join(texts)


def _end(layout: Layout) -> None:
    """Ends the stack. A second Ctrl-C does not interrupt it: that would leave something running."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        end(layout)
    except (StackError, TimeoutError):
        sweep.end_everything(layout)
    finally:
        signal.signal(signal.SIGINT, before)
