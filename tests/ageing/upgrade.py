"""`uv run python tests/ageing/upgrade.py --json`: an upgrade under load, service by service, and the way back.

A stack begins with the code of an older commit. While 20 workloads a second come, each of its processes is ended in
order and starts again with the code of this folder; then each is put back in the same way. Both states run side by side
meanwhile, on one schema and one Kafka. The last line is one JSON object; the exit status is 0 only if nothing was lost
or doubled, no record became a dead letter, and no call was answered with an error of the services.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from muster_client import Muster
from muster_stack.errors import StackError
from tests.ageing.soak import CLUSTERS, Soak, judged
from tests.support.stacks import RunningStack, running_stack

ROOT: Final = Path(__file__).resolve().parents[2]
OLD: Final = "58eafc66"
"""The state before: the newest one whose records on Kafka the services of today, and theirs of ours, can read."""
INSTANCES: Final = {"submission": 2, "policy": 2, "scheduler": 2}
ORDER: Final = (
    *("telemetry", "policy", "policy-2", "submission", "submission-2", "scheduler-2", "scheduler"),
    *("agent-alpha", "agent-beta"),
)
_WARM: Final = "from muster_scheduler.domain.warming import warm_up; warm_up()"
_SETTLE: Final = 5.0
_READY: Final = 60.0
_BEFORE: Final = 30.0


class Code:
    """Which code a process starts with: a link that is in its PYTHONPATH."""

    def __init__(self, folder: Path, commit: str) -> None:
        """Unpacks the older state."""
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
        self._lead_to(self._old)

    def newer(self) -> None:
        """The code of this folder."""
        self._lead_to(ROOT)

    def _lead_to(self, where: Path) -> None:
        draft = self._link.with_name(".current")
        draft.symlink_to(where)
        draft.replace(self._link)


@dataclass
class Upgrade(Soak):
    """A soak in which nothing is killed but what is replaced."""

    code: Code | None = None
    replaced: list[str] = field(default_factory=list)
    took: dict[str, float] = field(default_factory=dict)
    finished: bool = False

    async def _kill(self) -> None:
        assert self.code is not None
        await asyncio.sleep(_BEFORE)
        for what, choose in (("upgrade", self.code.newer), ("rollback", self.code.older)):
            began = time.monotonic()
            choose()
            for part in ORDER:
                await self._replace(part)
                self.replaced.append(part)
            self.took[what] = round(time.monotonic() - began, 1)
            print(f"  {what}: {self.took[what]} s", file=sys.stderr, flush=True)
            await asyncio.sleep(_BEFORE)
        self.finished = True
        self.seconds = 0.0  # the load ends

    async def _replace(self, part: str) -> None:
        """Ends one process in order and waits until another one is ready in its place."""
        before = (await self._row(part))["pid"]
        await asyncio.to_thread(self.stack.stack.kill, part, signal.SIGTERM)
        deadline = time.monotonic() + _READY
        while True:
            row = await self._row(part)
            if row["state"] == "ready" and row["pid"] != before:
                break
            if time.monotonic() > deadline:
                raise RuntimeError(f"{part} did not become ready: {row['why']}; its log is {row['log']}")
            await asyncio.sleep(0.2)
        await asyncio.sleep(_SETTLE)

    async def _row(self, part: str) -> dict[str, Any]:
        while True:
            with suppress(StackError):
                found: dict[str, Any] = (await asyncio.to_thread(self.stack.stack.status))["services"][part]
                return found
            await asyncio.sleep(0.2)


async def _dead_letters(stack: RunningStack) -> tuple[int, int]:
    async with Muster(stack.server) as muster:
        letters = (await muster.dead_letters.list(include_done=True)).total
        with suppress(Exception):  # the older state cannot be asked for gaps
            return letters, (await muster.dead_letters.gaps()).total
        return letters, 0


def main() -> int:
    """Runs it and prints the object."""
    given = _arguments()
    folder = Path(tempfile.mkdtemp(prefix="muster-upgrade-"))
    folder.chmod(0o755)
    code = Code(folder, given.old)
    with running_stack(folder / "stack", CLUSTERS, instances=INSTANCES) as stack:
        run = Upgrade(stack, 3600.0, given.rate, code=code)
        asyncio.run(run.run())
        letters, gaps = asyncio.run(_dead_letters(stack))
    verdict = judged(run)
    figures = {
        "old": given.old,
        "workloads": len(run.acknowledged),
        "replaced": len(run.replaced),
        "seconds": run.took,
        "lost": len(run.acknowledged.keys() - run.ended),
        "doubled": len(verdict.duplicate_starts) + len(verdict.double_allocated),
        "dead_letters": letters,
        "gaps": gaps,
        "internal": len(run.errors),
        "complaints": len(verdict.complaints),
    }
    said = [*run.errors, *verdict.duplicate_starts, *verdict.double_allocated, *verdict.complaints]
    for one in said[:50]:
        print(f"  {one}", file=sys.stderr, flush=True)
    good = run.finished and not any(
        figures[name] for name in ("lost", "doubled", "dead_letters", "gaps", "internal", "complaints")
    )
    if good and not given.keep:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"logs are in {folder}", file=sys.stderr, flush=True)
    print(json.dumps(figures))
    return 0 if good else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="as everywhere: the last line is the object in any case")
    parser.add_argument("--old", default=OLD, help="the commit to begin with")
    parser.add_argument("--rate", type=float, default=20.0, help="workloads a second")
    parser.add_argument("--keep", action="store_true", help="keep the folder also after a good run")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
