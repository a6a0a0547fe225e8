"""What an agent writes down of a replica's devices is what the chaos checker counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muster_cluster_agent.domain import environment
from muster_cluster_agent.domain.model import Share, Slice
from tests.chaos.checker import Held
from tests.chaos.journals import Journals, entries_of


@pytest.mark.parametrize(
    ("share", "held"),
    [
        (Share("GPU-0", whole=True), Held("GPU-0", 1000)),
        (Share("GPU-0", portion_milli=250), Held("GPU-0", 250)),
        (Share("GPU-0", portion_milli=1000), Held("GPU-0", 1000)),
        (Share("GPU-0", memory_bytes=4096), Held("GPU-0", 0, 4096)),
        (Share("GPU-0", slice=Slice("3g.20gb", 4)), Held("GPU-0", 428)),
    ],
)
def test_a_share_is_counted_as_it_was_given(share: Share, held: Held) -> None:
    spec = {"name": "r", "workload_id": "w", "generation": 1, "attempt": 1, "devices": [environment.described(share)]}
    [entry] = entries_of(spec, [{"event": "started", "monotonic": 1.5}])
    assert entry.held == (held,)
    assert entry.at_ns == 1_500_000_000


def line(number: int) -> str:
    """One replica in a history."""
    spec = {"name": f"r-{number}", "workload_id": "w", "generation": 1, "attempt": 1}
    return json.dumps({"spec": spec, "journal": [{"event": "gone", "monotonic": float(number)}]}) + "\n"


def names(journals: Journals) -> list[str]:
    return [entry.replica for entry in journals.look()]


def test_each_line_of_a_history_is_read_once(tmp_path: Path) -> None:
    history, journals = tmp_path / "history.jsonl", Journals(tmp_path)
    assert names(journals) == []
    history.write_text(line(1) + line(2)[:20])
    assert names(journals) == ["r-1"]
    with history.open("a") as file:
        file.write(line(2)[20:] + line(3))
    assert names(journals) == ["r-2", "r-3"]
    assert names(journals) == []


def test_a_history_that_was_cut_is_read_from_its_start(tmp_path: Path) -> None:
    history, journals = tmp_path / "history.jsonl", Journals(tmp_path)
    history.write_text(line(1) + line(2))
    assert names(journals) == ["r-1", "r-2"]
    draft = tmp_path / "draft"
    draft.write_text(line(2) + line(3))
    draft.replace(history)
    assert names(journals) == ["r-2", "r-3"]
