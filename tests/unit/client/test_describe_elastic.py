"""An elastic gang is described by the numbers between which it may be, and by how many it has."""

from __future__ import annotations

from datetime import UTC, datetime
from io import StringIO

import pytest
from rich.console import Console

from muster.workload.v1 import workload_pb2
from muster_client.cli.render.describe import asks, describe


def gang(command: str, states: tuple[str, ...] = ()) -> workload_pb2.Workload:
    """Four workers, from two on up to eight, of which some are there."""
    spec = workload_pb2.WorkloadSpec(command=command, workers=4, min_replicas=2, max_replicas=8, gpu_devices_request=1)
    replicas = [workload_pb2.Replica(role="worker", index=at, state=state) for at, state in enumerate(states)]
    return workload_pb2.Workload(id="w", name="w", spec=spec, replicas=replicas)


@pytest.mark.parametrize(
    ("command", "said"),
    [("torchrun t.py", "2 to 8 workers, each 1 GPU"), ("python t.py", "4 workers, each 1 GPU")],
)
def test_what_it_asks_for(command: str, said: str) -> None:
    assert asks(gang(command)) == said


@pytest.mark.parametrize(
    ("command", "told"),
    [("torchrun t.py", True), ("python t.py", False)],
)
def test_how_many_it_has_of_those_that_it_may_have(command: str, told: bool) -> None:
    console = Console(width=120, record=True, file=StringIO())
    console.print(describe(gang(command, ("READY", "READY", "READY", "GONE")), datetime(2026, 1, 1, tzinfo=UTC)))
    assert ("3 of 2..8 workers" in console.export_text()) is told
