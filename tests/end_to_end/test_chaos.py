"""A short chaos run: `make chaos` in small, so that the gate sees what a kill costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.chaos import clusters, local
from tests.chaos.plan import WIPE, ChaosPlan, Kill, draw

if TYPE_CHECKING:
    from pathlib import Path

SEED: Final = 3
KILLS: Final = (
    Kill(3.0, "scheduler", 0.0),
    Kill(5.0, "supervisor", 0.5),
    Kill(7.0, "agent-alpha", 0.0),
    Kill(9.0, WIPE, 0.0),
    Kill(14.0, "submission", 0.0),
    Kill(16.0, "supervisor", 0.1),
)


def test_nothing_is_lost_or_doubled_while_things_are_killed(tmp_path: Path) -> None:
    drawn = draw(SEED, workloads=24, kills=6, clusters=clusters.NAMES, gap=(2.0, 4.0))
    outcome = local.run(ChaosPlan(arrivals=drawn.arrivals, kills=KILLS), tmp_path)
    verdict = outcome.verdict
    assert verdict.clean, f"seed {SEED}: {verdict}"
    assert verdict.acknowledged == 24
    assert sum(outcome.hits.values()) >= 5
