"""What clients after 2.18 read of a workload, besides what 2.18 has."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2 as wl
from muster_submission.rest.workload_rows import _trials, lasting_of


def row(kind: int, **spec: Any) -> dict[str, Any]:
    given = wl.WorkloadSpec(kind=kind, **spec)  # type: ignore[arg-type]
    return {
        "id": "0190a5d4-9f2e-7c3a-8b1d-2e3f4a5b6c7d",
        "name": "w",
        "kind": kind,
        "created_at": datetime(2026, 1, 1, tzinfo=UTC),
        "spec": given.SerializeToString(),
        "effective_spec": None,
        "owner": b"",
        "origin": 2,
        "caused_by": "",
        "asked_cluster": "",
        "issues": "[]",
    }


@pytest.mark.parametrize(
    ("kind", "category", "priority"),
    [
        (options_pb2.KIND_WORKSPACE, "Build", "build"),
        (options_pb2.KIND_TRAINING, "Train", "train"),
        (options_pb2.KIND_DISTRIBUTED, "Train", "train"),
        (options_pb2.KIND_INFERENCE, "Deploy", "inference"),
    ],
)
def test_a_row_has_category_and_priority(kind: int, category: str, priority: str) -> None:
    told = msgspec.json.decode(b"{" + lasting_of(row(kind)).json + b"}")
    assert (told["category"], told["priority"], told["priorityClassName"]) == (category, priority, priority)


def test_a_priority_that_was_given_is_told() -> None:
    told = msgspec.json.decode(b"{" + lasting_of(row(options_pb2.KIND_TRAINING, priority_class="high")).json + b"}")
    assert told["priority"] == "high"


def test_a_series_tells_how_far_it_is() -> None:
    series = wl.Workload(trials=wl.TrialProgress(done=7, total=12, at_once=3))
    assert _trials(series) == {"trials": {"done": 7, "completions": 12, "parallelism": 3}}
    assert _trials(wl.Workload()) == {}
