"""The pictures in the documentation are what the scheduler decides today.

Where this fails because decisions changed on purpose: `muster simulate docs/examples/reclaim.yaml --out
docs/pictures/reclaim`, look at the pictures, and see whether docs/how-muster-decides.md still says what they show.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from muster_scheduler.simulation.plots import pictures
from muster_scheduler.simulation.reading import read_scenario
from muster_scheduler.simulation.report import summary
from muster_scheduler.simulation.running import Simulation

DOCS = Path(__file__).parents[4] / "docs"
SHOWN = sorted(re.findall(r"\]\(pictures/reclaim/(\w+\.svg)\)", (DOCS / "how-muster-decides.md").read_text("utf-8")))


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    return summary(Simulation(read_scenario(DOCS / "examples" / "reclaim.yaml")).run())


@pytest.mark.parametrize("name", SHOWN)
def test_a_picture_shows_what_is_decided(told: dict[str, Any], name: str) -> None:
    kept = (DOCS / "pictures" / "reclaim" / name).read_text("utf-8")
    assert kept == pictures(told)[name], (
        f"{name} is stale: muster simulate docs/examples/reclaim.yaml --out docs/pictures/reclaim"
    )


def test_the_day_on_the_page_is_what_the_page_says(told: dict[str, Any]) -> None:
    """Before `search` comes the others hold all; while it is there it holds what it deserves; then nothing."""
    by_hour = {round(hour, 3): place for place, hour in enumerate(told["series"]["hours"])}
    held = {project: [values[by_hour[hour]] for hour in (7, 12, 23)] for project, values in told["held"].items()}
    assert held["vision"][0] + held["language"][0] == told["gpus"]
    assert held["search"][1] == 12
    assert sum(values[1] for values in held.values()) == told["gpus"]
    assert told["preemptions"] > 0
