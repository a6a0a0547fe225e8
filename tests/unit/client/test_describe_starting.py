"""What `muster describe` says of a workload that starts: the replica that has not moved for longest, and each step."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

from rich.console import Console

from muster.workload.v1 import workload_pb2 as wl
from muster_client.cli.render.describe import describe

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def shown(phase: wl.Phase.ValueType) -> str:
    workload = wl.Workload(name="bert-7", phase=phase)
    workload.replicas.add(role="worker", index=0, state="READY", node="n1")
    for index, substate, seconds in ((1, "MOUNTING", 20), (2, "PULLING", 130)):
        replica = workload.replicas.add(role="worker", index=index, state="CREATED", node="n7", substate=substate)
        replica.substate_since.FromDatetime(NOW - timedelta(seconds=seconds))
    console = Console(file=io.StringIO(), width=80, highlight=False)
    with console.capture() as captured:
        console.print(describe(workload, NOW))
    return captured.get()


def test_the_slowest_replica_is_named_first() -> None:
    text = shown(wl.PHASE_INITIALIZING)
    assert text.startswith("bert-7 is Initializing\n1 of 3 ready; worker-2 pulls its image (2m)\n")
    rows = [line.split() for line in text.splitlines()]
    assert ["worker-1", "CREATED,", "mounting", "20s", "n7", "-", "-"] in rows
    assert ["worker-2", "CREATED,", "pulling", "2m", "n7", "-", "-"] in rows
    assert ["worker-0", "READY", "-", "n1", "-", "-"] in rows


def test_of_what_does_not_start_nothing_is_said_above() -> None:
    assert "pulls its image" not in shown(wl.PHASE_RUNNING)
