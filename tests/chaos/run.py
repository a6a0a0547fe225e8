"""`make chaos SEED=1 KILLS=30`: workloads flow while everything is killed, and an outside checker judges.

With INSTANCES=submission=2,policy=2 services have several instances, kills are 20 s apart, and a probe beside it says
whether a kill is noticed through the others.
With UPGRADE=COMMIT the stack begins with the code of that commit, and halfway its processes are replaced one after the
other by those of this folder, while kills go on.
With BACKEND=apiserver the replicas are pods of a real API server, which is killed and frozen like its etcd, the agent
and Kafka; its audit log and the history of its etcd judge. `make testbed` builds what it needs.

The last line is one JSON object; the exit status is 0 only if nothing was lost, doubled or left over, no service
complained in its log, and all that was acknowledged has ended. Findings go to stderr, a sentence each, with the folder
that holds journals, logs and the ledger.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from muster_stack.keeper.instances import all_instances, read_counts
from tests.ageing.releases import Code, order
from tests.chaos import clusters, local, on_kubernetes
from tests.chaos.plan import draw, draw_on_kubernetes
from tests.chaos.play import Outcome, Upgrading, say

_GAP = (4.0, 8.0)
_GAP_WITH_PROBE = (20.0, 20.0)
_LOCAL = "local"


def main() -> int:
    """Runs one seed; 0 where the verdict is clean."""
    given = _arguments()
    if given.backend != _LOCAL and (given.instances or given.upgrade):
        say(f"INSTANCES and UPGRADE are for BACKEND={_LOCAL}")
        return 2
    if given.backend != _LOCAL and on_kubernetes.missing():
        say(on_kubernetes.missing())
        return 1
    folder = Path(tempfile.mkdtemp(prefix="muster-chaos-"))
    workloads = given.workloads or (200 if given.backend == _LOCAL else 100)
    say(f"chaos: seed {given.seed}, {given.kills} kills, {workloads} workloads in {folder}")
    if given.backend == _LOCAL:
        outcome = _run_locally(given, workloads, folder)
    else:
        outcome = on_kubernetes.run(draw_on_kubernetes(given.seed, workloads, given.kills), folder)
    for finding in _findings(outcome):
        say(f"  {finding}")
    if outcome.good and not given.keep:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        say(f"journals, logs and the ledger are in {folder}")
    print(json.dumps(_summary(given.seed, outcome)))
    return 0 if outcome.good else 1


def _run_locally(given: argparse.Namespace, workloads: int, folder: Path) -> Outcome:
    counts = {**local.PAIR} | read_counts(given.instances)
    more = tuple(each.name for each in all_instances(counts) if each.number > 1)
    gap = _GAP_WITH_PROBE if given.instances else _GAP
    plan = draw(given.seed, workloads, given.kills, clusters.NAMES, gap, more)
    upgrade = Upgrading(Code(folder, given.upgrade), order(counts, clusters.NAMES)) if given.upgrade else None
    return local.run(plan, folder, counts, probed=bool(given.instances), upgrade=upgrade)


def _findings(outcome: Outcome) -> list[str]:
    verdict = outcome.verdict
    return [
        *verdict.lost,
        *verdict.double_allocated,
        *verdict.duplicate_starts,
        *verdict.left_over,
        *verdict.complaints,
        *(finding for found in outcome.more.values() for finding in found),
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
        **{name: len(found) for name, found in outcome.more.items()},
        **outcome.probed,
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--workloads", type=int, default=0, help="200, or 100 on Kubernetes")
    parser.add_argument("--backend", choices=(_LOCAL, "apiserver"), default=_LOCAL)
    parser.add_argument("--instances", default="", help="beside one of each and two schedulers: submission=2,policy=2")
    parser.add_argument("--upgrade", default="", help="the commit to begin with, such as the last release")
    parser.add_argument("--keep", action="store_true", help="keep the folder also after a clean run")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
