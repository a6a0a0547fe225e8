"""`uv run python tests/ageing/upgrade.py --json`: an upgrade under load, service by service, and the way back.

A stack begins with the code of an older commit. While 20 workloads a second come, each of its processes is ended in
order and starts again with the code of this folder; then each is put back in the same way. Both states run side by side
meanwhile, on one schema and one Kafka. The last line is one JSON object; the exit status is 0 only if nothing was lost
or doubled, no record became a dead letter, and no call was answered with an error of the services.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from muster_client import Muster
from tests.ageing.releases import OLD, Code, order, replace
from tests.ageing.soak import CLUSTERS, Soak, judged
from tests.support.stacks import RunningStack, running_stack

INSTANCES: Final = {"submission": 2, "policy": 2, "scheduler": 2}
ORDER: Final = order(INSTANCES, sorted(CLUSTERS))
_READY: Final = 60.0
_BEFORE: Final = 30.0


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
                await replace(self.stack.stack, part, within=_READY)
                self.replaced.append(part)
            self.took[what] = round(time.monotonic() - began, 1)
            print(f"  {what}: {self.took[what]} s", file=sys.stderr, flush=True)
            await asyncio.sleep(_BEFORE)
        self.finished = True
        self.seconds = 0.0  # the load ends


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
