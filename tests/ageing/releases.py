"""Two states of the code under one stack, and the replacement of its processes one after the other.

Called by upgrade.py and by chaos runs with an upgrade in their middle.
"""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from muster_stack.errors import StackError
from muster_stack.keeper.control import Stack

ROOT: Final = Path(__file__).resolve().parents[2]
OLD: Final = "58eafc66"
"""The state before: the newest one whose records on Kafka the services of today, and theirs of ours, can read."""
SERVICES: Final = ("telemetry", "policy", "scheduler", "submission")
"""The order of an upgrade: the readers of a message before its writers (docs/guides/operate.md)."""
_WARM: Final = "from muster_scheduler.domain.warming import warm_up; warm_up()"
_SETTLE: Final = 5.0


class Code:
    """Which code a process starts with: a link in its PYTHONPATH."""

    def __init__(self, folder: Path, commit: str) -> None:
        """Unpack the older state; processes start with it at first."""
        self._link = folder / "current"
        self._old = folder / "old"
        self._old.mkdir()
        git = shutil.which("git") or "git"
        packed = subprocess.run([git, "-C", ROOT, "archive", commit, "services"], check=True, capture_output=True)
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(self._old, filter="data")
        self.older()
        rooms = sorted(path.name for path in (ROOT / "services").iterdir() if path.is_dir())
        os.environ["PYTHONPATH"] = ":".join(str(self._link / "services" / room) for room in rooms)
        # What the scheduler compiles is kept beside its code: a new folder has none of it yet.
        subprocess.run([sys.executable, "-c", _WARM], check=True)

    def older(self) -> None:
        """Processes that start from now on have the older code."""
        self._link_to(self._old)

    def newer(self) -> None:
        """The code of this folder."""
        self._link_to(ROOT)

    def _link_to(self, where: Path) -> None:
        draft = self._link.with_name(".current")
        draft.symlink_to(where)
        draft.replace(self._link)


def order(instances: Mapping[str, int], clusters: Sequence[str]) -> list[str]:
    """Return the processes of a stack in the order in which they are replaced: a leading scheduler comes last."""
    parts: list[str] = []
    for service in SERVICES:
        names = [service, *(f"{service}-{number}" for number in range(2, instances.get(service, 1) + 1))]
        parts += reversed(names) if service == "scheduler" else names
    return [*parts, *(f"agent-{cluster}" for cluster in clusters)]


async def replace(stack: Stack, part: str, *, within: float, stopped: Callable[[], None] = lambda: None) -> None:
    """End a process in order and wait until another one is ready in its place. Raises TimeoutError.

    stopped: called when it has been told to end.
    """
    before = (await row(stack, part))["pid"]
    await asyncio.to_thread(stack.kill, part, signal.SIGTERM)
    stopped()
    deadline = time.monotonic() + within
    while True:
        now = await row(stack, part)
        if now["state"] == "ready" and now["pid"] != before:
            break
        if time.monotonic() > deadline:
            raise TimeoutError(f"{part} did not become ready: {now['why']}; its log is {now['log']}")
        await asyncio.sleep(0.2)
    await asyncio.sleep(_SETTLE)


async def row(stack: Stack, part: str) -> dict[str, Any]:
    """Return what the keeper knows of a part."""
    while True:
        with suppress(StackError):
            found: dict[str, Any] = (await asyncio.to_thread(stack.status))["services"][part]
            return found
        await asyncio.sleep(0.2)
