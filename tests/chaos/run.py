"""`make chaos SEED=1 KILLS=30`: workloads flow while everything is killed, and an outside checker judges.

With INSTANCES=submission=2,policy=2 services have several instances, kills are 20 s apart, and a probe beside it says
whether a kill is noticed through the others.
With UPGRADE=COMMIT the stack begins with the code of that commit, and halfway its processes are replaced one after the
other by those of this folder, while kills go on.

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from muster_client import Muster
from muster_stack.keeper.instances import all_instances, read_counts
from tests.ageing.releases import Code, order, replace
from tests.chaos import checker, clusters, complaints, journals, killer, ledger
from tests.chaos.driver import Driver
from tests.chaos.plan import ChaosPlan, draw
from tests.chaos.probe import Probe
from tests.support.stacks import RunningStack, running_stack

LIMIT_SECONDS = 600.0  # beyond the last kill
_GAP = (4.0, 8.0)
_GAP_WITH_PROBE = (20.0, 20.0)
_MOST_WAIT_MS = 500.0
_REPLACED = 180.0  # seconds within which a process is ready again, though kills go on
_PAIR = MappingProxyType({"scheduler": 2})


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run gave: the verdict and what was done."""

    verdict: checker.Verdict
    hits: dict[str, int]
    seconds: float
    probed: dict[str, object] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        """Whether nothing was found, and the probe was answered in time."""
        wait = self.probed.get("verdict_wait_p99_ms", 0.0)
        in_time = isinstance(wait, float) and wait <= _MOST_WAIT_MS
        return self.verdict.clean and in_time and not self.probed.get("log_unavailable")


def main() -> int:
    """Runs one seed; 0 where the verdict is clean."""
    given = _arguments()
    counts = {**_PAIR} | read_counts(given.instances)
    more = tuple(each.name for each in all_instances(counts) if each.number > 1)
    gap = _GAP_WITH_PROBE if given.instances else _GAP
    plan = draw(given.seed, given.workloads, given.kills, clusters.NAMES, gap, more)
    folder = Path(tempfile.mkdtemp(prefix="muster-chaos-"))
    _say(f"chaos: seed {given.seed}, {given.kills} kills, {given.workloads} workloads in {folder}")
    upgrade = Upgrading(Code(folder, given.upgrade), order(counts, clusters.NAMES)) if given.upgrade else None
    outcome = run(plan, folder, counts, probed=bool(given.instances), upgrade=upgrade)
    for finding in _findings(outcome.verdict):
        _say(f"  {finding}")
    if outcome.verdict.clean and not given.keep:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        _say(f"journals, logs and the ledger are in {folder}")
    print(json.dumps(_summary(given.seed, outcome)))
    return 0 if outcome.good else 1


def run(
    plan: ChaosPlan,
    folder: Path,
    counts: Mapping[str, int] = _PAIR,
    *,
    probed: bool = False,
    upgrade: Upgrading | None = None,
) -> Outcome:
    """Play one whole run: stack up, plan, stack down, verdict.

    counts: instances by service. probed: a probe runs at the same time. upgrade: the stack is upgraded halfway.
    """
    began = time.monotonic()
    book = folder / "ledger.jsonl"
    probe = Probe() if probed else None
    with running_stack(folder / "stack", clusters.declarations(), instances=counts) as stack:
        hunter = killer.Killer(stack.stack)
        asyncio.run(_drive(stack, plan, book, hunter, probe, upgrade))
    told = ledger.read(book)
    entries = [e for name in clusters.NAMES for e in journals.read_state_folder(stack.layout.agent(name))]
    history = checker.History(
        journal=entries,
        acknowledged=frozenset(told.acknowledged),
        last_phase=told.phases,
        complaints=complaints.read(stack.layout.logs),
        marked_processes=[f"process {pid} of {replica}" for pid, replica in killer.marked(stack.layout.key)],
    )
    seen = probe.result(hunter.moments) if probe else {}
    if upgrade is not None:
        seen |= {"replaced": len(upgrade.replaced)}
    return Outcome(checker.judge(history), dict(hunter.hits), time.monotonic() - began, seen)


@dataclass
class Upgrading:
    """An upgrade in the middle of a run."""

    code: Code
    parts: Sequence[str]
    replaced: list[str] = field(default_factory=list)

    async def run(self, stack: RunningStack, hunter: killer.Killer, after: float) -> None:
        """Wait `after` seconds, then replace each process; the moments count as kills."""
        await asyncio.sleep(after)
        _say("  the upgrade begins")
        self.code.newer()
        for part in self.parts:
            await replace(stack.stack, part, within=_REPLACED, stopped=lambda: hunter.moments.append(time.monotonic()))
            self.replaced.append(part)
        _say(f"  upgraded: {len(self.replaced)} processes are replaced")


async def _drive(
    stack: RunningStack,
    plan: ChaosPlan,
    book: Path,
    hunter: killer.Killer,
    probe: Probe | None,
    upgrade: Upgrading | None,
) -> None:
    notes = ledger.Ledger(book)
    limit = LIMIT_SECONDS + max((kill.at for kill in plan.kills), default=0.0)
    async with Muster(stack.server) as muster:
        driver = Driver(muster, notes)
        await driver.make_project("default", clusters.GPUS)
        since = asyncio.get_running_loop().time()
        following = asyncio.create_task(driver.follow(), name="follow")
        beside = [following, asyncio.create_task(_progress(driver, hunter), name="progress")]
        if probe is not None:
            await driver.make_probe_project("default")
            beside.append(asyncio.create_task(probe.run(stack.submissions, driver.phases), name="probe"))
        try:
            async with asyncio.timeout(limit), asyncio.TaskGroup() as tasks:
                tasks.create_task(hunter.run(plan.kills, since), name="kills")
                if upgrade is not None:
                    middle = max((kill.at for kill in plan.kills), default=0.0) / 2
                    tasks.create_task(upgrade.run(stack, hunter, middle), name="upgrade")
                for arrival in plan.arrivals:
                    tasks.create_task(driver.run(arrival), name=arrival.name)
        except TimeoutError:
            _say(f"not everything ended within {limit:g} s")
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await driver.settle()
            notes.close()


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
        **outcome.probed,
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--workloads", type=int, default=200)
    parser.add_argument("--instances", default="", help="beside one of each and two schedulers: submission=2,policy=2")
    parser.add_argument("--upgrade", default="", help="the commit to begin with, such as the last release")
    parser.add_argument("--keep", action="store_true", help="keep the folder also after a clean run")
    return parser.parse_args()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
