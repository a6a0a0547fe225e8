"""`make chaos SEED=1 KILLS=30`: workloads flow while everything is killed, and an outside checker judges.

The last line is one JSON object; the exit status is 0 only if nothing was lost, doubled or left over, no service
complained in its log, and all that was acknowledged has ended. Findings go to stderr, a sentence each, with the folder
that holds journals, logs and the ledger.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from muster_client import Muster
from tests.chaos import checker, clusters, complaints, journals, killer, ledger
from tests.chaos.driver import Driver
from tests.chaos.plan import ChaosPlan, draw
from tests.support.stacks import RunningStack, running_stack

LIMIT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run gave: the verdict and what was done."""

    verdict: checker.Verdict
    hits: dict[str, int]
    seconds: float


def main() -> int:
    """Runs one seed; 0 where the verdict is clean."""
    given = _arguments()
    plan = draw(given.seed, given.workloads, given.kills, clusters.NAMES)
    folder = Path(tempfile.mkdtemp(prefix="muster-chaos-"))
    _say(f"chaos: seed {given.seed}, {given.kills} kills, {given.workloads} workloads in {folder}")
    outcome = run(plan, folder)
    for finding in _findings(outcome.verdict):
        _say(f"  {finding}")
    if outcome.verdict.clean and not given.keep:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        _say(f"journals, logs and the ledger are in {folder}")
    print(json.dumps(_summary(given.seed, outcome)))
    return 0 if outcome.verdict.clean else 1


def run(plan: ChaosPlan, folder: Path) -> Outcome:
    """One whole run: stack up, plan, stack down, verdict."""
    began = time.monotonic()
    book = folder / "ledger.jsonl"
    with running_stack(folder / "stack", clusters.declarations(), standby=True) as stack:
        hits = asyncio.run(_drive(stack, plan, book))
    told = ledger.read(book)
    entries = [e for name in clusters.NAMES for e in journals.read_state_folder(stack.layout.agent(name))]
    history = checker.History(
        journal=entries,
        acknowledged=frozenset(told.acknowledged),
        last_phase=told.phases,
        complaints=complaints.read(stack.layout.logs),
        marked_processes=[f"process {pid} of {replica}" for pid, replica in killer.marked(stack.layout.key)],
    )
    return Outcome(checker.judge(history), hits, time.monotonic() - began)


async def _drive(stack: RunningStack, plan: ChaosPlan, book: Path) -> dict[str, int]:
    notes = ledger.Ledger(book)
    async with Muster(stack.server) as muster:
        driver, hunter = Driver(muster, notes), killer.Killer(stack.stack)
        await driver.make_project("default", clusters.GPUS)
        since = asyncio.get_running_loop().time()
        following = asyncio.create_task(driver.follow(), name="follow")
        progress = asyncio.create_task(_progress(driver, hunter), name="progress")
        try:
            async with asyncio.timeout(LIMIT_SECONDS), asyncio.TaskGroup() as tasks:
                tasks.create_task(hunter.run(plan.kills, since), name="kills")
                for arrival in plan.arrivals:
                    tasks.create_task(driver.run(arrival), name=arrival.name)
        except TimeoutError:
            _say(f"not everything ended within {LIMIT_SECONDS:g} s")
        finally:
            following.cancel()
            progress.cancel()
            await driver.settle()
            notes.close()
    return dict(hunter.hits)


async def _progress(driver: Driver, hunter: killer.Killer) -> None:
    while True:
        await asyncio.sleep(10.0)
        ended = sum(phase in driver.final for phase in driver.phases.values())
        _say(f"  {len(driver.phases)} acknowledged, {ended} ended, {hunter.hits.total()} kills")


def _findings(verdict: checker.Verdict) -> list[str]:
    return [
        *verdict.lost,
        *verdict.double_allocated,
        *verdict.duplicate_starts,
        *verdict.left_over,
        *verdict.complaints,
    ]


def _summary(seed: int, outcome: Outcome) -> dict[str, object]:
    verdict = outcome.verdict
    return {
        "seed": seed,
        "seconds": round(outcome.seconds, 1),
        "kills": sum(outcome.hits.values()),
        "kills_by_target": dict(sorted(outcome.hits.items())),
        "acknowledged": verdict.acknowledged,
        "terminal": verdict.terminal,
        "lost": len(verdict.lost),
        "double_allocated": len(verdict.double_allocated),
        "duplicate_starts": len(verdict.duplicate_starts),
        "left_over": len(verdict.left_over),
        "complaints": len(verdict.complaints),
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--workloads", type=int, default=200)
    parser.add_argument("--keep", action="store_true", help="keep the folder also after a clean run")
    return parser.parse_args()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
